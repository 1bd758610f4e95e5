//! The default range lock, and those that it is compared with, do what every range lock does.

mod common;

use manx::range::{Access, RawRangeLock, Span};

common::range::every_range_lock! {
    range_lock: manx::range::RangeLock<u64>, Exact;
    map: manx::range::baseline::Map, Exact;
    song: manx::range::baseline::Song, Exact;
    interval_tree: manx::range::baseline::IntervalTree, Exact;
    kogan: manx::range::baseline::Kogan, Exact;
    kogan_rw: manx::range::baseline::KoganRw, Exact;
    segments: manx::range::baseline::Segments, Coarse;
    bitmap: manx::range::baseline::Bitmap, Coarse;
    skip_list: manx::range::baseline::SkipList, Exact;
    // To it the highest keys are one.
    skip_list_published: manx::range::baseline::SkipListPublished, Coarse;
}

/// A lock that lets everybody in, unless it `REFUSES` all who try.
struct Broken<const REFUSES: bool>;

// SAFETY: none; that the tests find it is what is tested here.
unsafe impl<const REFUSES: bool> RawRangeLock for Broken<REFUSES> {
    type Held = ();
    const NAME: &'static str = "broken";
    const SHARES: bool = true;

    fn with_space(_space: u64) -> Broken<REFUSES> {
        Broken
    }

    fn try_lock(&self, _span: &Span<u64>, _access: Access) -> Option<()> {
        (!REFUSES).then_some(())
    }

    fn lock(&self, _span: &Span<u64>, _access: Access) {}

    unsafe fn unlock(&self, (): ()) {}
}

#[test]
#[should_panic(expected = "alone with its keys")]
fn a_lock_that_excludes_nobody_is_found_by_its_keys() {
    common::range::holders_are_alone_with_their_keys::<Broken<false>>();
}

#[test]
#[should_panic(expected = "broken")]
fn a_lock_that_excludes_nobody_is_found_by_the_model() {
    common::range::tries_succeed_as_the_model_says::<Broken<false>>();
}

#[test]
#[should_panic(expected = "broken")]
fn a_lock_that_refuses_what_is_free_is_found_by_the_model() {
    common::range::tries_succeed_as_the_model_says::<Broken<true>>();
}
