//! What every lock does under randomized schedules: more threads and rounds than loom can try. The
//! tests of the package `baselines-shuttle` use this, too.
//!
//! Shuttle models sequentially consistent memory only; the orderings are loom's business
//! (`twins/loom/manx/tests`). A lock that lets two in, forgets a waiter, or never ends is found.

#[path = "guarded.rs"]
mod guarded;

use crate::common::{join, spawn, together};
use guarded::Guarded;
use manx_shuttle::cpu::{Class, set_class_of_this_thread};
use manx_shuttle::lock::RawLock;
use platform::explore::{Site, check};
use platform::thread;
use shuttle::rand::{RngCore, thread_rng};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU32, Ordering};

const THREADS: u32 = 5;
const ROUNDS: u32 = 3;

pub fn all_take_turns<L: RawLock + 'static>(site: Site) {
    check(site, || {
        let guarded = Guarded::<L>::new();
        together(THREADS, &guarded, |guarded, number| {
            set_class_of_this_thread(Some(if number % 2 == 0 { Class::Little } else { Class::Big }));
            (0..ROUNDS).for_each(|_| guarded.lock(number));
        });
        assert_eq!(guarded.order().len() as u32, THREADS * ROUNDS);
    });
}

pub fn some_only_try<L: RawLock + 'static>(site: Site) {
    check(site, || {
        let shared = Arc::new((Guarded::<L>::new(), AtomicU32::new(0)));
        together(THREADS, &shared, |(guarded, tried), number| {
            for _ in 0..ROUNDS {
                if number % 2 == 0 {
                    guarded.lock(number);
                    tried.fetch_add(1, Ordering::Relaxed);
                } else if guarded.try_lock(number) {
                    tried.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(shared.0.order().len() as u32, shared.1.load(Ordering::Relaxed));
    });
}

/// Each holds some of three locks at once, and releases them in any order.
pub fn several_at_once<L: RawLock + 'static>(site: Site) {
    check(site, || {
        let guarded = Arc::new([Guarded::<L>::new(), Guarded::<L>::new(), Guarded::<L>::new()]);
        together(THREADS, &guarded, |guarded, number| {
            for _ in 0..ROUNDS {
                let mut held: Vec<_> = guarded.iter().map(|guarded| (guarded, guarded.lock.lock())).collect();
                while !held.is_empty() {
                    let at = thread_rng().next_u64() as usize % held.len();
                    let (guarded, held) = held.swap_remove(at);
                    guarded.write_down(number);
                    // SAFETY: locked above, by what it returned.
                    unsafe { guarded.lock.unlock(held) };
                }
            }
        });
        for guarded in guarded.iter() {
            assert_eq!(guarded.order().len() as u32, THREADS * ROUNDS);
        }
    });
}

/// A thread that has been seen to stand in line is let in before any later one, also before a
/// holder that has just had the lock and comes back at once.
pub fn first_in_first_out<L: RawLock + 'static>(site: Site, last_in_line: fn(&L) -> usize) {
    check(site, move || {
        let guarded = Guarded::<L>::new();
        let held = guarded.lock.lock();
        let waiters: Vec<_> = (0..THREADS)
            .map(|waiter| {
                let number = waiter + 1;
                let before = last_in_line(&guarded.lock);
                let waiter = spawn(&guarded, move |guarded| guarded.lock(number));
                while last_in_line(&guarded.lock) == before {
                    thread::yield_now();
                }
                waiter
            })
            .collect();
        guarded.write_down(0);
        // SAFETY: locked above.
        unsafe { guarded.lock.unlock(held) };
        guarded.lock(THREADS + 1);
        join(waiters);
        assert_eq!(guarded.order(), (0..THREADS + 2).collect::<Vec<_>>());
    });
}

macro_rules! every_lock {
    ($($name:ident: $lock:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            pub fn all_take_turns() {
                crate::locks::all_take_turns::<$lock>(site!());
            }

            #[test]
            pub fn some_only_try() {
                crate::locks::some_only_try::<$lock>(site!());
            }
        }
    )*};
}

pub(crate) use every_lock;
