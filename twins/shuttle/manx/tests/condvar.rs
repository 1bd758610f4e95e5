//! Condition variables under randomized schedules: more threads and rounds than loom can try,
//! deadlines that race with signals, and a kernel that wakes any thread it likes.
//!
//! A lost wake-up is a deadlock here: a wait without a deadline has nothing else to save it.

mod common;

use common::{join, spawn, start, together};
use manx_shuttle::lock::RawCondvar;
use manx_shuttle::lock::condvar::Outcome;
use platform::explore::check;
use platform::futex::{Clock, Deadline};
use platform::{clock, site};
use shuttle::sync::{Arc, Mutex};

const THREADS: u32 = 6;
const ROUNDS: u32 = 3;
/// Some deadlines pass soon and some late.
const LIMIT_NS: u64 = 20_000;

/// A number under a mutex, and a condition variable for it.
struct Shared {
    number: Mutex<u32>,
    changed: RawCondvar,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { number: Mutex::new(0), changed: RawCondvar::new() })
    }

    /// Waits while the condition is true, and then changes the number; false if the time was up
    /// before.
    fn wait(&self, limited: bool, condition: impl Fn(u32) -> bool, change: impl Fn(u32) -> u32) -> bool {
        let deadline = limited.then(|| Deadline { clock: Clock::Monotonic, ns: clock::now_ns() + LIMIT_NS });
        let mut number = self.number.lock().unwrap();
        while condition(*number) {
            let ticket = self.changed.enter();
            drop(number);
            let outcome = self.changed.sleep(&ticket, deadline);
            self.changed.leave(ticket, outcome);
            number = self.number.lock().unwrap();
            if outcome == Outcome::TimedOut && condition(*number) {
                return false;
            }
        }
        *number = change(*number);
        true
    }

    /// Waits once, and is cancelled however that ends.
    fn be_cancelled(&self) {
        let number = self.number.lock().unwrap();
        let deadline = Deadline { clock: Clock::Monotonic, ns: clock::now_ns() + LIMIT_NS };
        let ticket = self.changed.enter();
        drop(number);
        self.changed.sleep(&ticket, Some(deadline));
        self.changed.leave(ticket, Outcome::Cancelled);
    }

    fn add_one(&self) {
        *self.number.lock().unwrap() += 1;
    }
}

#[test]
fn each_signal_finds_a_taker() {
    check(site!(), || {
        let shared = Shared::new();
        let takers = start(THREADS, &shared, |shared, _| {
            for _ in 0..ROUNDS {
                assert!(shared.wait(false, |number| number == 0, |number| number - 1));
            }
        });
        for _ in 0..THREADS * ROUNDS {
            shared.add_one();
            shared.changed.signal();
        }
        join(takers);
        assert_eq!(*shared.number.lock().unwrap(), 0);
    });
}

#[test]
fn broadcasts_reach_all_in_every_round() {
    check(site!(), || {
        let shared = Shared::new();
        let signaller = spawn(&shared, move |shared| {
            for _ in 0..ROUNDS {
                shared.add_one();
                shared.changed.broadcast();
            }
        });
        together(THREADS, &shared, |shared, _| {
            for round in 1..=ROUNDS {
                assert!(shared.wait(false, |number| number < round, |number| number));
            }
        });
        signaller.join().unwrap();
    });
}

#[test]
fn a_bounded_queue_passes_everything_through_two_variables() {
    /// Room for one.
    struct Queue {
        items: Mutex<u32>,
        filled: RawCondvar,
        emptied: RawCondvar,
    }
    impl Queue {
        fn step(&self, wanted: u32, leaves: u32, wait_for: &RawCondvar, tell: &RawCondvar) {
            let mut items = self.items.lock().unwrap();
            while *items != wanted {
                let ticket = wait_for.enter();
                drop(items);
                wait_for.sleep(&ticket, None);
                items = self.items.lock().unwrap();
            }
            *items = leaves;
            drop(items);
            tell.signal();
        }
    }
    check(site!(), || {
        let queue = Queue { items: Mutex::new(0), filled: RawCondvar::new(), emptied: RawCondvar::new() };
        together(THREADS, &Arc::new(queue), |queue, number| {
            for _ in 0..ROUNDS {
                if number % 2 == 0 {
                    queue.step(0, 1, &queue.emptied, &queue.filled);
                } else {
                    queue.step(1, 0, &queue.filled, &queue.emptied);
                }
            }
        });
    });
}

#[test]
fn deadlines_that_race_with_signals_take_nobodys_wake_up() {
    check(site!(), || {
        // As many signals as the patient ones need; what a hasty one takes, it gives back.
        let shared = Shared::new();
        let takers = start(THREADS, &shared, |shared, number| {
            if number % 2 == 0 {
                assert!(shared.wait(false, |number| number == 0, |number| number - 1));
            } else if shared.wait(true, |number| number == 0, |number| number - 1) {
                shared.add_one();
                shared.changed.signal();
            }
        });
        for _ in 0..THREADS / 2 {
            shared.add_one();
            shared.changed.signal();
        }
        join(takers);
        assert_eq!(*shared.number.lock().unwrap(), 0);
    });
}

#[test]
fn a_cancelled_waiter_passes_on_a_signal_that_it_may_have_got() {
    check(site!(), || {
        let shared = Shared::new();
        let takers = start(THREADS, &shared, |shared, number| {
            if number % 2 == 0 {
                assert!(shared.wait(false, |number| number == 0, |number| number - 1));
            } else {
                shared.be_cancelled();
            }
        });
        for _ in 0..THREADS / 2 {
            shared.add_one();
            shared.changed.signal();
        }
        join(takers);
    });
}

#[test]
fn time_outs_leave_no_tokens_behind() {
    check(site!(), || {
        let shared = Shared::new();
        together(THREADS, &shared, |shared, _| {
            assert!(!shared.wait(true, |_| true, |number| number));
        });
        assert!(!shared.changed.signal(), "without waiters there is nobody to signal");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn one_signal_for_two_would_be_found() {
    check(site!(), || {
        let shared = Shared::new();
        let signaller = spawn(&shared, move |shared| {
            shared.add_one();
            shared.changed.signal();
        });
        together(2, &shared, |shared, _| {
            shared.wait(false, |number| number == 0, |number| number);
        });
        signaller.join().unwrap();
    });
}
