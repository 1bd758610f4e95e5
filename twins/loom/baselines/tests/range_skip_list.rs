//! The thesis' skip list under loom: every order of steps that the memory model allows, up to a
//! number of preemptions.
//!
//! Each key guards a cell that loom watches: two holders at once, or a holder that does not see
//! what the one before it wrote, are reported. So is a node that is freed, or written for its next
//! range, while a thread still reads the last one; and so is a waiter that no thread wakes. Lists
//! have one or two levels, nodes are used again as soon as the epochs allow, and of two nodes one
//! is as high as can be.

#[path = "../../manx/tests/common/mod.rs"]
mod common;

use baselines_loom::range::{SkipList, SkipListHeld};
use common::{check, check_no_more, join, spawn};
use loom::sync::Arc;
use loom::thread;
use manx::range::Span;
use platform::cell::UnsafeCell;

const KEYS: usize = 4;

/// Keys, each with a number that only its holder touches.
struct Guarded {
    lock: SkipList<u64>,
    numbers: [UnsafeCell<u32>; KEYS],
}

// SAFETY: numbers are used by holders of their keys only; loom reports it if that is not enough.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

fn span(start: u64, end: u64) -> Span<u64> {
    Span::new(start, end).expect("the tests' ranges are not empty")
}

impl Guarded {
    fn new(height: usize) -> Arc<Self> {
        let lock = SkipList::with_height(height).expect("a height that there is");
        Arc::new(Guarded { lock, numbers: std::array::from_fn(|_| UnsafeCell::new(0)) })
    }

    /// Adds 1 to each number of the range, which the caller holds.
    fn add(&self, start: u64, end: u64) {
        for number in &self.numbers[start as usize..end as usize] {
            // SAFETY: as the caller says; loom watches.
            number.with_mut(|number| unsafe { *number += 1 });
        }
    }

    fn acquire_and_add(&self, start: u64, end: u64) {
        let held = self.lock.acquire(&span(start, end));
        self.add(start, end);
        self.release(held);
    }

    fn try_and_add(&self, start: u64, end: u64) -> bool {
        let Some(held) = self.lock.try_acquire(&span(start, end)) else { return false };
        self.add(start, end);
        self.release(held);
        true
    }

    fn release(&self, held: SkipListHeld<u64>) {
        self.lock.release(held).expect("what was acquired is released");
    }

    /// Checks that nothing is held any more, and that each number is as expected.
    fn assert_done(&self, expected: [u32; KEYS]) {
        let all = self.lock.try_acquire(&Span::all()).expect("nobody holds a key");
        let numbers: [u32; KEYS] = std::array::from_fn(|at| {
            // SAFETY: all are held.
            self.numbers[at].with(|number| unsafe { *number })
        });
        assert_eq!(numbers, expected);
        self.release(all);
    }
}

fn two_take_turns(height: usize, preemptions: usize) {
    check(preemptions, move || {
        let guarded = Guarded::new(height);
        let other = spawn(&guarded, |guarded| guarded.acquire_and_add(0, 2));
        guarded.acquire_and_add(1, 3);
        other.join().unwrap();
        guarded.assert_done([1, 2, 1, 0]);
    });
}

#[test]
fn two_that_overlap_take_turns() {
    two_take_turns(1, 3);
}

#[test]
fn two_that_overlap_take_turns_at_two_levels() {
    two_take_turns(2, 2);
}

#[test]
fn strangers_never_fail() {
    check(2, || {
        let guarded = Guarded::new(2);
        let other = spawn(&guarded, |guarded| guarded.try_and_add(0, 2) && guarded.try_and_add(1, 2));
        assert!(guarded.try_and_add(2, 3), "nobody else wants it");
        assert!(other.join().unwrap(), "nobody else wants them");
        guarded.assert_done([1, 2, 1, 0]);
    });
}

#[test]
fn a_try_that_meets_a_release_is_alone_or_fails() {
    check(3, || {
        let guarded = Guarded::new(2);
        let held = guarded.lock.acquire(&span(0, 4));
        let other = spawn(&guarded, |guarded| guarded.try_and_add(0, 2));
        guarded.add(0, 4);
        guarded.release(held);
        let tried = u32::from(other.join().unwrap());
        guarded.assert_done([1 + tried, 1 + tried, 1, 1]);
    });
}

/// The newer node begins where the older one does, and may come to stand before it at the upper
/// level while the older one is being unlinked; or what it was to be linked before is gone by then.
/// (The first node of a thread has both levels.)
#[test]
fn one_that_begins_where_a_released_one_did_hides_nothing() {
    check(4, || {
        let guarded = Guarded::new(2);
        let old = guarded.lock.acquire(&span(1, 3));
        let other = spawn(&guarded, |guarded| guarded.try_and_add(1, 2));
        guarded.release(old);
        let new = u32::from(other.join().unwrap());
        guarded.assert_done([0, new, 0, 0]);
    });
}

/// Nodes are used again while another thread walks over them.
fn nodes_are_used_again(height: usize, preemptions: usize) {
    const ROUNDS: u32 = 5;
    check(preemptions, move || {
        let guarded = Guarded::new(height);
        let other = spawn(&guarded, |guarded| guarded.acquire_and_add(2, 3));
        for _ in 0..ROUNDS {
            guarded.acquire_and_add(0, 1);
        }
        other.join().unwrap();
        guarded.assert_done([ROUNDS, 0, 1, 0]);
        for _ in 0..ROUNDS {
            guarded.acquire_and_add(0, 1);
        }
        // Of twelve ranges some had a node that had been another's.
        assert!(guarded.lock.allocated() < 2 * ROUNDS as usize, "nodes come back: {:?}", guarded.lock);
    });
}

#[test]
fn nodes_are_used_again_while_others_walk() {
    nodes_are_used_again(1, 2);
}

#[test]
fn nodes_are_used_again_while_others_walk_at_two_levels() {
    nodes_are_used_again(2, 1);
}

/// A walk stands on a node; another one is lent behind it, both are released and unlinked, and the
/// second is used again, since it was lent after the walk's interval. The first still leads to it.
/// (The walk only looks, so that nothing it does orders what it read before what others write.)
///
/// It passes also if such a walk does go on from the first. So the last sentence of Invariant 4
/// rests on the argument in `epoch.rs` alone.
#[test]
fn a_walk_does_not_go_on_by_way_of_a_node_that_leaves() {
    check_no_more(2, || {
        let guarded = Guarded::new(1);
        let first = guarded.lock.acquire(&span(0, 1));
        let other = spawn(&guarded, |guarded| guarded.lock.is_held(&span(3, 4)));
        for _ in 0..3 {
            // So the epoch advances.
            guarded.acquire_and_add(2, 3);
        }
        let second = guarded.lock.acquire(&span(1, 2));
        guarded.release(first);
        guarded.release(second);
        for _ in 0..5 {
            guarded.acquire_and_add(0, 1);
        }
        assert!(!other.join().unwrap(), "nobody has it");
        guarded.assert_done([5, 0, 3, 0]);
    });
}

/// A pin that begins late, or a node that is tagged too early, and the node is used again under a
/// walk.
#[test]
fn a_pin_is_of_the_epoch_at_which_it_begins() {
    check_no_more(2, || {
        let guarded = Guarded::new(1);
        let held = guarded.lock.acquire(&span(2, 3));
        let held = std::sync::Mutex::new(Some(held));
        let other = spawn(&guarded, move |guarded| {
            let held = held.lock().unwrap().take().expect("taken once");
            guarded.release(held);
            assert!(guarded.try_and_add(0, 1), "nobody else wants it");
        });
        for _ in 0..4 {
            assert!(guarded.try_and_add(3, 4), "nobody else wants it");
        }
        other.join().unwrap();
        guarded.assert_done([1, 0, 0, 4]);
    });
}

#[test]
fn three_that_overlap_take_turns() {
    check(1, || {
        let guarded = Guarded::new(1);
        let held = guarded.lock.acquire(&span(0, 4));
        let others = [
            spawn(&guarded, |guarded| guarded.acquire_and_add(0, 3)),
            spawn(&guarded, |guarded| guarded.acquire_and_add(2, 4)),
        ];
        guarded.add(0, 4);
        guarded.release(held);
        join(others);
        guarded.assert_done([2, 2, 3, 2]);
    });
}

#[test]
fn a_release_wakes_all_waiters_that_it_concerns() {
    check(1, || {
        let guarded = Guarded::new(1);
        let held = guarded.lock.acquire(&Span::all());
        let others = [
            spawn(&guarded, |guarded| guarded.acquire_and_add(0, 2)),
            spawn(&guarded, |guarded| guarded.acquire_and_add(2, 4)),
        ];
        guarded.release(held);
        join(others);
        guarded.assert_done([1; KEYS]);
    });
}

/// The thread that waits for both ranges is woken in vain; the one behind it must not sleep on.
#[test]
fn a_waiter_that_is_woken_in_vain_wakes_the_next() {
    check(1, || {
        let guarded = Guarded::new(1);
        let first = guarded.lock.acquire(&span(0, 1));
        let second = guarded.lock.acquire(&span(2, 3));
        let in_line = |count: usize| {
            while guarded.lock.waiting() < count {
                thread::yield_now();
            }
        };
        let wide = spawn(&guarded, |guarded| guarded.acquire_and_add(0, 3));
        in_line(1);
        let narrow = spawn(&guarded, |guarded| guarded.acquire_and_add(2, 3));
        in_line(2);
        guarded.release(second);
        narrow.join().unwrap();
        guarded.release(first);
        wide.join().unwrap();
        guarded.assert_done([1, 1, 2, 0]);
    });
}
