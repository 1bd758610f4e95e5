//! The range locks that the default one is compared with do what every range lock does.

#[path = "../../../crates/manx/tests/common/mod.rs"]
mod common;

use baselines::range::{SkipList, SkipListHeld};
use manx::range::{Access, RawRangeLock, Span};
use std::thread;

common::range::every_range_lock! {
    map: baselines::range::Map, Exact;
    song: baselines::range::Song, Exact;
    song_spinning: baselines::range::SongSpinning, Exact;
    interval_tree: baselines::range::IntervalTree, Exact;
    kogan: baselines::range::Kogan, Exact;
    kogan_spinning: baselines::range::KoganSpinning, Exact;
    kogan_rw: baselines::range::KoganRw, Exact;
    segments: baselines::range::Segments, Coarse;
    bitmap: baselines::range::Bitmap, Coarse;
    skip_list: baselines::range::SkipList, Exact;
    skip_list_of_one_level: crate::High<1>, Exact;
    skip_list_of_two_levels: crate::High<2>, Exact;
    skip_list_of_all_levels: crate::High<20>, Exact;
    // To it the highest keys are one.
    skip_list_published: baselines::range::SkipListPublished, Coarse;
}

/// The skip list with this number of levels. No thread may be in line when it is dropped.
struct High<const HEIGHT: usize>(SkipList);

// SAFETY: the skip list does all.
unsafe impl<const HEIGHT: usize> RawRangeLock for High<HEIGHT> {
    type Held = SkipListHeld;
    const NAME: &'static str = <SkipList as RawRangeLock>::NAME;
    const SHARES: bool = <SkipList as RawRangeLock>::SHARES;

    fn with_space(_space: u64) -> High<HEIGHT> {
        High(SkipList::with_height(HEIGHT).expect("a height that there is"))
    }

    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<SkipListHeld> {
        self.0.try_lock(span, access)
    }

    fn lock(&self, span: &Span<u64>, access: Access) -> SkipListHeld {
        self.0.lock(span, access)
    }

    unsafe fn unlock(&self, held: SkipListHeld) {
        // SAFETY: the contract is the same.
        unsafe { self.0.unlock(held) };
    }
}

impl<const HEIGHT: usize> Drop for High<HEIGHT> {
    fn drop(&mut self) {
        assert!(thread::panicking() || self.0.waiting() == 0, "a thread is left in line");
    }
}

/// A lock that lets every thread in, unless it `REFUSES` all that try.
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
