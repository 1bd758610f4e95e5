//! Locks that are first in, first out: who comes first is let in first.
//!
//! One thread at a time stands in line, and only then the next one comes, so there is one right order.

use manx::lock::{Fifo, Mcs, McsPark, RawLock, Ticket};
use platform::cell::UnsafeCell;
use std::thread;

struct Guarded<L> {
    lock: L,
    order: UnsafeCell<Vec<usize>>,
}

// SAFETY: the order is used by holders of the lock only.
unsafe impl<L: RawLock> Sync for Guarded<L> {}

const WAITERS: usize = 6;

fn first_in_first_out<L: Fifo + 'static>() {
    let guarded = Guarded { lock: L::new(), order: UnsafeCell::new(Vec::new()) };
    let guarded = &guarded;
    for round in 0..2 {
        let held = guarded.lock.lock();
        thread::scope(|scope| {
            for number in 0..WAITERS {
                let before = guarded.lock.last_in_line();
                scope.spawn(move || {
                    let held = guarded.lock.lock();
                    // SAFETY: this thread holds the lock.
                    guarded.order.with_mut(|order| unsafe { (*order).push(number) });
                    // SAFETY: by `held`.
                    unsafe { guarded.lock.unlock(held) };
                });
                while guarded.lock.last_in_line() == before {
                    thread::yield_now();
                }
            }
            assert!(guarded.lock.try_lock().is_none(), "a try does not overtake");
            // SAFETY: by `held`.
            unsafe { guarded.lock.unlock(held) };
        });
        // SAFETY: all others have ended.
        let order = guarded.order.with_mut(|order| unsafe { std::mem::take(&mut *order) });
        assert!(order.iter().copied().eq(0..WAITERS), "round {round}: {order:?}");
    }
}

#[test]
fn the_ticket_lock_lets_in_by_arrival() {
    first_in_first_out::<Ticket>();
}

#[test]
fn the_mcs_lock_lets_in_by_arrival() {
    first_in_first_out::<Mcs>();
}

#[test]
fn the_mcs_lock_with_parking_lets_in_by_arrival() {
    first_in_first_out::<McsPark>();
}
