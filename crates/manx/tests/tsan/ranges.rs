//! The default range lock under ThreadSanitizer.

use super::keys::{orders_memory, orders_memory_by};
use manx::range::{Options, RangeLock};
use std::time::Duration;

/// In one shard, on the heap, over several shards and wide; with waiters that are handed their
/// ranges and others that are told to look.
#[test]
fn the_default_range_lock_orders_memory() {
    orders_memory::<RangeLock>();
    let options = Options::new().block_log2(0);
    for options in [options, options.window(Duration::ZERO), options.window(Duration::MAX)] {
        orders_memory_by(RangeLock::<u64, 1, 1>::with(options));
        orders_memory_by(RangeLock::<u64, 4, 1>::with(options));
        orders_memory_by(RangeLock::<u64, 64, 8>::with(options));
    }
}
