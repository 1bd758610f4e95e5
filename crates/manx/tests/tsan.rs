//! What a wait hands over is seen whole: plain memory behind a flag, for every policy that others signal.
//!
//! These tests are for ThreadSanitizer (`cargo xtask test tsan`), which watches the plain accesses; they
//! run without it as well and then check the sums. They synchronise by atomics and by joining threads
//! only, since the standard library is not instrumented.

use manx::wait::{Adaptive, Event, Mutable, Policy};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Memory that its users keep order about.
struct Plain(UnsafeCell<u64>);

// SAFETY: each test says who may touch it when; that this holds is what is tested.
unsafe impl Sync for Plain {}

impl Plain {
    const fn new() -> Plain {
        Plain(UnsafeCell::new(0))
    }

    fn add(&self, value: u64) -> u64 {
        // SAFETY: the test's protocol gives this thread the cell alone.
        unsafe {
            *self.0.get() += value;
            *self.0.get()
        }
    }
}

const ROUNDS: u64 = 2_000;

#[test]
fn a_lock_whose_waiters_spin_or_park_by_turns_guards_plain_memory() {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    static FREED: Mutable = Mutable::new();
    static COUNT: Plain = Plain::new();

    let work = || {
        for _ in 0..ROUNDS {
            let mut backoff = FREED.start();
            while TAKEN.swap(true, Ordering::Acquire) {
                backoff.wait();
            }
            COUNT.add(1);
            TAKEN.store(false, Ordering::Release);
            FREED.signal_one();
        }
    };
    let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(work)).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(COUNT.add(0), 3 * ROUNDS);
}

#[test]
fn plain_memory_goes_to_and_fro_between_waiters_of_an_event() {
    static TURN: AtomicU64 = AtomicU64::new(0);
    static EVENT: Event = Event::new();
    static BALL: Plain = Plain::new();

    // Thread p has the ball in the turns whose number has the parity p.
    let play = |parity: u64| {
        for turn in (0..2 * ROUNDS).filter(|turn| turn % 2 == parity) {
            let mut backoff = EVENT.start_spinning(2);
            while TURN.load(Ordering::Acquire) != turn {
                backoff.wait();
            }
            assert_eq!(BALL.add(1), turn + 1);
            TURN.store(turn + 1, Ordering::Release);
            EVENT.signal_all();
        }
    };
    let other = std::thread::spawn(move || play(1));
    play(0);
    other.join().unwrap();
}

#[test]
fn an_adaptive_waiter_sees_what_was_written_before_the_flag() {
    static TURN: AtomicU64 = AtomicU64::new(0);
    static BALL: Plain = Plain::new();

    let play = |parity: u64| {
        for turn in (0..ROUNDS).filter(|turn| turn % 2 == parity) {
            Adaptive::DEFAULT.until(|| TURN.load(Ordering::Acquire) == turn);
            assert_eq!(BALL.add(1), turn + 1);
            TURN.store(turn + 1, Ordering::Release);
        }
    };
    let other = std::thread::spawn(move || play(1));
    play(0);
    other.join().unwrap();
}
