//! The range locks that the default one is compared with, under loom: every order of steps that the
//! memory model allows.
//!
//! Each key has a cell that loom watches: two holders at once, a holder that does not see what the
//! one before it wrote, and a node of a list that is written again while a thread still looks at it
//! are reported; so is a range that its waiters never get. Waits yield here, so a thread that waits
//! lets others go first. (Song's list is under a spin lock and nothing else, and a waiter asks for
//! it again and again: of that loom sees no end.)

#[path = "../../manx/tests/common/mod.rs"]
mod common;
#[path = "common/keys.rs"]
mod keys;

use Access::{Exclusive, Shared};
use baselines_loom::range::{Bitmap, IntervalTree, Kogan, KoganRw, Segments};
use common::{check, join, spawn};
use keys::{Guarded, span};
use loom::sync::Arc;
use loom::thread;
use manx::range::{Access, RawRangeLock, Span};

/// Two threads take ranges that overlap, one of them twice, so that what was used is used again.
fn two_overlap<L: RawRangeLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let other = spawn(&guarded, |guarded| guarded.lock((1, 3), Exclusive));
        guarded.lock((0, 2), Exclusive);
        guarded.lock((2, 4), Exclusive);
        other.join().unwrap();
        guarded.assert_done([1, 2, 2, 1]);
    });
}

/// A thread that holds one range takes another beside those of the other thread, and gives them
/// back out of order.
fn two_hold_several<L: RawRangeLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let other = spawn(&guarded, |guarded| {
            let high = guarded.lock.lock(&span((3, 4)), Exclusive);
            guarded.lock((1, 2), Exclusive);
            guarded.work((3, 4), Exclusive, high);
        });
        let low = guarded.lock.lock(&span((0, 1)), Exclusive);
        guarded.lock((2, 3), Exclusive);
        guarded.work((0, 1), Exclusive, low);
        other.join().unwrap();
        guarded.assert_done([1, 1, 1, 1]);
    });
}

/// Three threads: one has what overlaps both others'. (Two that wait for each other's keys could
/// take turns for ever, as loom sees it, and never let the third one run.)
fn three_overlap<L: RawRangeLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let held = guarded.lock.lock(&span((1, 3)), Exclusive);
        let others = [
            spawn(&guarded, |guarded| guarded.lock((0, 2), Exclusive)),
            spawn(&guarded, |guarded| guarded.lock((2, 4), Exclusive)),
        ];
        guarded.work((1, 3), Exclusive, held);
        join(others);
        guarded.assert_done([1, 2, 2, 1]);
    });
}

/// One waits and one only tries, which leaves nothing behind, whether or not it succeeds.
fn one_tries<L: RawRangeLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let other = spawn(&guarded, |guarded| u32::from(guarded.try_lock((0, 3), Exclusive)));
        guarded.lock((1, 4), Exclusive);
        let tried = other.join().unwrap();
        guarded.assert_done([tried, 1 + tried, 1 + tried, 1]);
    });
}

/// One shares early keys, one wants later ones of them alone, with a range in between that the
/// first one shares: where the reader is linked is not where the other one looks.
fn one_shares_beside_another<L: RawRangeLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let between = guarded.lock.lock(&span((1, 2)), Shared);
        let other = spawn(&guarded, |guarded| guarded.lock((2, 3), Exclusive));
        guarded.lock((0, 4), Shared);
        guarded.work((1, 2), Shared, between);
        other.join().unwrap();
        guarded.assert_done([0, 0, 1, 0]);
    });
}

/// The same with tries; one of them may give way.
fn one_tries_to_share_beside_another<L: RawRangeLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let between = guarded.lock.lock(&span((1, 2)), Shared);
        let other = spawn(&guarded, |guarded| u32::from(guarded.try_lock((2, 3), Exclusive)));
        guarded.try_lock((0, 4), Shared);
        guarded.work((1, 2), Shared, between);
        let tried = other.join().unwrap();
        guarded.assert_done([0, 0, tried, 0]);
    });
}

/// Two share, and one wants the same keys alone.
fn two_share_and_one_writes<L: RawRangeLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let others = [
            spawn(&guarded, |guarded| guarded.lock((0, 2), Shared)),
            spawn(&guarded, |guarded| guarded.lock((1, 2), Exclusive)),
        ];
        guarded.lock((1, 3), Shared);
        join(others);
        guarded.assert_done([0, 1, 0, 0]);
    });
}

/// Nodes are released, unlinked by others, and used again while a third thread walks past them.
fn nodes_are_used_again<L: RawRangeLock + 'static>(preemptions: usize) {
    check(preemptions, || {
        let guarded = Guarded::<L>::new();
        let low = guarded.lock.lock(&span((0, 1)), Exclusive);
        let other = spawn(&guarded, |guarded| {
            guarded.lock((2, 3), Exclusive);
            guarded.lock((1, 2), Exclusive);
            guarded.lock((3, 4), Exclusive);
        });
        guarded.lock((3, 4), Exclusive);
        guarded.lock((2, 3), Exclusive);
        guarded.work((0, 1), Exclusive, low);
        other.join().unwrap();
        guarded.assert_done([1, 1, 2, 2]);
    });
}

/// What all of them do; each line says how many preemptions an execution has at most.
macro_rules! exclusion {
    ($($name:ident: $lock:ty, $two:expr, $three:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn two_overlap() {
                super::two_overlap::<$lock>($two);
            }

            #[test]
            fn two_hold_several() {
                super::two_hold_several::<$lock>($two);
            }

            #[test]
            fn three_overlap() {
                super::three_overlap::<$lock>($three);
            }

            #[test]
            fn one_tries() {
                super::one_tries::<$lock>($two);
            }
        }
    )*};
}

/// What the sharing locks do.
macro_rules! sharing {
    ($($name:ident: $lock:ty, $two:expr, $three:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn one_shares_beside_another() {
                super::one_shares_beside_another::<$lock>($two);
            }

            #[test]
            fn one_tries_to_share_beside_another() {
                super::one_tries_to_share_beside_another::<$lock>($two);
            }

            #[test]
            fn two_share_and_one_writes() {
                super::two_share_and_one_writes::<$lock>($three);
            }
        }
    )*};
}

exclusion! {
    kogan: Kogan, 2, 1;
    kogan_rw: KoganRw, 2, 1;
    segments: Segments, 3, 1;
    bitmap: Bitmap, 3, 1;
    interval_tree: IntervalTree, 2, 1;
}

sharing! {
    kogan_rw_shares: KoganRw, 3, 1;
    segments_share: Segments, 3, 1;
    interval_tree_shares: IntervalTree, 2, 1;
}

#[test]
fn kogan_uses_nodes_again() {
    nodes_are_used_again::<Kogan>(2);
}

#[test]
fn kogan_rw_uses_nodes_again() {
    nodes_are_used_again::<KoganRw>(2);
}

/// A range takes several words, and finds a later one taken.
#[test]
fn a_bitmap_undoes_what_it_took() {
    check(3, || {
        let guarded = Guarded::of(Bitmap::of_width(4 * 64, 1));
        let low = |guarded: &Guarded<Bitmap>| guarded.lock.try_lock(&span((0, 129)), Exclusive);
        let other = {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || {
                let held = guarded.lock.lock(&span((63, 65)), Exclusive);
                guarded.work((0, 1), Exclusive, held);
            })
        };
        if let Some(held) = low(&guarded) {
            guarded.work((0, 1), Exclusive, held);
        }
        other.join().unwrap();
        let again = low(&guarded).expect("nobody holds anything");
        guarded.work((1, 2), Exclusive, again);
    });
}

/// Loom would find what these tests look for: a lock that excludes no thread.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_lock_that_excludes_nobody_is_found() {
    struct Nothing;
    // SAFETY: none; that is what the test is about.
    unsafe impl RawRangeLock for Nothing {
        type Held = ();
        const NAME: &'static str = "nothing";
        const SHARES: bool = false;

        fn with_space(_space: u64) -> Nothing {
            Nothing
        }

        fn try_lock(&self, _span: &Span<u64>, _access: Access) -> Option<()> {
            Some(())
        }

        fn lock(&self, _span: &Span<u64>, _access: Access) {}

        unsafe fn unlock(&self, (): ()) {}
    }
    two_overlap::<Nothing>(2);
}
