//! The range locks that the default one is compared with do what every range lock does.

mod common;

common::range::every_range_lock! {
    map: manx::range::baseline::Map, Exact;
    song: manx::range::baseline::Song, Exact;
    interval_tree: manx::range::baseline::IntervalTree, Exact;
    kogan: manx::range::baseline::Kogan, Exact;
    kogan_rw: manx::range::baseline::KoganRw, Exact;
    segments: manx::range::baseline::Segments, Coarse;
    bitmap: manx::range::baseline::Bitmap, Coarse;
}
