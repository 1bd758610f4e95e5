//! Condition variables under loom: every order of steps that the memory model allows.
//!
//! The mutex is loom's own, because these proofs are about the variable. A lost wake-up is a
//! deadlock here: a wait without a deadline has nothing else to save it. A wait with one times out
//! after others went first, and so shows what giving up does to waiters that stay. That loom would
//! find what these tests look for is a test of its own, at the end.

mod common;

use common::{check, join, spawn};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use manx_loom::lock::RawCondvar;
use manx_loom::lock::condvar::Outcome;
use platform::futex::{Clock, Deadline};

const SOON: Option<Deadline> = Some(Deadline { clock: Clock::Monotonic, ns: 2_000_000_000 });

/// A number under a mutex, and a condition variable for it.
struct Shared {
    number: Mutex<u32>,
    changed: RawCondvar,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { number: Mutex::new(0), changed: RawCondvar::new() })
    }

    /// Waits without a limit while the condition is true; then changes the number.
    fn wait_while(&self, condition: impl Fn(u32) -> bool, change: impl Fn(u32) -> u32) {
        let mut number = self.number.lock().unwrap();
        while condition(*number) {
            let ticket = self.changed.enter();
            drop(number);
            let outcome = self.changed.sleep(&ticket, None);
            self.changed.leave(ticket, outcome);
            number = self.number.lock().unwrap();
        }
        *number = change(*number);
    }

    /// Waits once, if the condition is true, and gives up soon or is cancelled.
    fn wait_once(&self, condition: impl Fn(u32) -> bool, cancelled: bool) {
        let number = self.number.lock().unwrap();
        if !condition(*number) {
            return;
        }
        let ticket = self.changed.enter();
        drop(number);
        let outcome = self.changed.sleep(&ticket, SOON);
        self.changed.leave(ticket, if cancelled { Outcome::Cancelled } else { outcome });
    }

    /// Waits once without a limit, and is cancelled as it wakes: it may have had another waiter's
    /// signal.
    fn wait_and_be_cancelled(&self, condition: impl Fn(u32) -> bool) {
        let number = self.number.lock().unwrap();
        if !condition(*number) {
            return;
        }
        let ticket = self.changed.enter();
        drop(number);
        assert_eq!(self.changed.sleep(&ticket, None), Outcome::Woken);
        self.changed.leave(ticket, Outcome::Cancelled);
    }

    fn change(&self, change: impl Fn(u32) -> u32) {
        let mut number = self.number.lock().unwrap();
        *number = change(*number);
    }
}

#[test]
fn a_signal_after_the_unlock_wakes_the_waiter() {
    check(4, || {
        let shared = Shared::new();
        let waiter = spawn(&shared, |shared| shared.wait_while(|number| number == 0, |_| 2));
        shared.change(|_| 1);
        shared.changed.signal();
        join([waiter]);
        assert!(!shared.changed.signal(), "nobody is left");
    });
}

#[test]
fn a_signal_under_the_mutex_wakes_the_waiter() {
    check(4, || {
        let shared = Shared::new();
        let waiter = spawn(&shared, |shared| shared.wait_while(|number| number == 0, |_| 2));
        let mut number = shared.number.lock().unwrap();
        *number = 1;
        shared.changed.signal();
        drop(number);
        join([waiter]);
    });
}

#[test]
fn a_broadcast_wakes_all() {
    check(3, || {
        let shared = Shared::new();
        let wait = |shared: &Shared| shared.wait_while(|number| number == 0, |number| number);
        let waiters = [spawn(&shared, wait), spawn(&shared, wait)];
        shared.change(|_| 1);
        shared.changed.broadcast();
        join(waiters);
        assert_eq!(shared.changed.broadcast(), 0, "nobody is left");
    });
}

#[test]
fn as_many_signals_as_waiters_wake_all() {
    check(3, || {
        let shared = Shared::new();
        let take = |shared: &Shared| shared.wait_while(|number| number == 0, |number| number - 1);
        let takers = [spawn(&shared, take), spawn(&shared, take)];
        for _ in 0..2 {
            shared.change(|number| number + 1);
            shared.changed.signal();
        }
        join(takers);
    });
}

#[test]
fn signals_of_two_threads_wake_two() {
    check(3, || {
        let shared = Shared::new();
        let give = |shared: &Shared| {
            shared.change(|number| number + 1);
            shared.changed.signal();
        };
        let giver = spawn(&shared, give);
        let taker = spawn(&shared, |shared| shared.wait_while(|number| number == 0, |number| number - 1));
        let other = spawn(&shared, |shared| shared.wait_while(|number| number == 0, |number| number - 1));
        give(&shared);
        join([giver, taker, other]);
    });
}

#[test]
fn two_pass_a_number_to_and_fro() {
    check(4, || {
        let shared = Shared::new();
        let other = spawn(&shared, |shared| {
            shared.wait_while(|number| number != 1, |_| 2);
            shared.changed.signal();
        });
        shared.change(|_| 1);
        shared.changed.signal();
        shared.wait_while(|number| number != 2, |_| 3);
        join([other]);
    });
}

/// One gives up while a signal is on its way that another needs; the waiter that gives up passes
/// one on itself, because the signal may have been meant for it.
fn a_waiter_that_gives_up_takes_nothing_from_others(cancelled: bool) {
    check(4, move || {
        let shared = Shared::new();
        let hasty = spawn(&shared, move |shared| {
            shared.wait_once(|number| number == 0, cancelled);
            if !cancelled {
                shared.changed.signal();
            }
        });
        let patient = spawn(&shared, |shared| shared.wait_while(|number| number == 0, |number| number));
        shared.change(|_| 1);
        shared.changed.signal();
        join([hasty, patient]);
    });
}

#[test]
fn a_time_out_that_races_with_a_signal_takes_nobodys_token() {
    a_waiter_that_gives_up_takes_nothing_from_others(false);
}

#[test]
fn a_cancelled_wait_that_races_with_a_signal_takes_nobodys_token() {
    a_waiter_that_gives_up_takes_nothing_from_others(true);
}

#[test]
fn a_token_that_came_after_a_signal_is_not_taken_back_by_an_earlier_waiter() {
    check(4, || {
        let shared = Shared::new();
        // Gives up while the first signal, which no waiter needs, is on its way.
        let hasty = spawn(&shared, |shared| shared.wait_once(|number| number == 0, false));
        let patient = spawn(&shared, |shared| shared.wait_while(|number| number != 2, |number| number));
        shared.changed.signal();
        join([hasty]);
        shared.change(|_| 2);
        shared.changed.signal();
        join([patient]);
    });
}

#[test]
fn a_waiter_that_was_woken_and_is_cancelled_passes_the_signal_on() {
    check(3, || {
        let shared = Shared::new();
        let cancelled = spawn(&shared, |shared| shared.wait_and_be_cancelled(|number| number == 0));
        let patient = spawn(&shared, |shared| {
            shared.wait_while(|number| number == 0, |number| number);
            // It may have had the only signal, and passes it on in its turn.
            shared.changed.signal();
        });
        shared.change(|_| 1);
        shared.changed.signal();
        join([cancelled, patient]);
    });
}

#[test]
fn a_time_out_leaves_nobody_behind() {
    check(4, || {
        let shared = Shared::new();
        let hasty = spawn(&shared, |shared| shared.wait_once(|_| true, false));
        shared.wait_once(|_| true, false);
        join([hasty]);
        assert!(!shared.changed.signal(), "a signal would find nobody, and knows it");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_would_find_a_change_that_is_made_after_its_signal() {
    check(3, || {
        // The standard library's: loom's own cannot be dropped once an execution has failed.
        use std::sync::Arc;
        let shared = Arc::new((AtomicU32::new(0), RawCondvar::new()));
        let waiter = spawn(&shared, move |shared| {
            while shared.0.load(Ordering::Acquire) == 0 {
                let ticket = shared.1.enter();
                shared.1.sleep(&ticket, None);
            }
        });
        shared.1.signal();
        shared.0.store(1, Ordering::Release);
        waiter.join().unwrap();
    });
}
