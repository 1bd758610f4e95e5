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
#[path = "common/keys.rs"]
mod keys;

use baselines_loom::range::SkipList;
use common::{check, check_no_more, join, spawn};
use keys::{Guarded, KEYS, span};
use loom::sync::Arc;
use loom::thread;
use manx::range::Access::Exclusive;
use manx::range::Span;

/// Keys that a list of this height guards.
fn guarded(height: usize) -> Arc<Guarded<SkipList>> {
    Guarded::of(SkipList::with_height(height).expect("a height that there is"))
}

fn two_take_turns(height: usize, preemptions: usize) {
    check(preemptions, move || {
        let guarded = guarded(height);
        let other = spawn(&guarded, |guarded| guarded.lock((0, 2), Exclusive));
        guarded.lock((1, 3), Exclusive);
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
        let guarded = guarded(2);
        let other = spawn(&guarded, |guarded| {
            guarded.try_lock((0, 2), Exclusive) && guarded.try_lock((1, 2), Exclusive)
        });
        assert!(guarded.try_lock((2, 3), Exclusive), "nobody else wants it");
        assert!(other.join().unwrap(), "nobody else wants them");
        guarded.assert_done([1, 2, 1, 0]);
    });
}

#[test]
fn a_try_that_meets_a_release_is_alone_or_fails() {
    check(3, || {
        let guarded = guarded(2);
        let held = guarded.lock.acquire(&span((0, 4)));
        let other = spawn(&guarded, |guarded| guarded.try_lock((0, 2), Exclusive));
        guarded.work((0, 4), Exclusive, held);
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
        let guarded = guarded(2);
        let old = guarded.lock.acquire(&span((1, 3)));
        let other = spawn(&guarded, |guarded| guarded.try_lock((1, 2), Exclusive));
        guarded.unlock(old);
        let new = u32::from(other.join().unwrap());
        guarded.assert_done([0, new, 0, 0]);
    });
}

/// Nodes are used again while another thread walks over them.
fn nodes_are_used_again(height: usize, preemptions: usize) {
    const ROUNDS: u32 = 5;
    check(preemptions, move || {
        let guarded = guarded(height);
        let other = spawn(&guarded, |guarded| guarded.lock((2, 3), Exclusive));
        for _ in 0..ROUNDS {
            guarded.lock((0, 1), Exclusive);
        }
        other.join().unwrap();
        guarded.assert_done([ROUNDS, 0, 1, 0]);
        for _ in 0..ROUNDS {
            guarded.lock((0, 1), Exclusive);
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
        let guarded = guarded(1);
        let first = guarded.lock.acquire(&span((0, 1)));
        let other = spawn(&guarded, |guarded| guarded.lock.is_held(&span((3, 4))));
        for _ in 0..3 {
            // So the epoch advances.
            guarded.lock((2, 3), Exclusive);
        }
        let second = guarded.lock.acquire(&span((1, 2)));
        guarded.unlock(first);
        guarded.unlock(second);
        for _ in 0..5 {
            guarded.lock((0, 1), Exclusive);
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
        let guarded = guarded(1);
        let held = guarded.lock.acquire(&span((2, 3)));
        let held = std::sync::Mutex::new(Some(held));
        let other = spawn(&guarded, move |guarded| {
            let held = held.lock().unwrap().take().expect("taken once");
            guarded.unlock(held);
            assert!(guarded.try_lock((0, 1), Exclusive), "nobody else wants it");
        });
        for _ in 0..4 {
            assert!(guarded.try_lock((3, 4), Exclusive), "nobody else wants it");
        }
        other.join().unwrap();
        guarded.assert_done([1, 0, 0, 4]);
    });
}

#[test]
fn three_that_overlap_take_turns() {
    check(1, || {
        let guarded = guarded(1);
        let held = guarded.lock.acquire(&span((0, 4)));
        let others = [
            spawn(&guarded, |guarded| guarded.lock((0, 3), Exclusive)),
            spawn(&guarded, |guarded| guarded.lock((2, 4), Exclusive)),
        ];
        guarded.work((0, 4), Exclusive, held);
        join(others);
        guarded.assert_done([2, 2, 3, 2]);
    });
}

#[test]
fn a_release_wakes_all_waiters_that_it_concerns() {
    check(1, || {
        let guarded = guarded(1);
        let held = guarded.lock.acquire(&Span::all());
        let others = [
            spawn(&guarded, |guarded| guarded.lock((0, 2), Exclusive)),
            spawn(&guarded, |guarded| guarded.lock((2, 4), Exclusive)),
        ];
        guarded.unlock(held);
        join(others);
        guarded.assert_done([1; KEYS as usize]);
    });
}

/// The thread that waits for both ranges is woken in vain; the one behind it must not sleep on.
#[test]
fn a_waiter_that_is_woken_in_vain_wakes_the_next() {
    check(1, || {
        let guarded = guarded(1);
        let first = guarded.lock.acquire(&span((0, 1)));
        let second = guarded.lock.acquire(&span((2, 3)));
        let in_line = |count: usize| {
            while guarded.lock.waiting() < count {
                thread::yield_now();
            }
        };
        let wide = spawn(&guarded, |guarded| guarded.lock((0, 3), Exclusive));
        in_line(1);
        let narrow = spawn(&guarded, |guarded| guarded.lock((2, 3), Exclusive));
        in_line(2);
        guarded.unlock(second);
        narrow.join().unwrap();
        guarded.unlock(first);
        wide.join().unwrap();
        guarded.assert_done([1, 1, 2, 0]);
    });
}
