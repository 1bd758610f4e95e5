//! The range locks that manx's default one is compared with, each as its authors describe it and
//! made correct.
//!
//! All of them are [`RawRangeLock`](manx::range::RawRangeLock)s over integers.

mod bitmap;
mod blocks;
mod interval_tree;
mod kogan;
mod queue;
mod segments;
mod sequential;
mod skip_list;
mod skip_list_published;
mod song;
mod spinlock;

pub use bitmap::{Bitmap, BitmapHeld};
pub use interval_tree::{IntervalTree, IntervalTreeHeld};
pub use kogan::{Kogan, KoganHeld, KoganRw, KoganSpinning, ListLock};
pub use segments::{Segments, SegmentsHeld};
pub use skip_list::{HeightOutOfRange, SkipList, SkipListHeld};
pub use skip_list_published::{SkipListPublished, SkipListPublishedHeld};
pub use song::{Song, SongHeld, SongLock, SongSpinning};
platform::os_only! {
    mod map;

    pub use map::{Map, MapHeld};
}
