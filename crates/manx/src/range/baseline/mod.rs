//! The range locks that the default one is compared with, each as its authors describe it and made correct.
//!
//! All of them are [`RawRangeLock`](super::RawRangeLock)s over integers.

mod bitmap;
mod blocks;
mod interval_tree;
mod segments;
mod song;
mod spinlock;

pub use bitmap::{Bitmap, BitmapHeld};
pub use interval_tree::{IntervalTree, IntervalTreeHeld};
pub use segments::{Segments, SegmentsHeld};
pub use song::{Song, SongHeld};
platform::os_only! {
    mod map;

    pub use map::{Map, MapHeld};
}
