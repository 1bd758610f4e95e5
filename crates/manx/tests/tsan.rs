//! Waits, locks and snapshots under ThreadSanitizer: what a waiter sees after its wait was written
//! before the signal, what a holder sees by the holder before it, and what a snapshot shows before
//! it was published.
//!
//! `cargo xtask test` runs this with the sanitizer, and with suppressions for what the test harness
//! itself does; otherwise it is an ordinary test. Threads synchronise by atomics and by being
//! joined only, because the standard library is not instrumented.

#[path = "tsan/keys.rs"]
mod keys;
#[path = "tsan/locks.rs"]
mod locks;
#[path = "tsan/ranges.rs"]
mod ranges;
#[path = "tsan/rwlock.rs"]
mod rwlock;
#[path = "tsan/turns.rs"]
mod turns;
#[path = "tsan/txn.rs"]
mod txn;

use manx::wait::{Adaptive, Event, FixedSleep, Mutable, Policy, Spin, Yield};
use platform::atomic::{AtomicBool, Ordering};
use platform::cell::UnsafeCell;
use platform::thread;
use std::time::Duration;

/// A number that no atomic protects, and a flag that says whether a thread has it.
struct Guarded<P> {
    taken: AtomicBool,
    number: UnsafeCell<u64>,
    policy: P,
}

// SAFETY: the number is used only by the thread that turned `taken` from false to true.
unsafe impl<P: Sync> Sync for Guarded<P> {}

const THREADS: u64 = 3;
const TURNS: u64 = 300;

fn counts_alone<P: Policy + Sync + Send + 'static>(policy: P, signal: fn(&P)) {
    let guarded: &'static Guarded<P> =
        Box::leak(Box::new(Guarded { taken: AtomicBool::new(false), number: UnsafeCell::new(0), policy }));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            thread::spawn(move || {
                for _ in 0..TURNS {
                    guarded.policy.until(|| !guarded.taken.swap(true, Ordering::Acquire));
                    // SAFETY: this thread turned the flag to true.
                    guarded.number.with_mut(|number| unsafe { *number += 1 });
                    guarded.taken.store(false, Ordering::Release);
                    signal(&guarded.policy);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("all turns");
    }
    // SAFETY: the other threads have ended.
    assert_eq!(guarded.number.with(|number| unsafe { *number }), THREADS * TURNS);
}

#[test]
fn every_policy_orders_memory() {
    counts_alone(Spin, |_| ());
    counts_alone(Yield, |_| ());
    counts_alone(FixedSleep::new(Duration::from_micros(1)), |_| ());
    counts_alone(Adaptive::DEFAULT.yields(10), |_| ());
    counts_alone(Event::new(), Event::signal_one);
    counts_alone(Event::new(), Event::signal_all);
    counts_alone(Mutable::new(), Mutable::signal_one);
    counts_alone(Mutable::new(), Mutable::signal_all);
}
