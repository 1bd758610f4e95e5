//! The range locks under ThreadSanitizer.
//!
//! `Map` is not among them: it is under a mutex of the standard library, which is not instrumented.

use super::keys::orders_memory;
use baselines::range::{Bitmap, IntervalTree, Kogan, KoganRw, Segments, SkipList, SkipListPublished, Song};

#[test]
fn range_locks_order_memory() {
    orders_memory::<Song>();
    orders_memory::<IntervalTree>();
    orders_memory::<Kogan>();
    orders_memory::<KoganRw>();
    orders_memory::<Segments>();
    orders_memory::<Bitmap>();
    orders_memory::<SkipList>();
    orders_memory::<SkipListPublished>();
}
