//! [`Once`] under loom: the work is done once, every caller sees what it wrote, and no sleeper is
//! forgotten, which would be a deadlock here.

mod common;

use common::{check, join, spawn};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use manx_loom::lock::{Once, OnceState};
use std::panic::{AssertUnwindSafe, catch_unwind};

struct Shared {
    once: Once,
    number: UnsafeCell<u32>,
}

// SAFETY: the work alone writes the number, and callers read it after the work is done; loom
// reports if that is not so.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn add_one(&self) {
        // SAFETY: only the work calls this; loom checks that it is alone.
        self.number.with_mut(|number| unsafe { *number += 1 });
    }

    fn number(&self) -> u32 {
        // SAFETY: the caller has seen that the work is done; loom checks it.
        self.number.with(|number| unsafe { *number })
    }
}

/// This many threads besides the first run `call`, in every order.
fn together(preemptions: usize, others: usize, call: impl Fn(&Shared) + Copy + Send + Sync + 'static) {
    check(preemptions, move || {
        let shared = Arc::new(Shared { once: Once::new(), number: UnsafeCell::new(0) });
        let threads: Vec<_> = (0..others).map(|_| spawn(&shared, move |shared| call(shared))).collect();
        call(&shared);
        join(threads);
        assert_eq!((shared.number(), shared.once.state()), (1, OnceState::Done));
    });
}

#[test]
fn two_callers_see_the_work_done_once() {
    together(3, 1, |shared| {
        shared.once.call_once(|| shared.add_one());
        assert_eq!(shared.number(), 1);
    });
}

#[test]
fn three_callers_see_the_work_done_once() {
    together(2, 2, |shared| {
        shared.once.call_once(|| shared.add_one());
        assert_eq!(shared.number(), 1);
    });
}

#[test]
fn after_a_panic_the_next_caller_does_the_work_and_sleepers_wake() {
    together(3, 1, |shared| {
        // The first attempt of all panics before it writes.
        let attempt = || {
            shared.once.call_once_force(|before| {
                assert!(before.poisoned(), "the first attempt");
                shared.add_one();
            });
        };
        if catch_unwind(AssertUnwindSafe(attempt)).is_err() {
            attempt();
        }
        assert_eq!(shared.number(), 1);
    });
}

#[test]
fn a_waiter_that_does_no_work_sees_it_done_and_is_woken() {
    check(3, || {
        let shared = Arc::new(Shared { once: Once::new(), number: UnsafeCell::new(0) });
        let waiter = spawn(&shared, |shared| {
            shared.once.wait();
            assert_eq!(shared.number(), 1);
        });
        shared.once.call_once(|| shared.add_one());
        join([waiter]);
    });
}
