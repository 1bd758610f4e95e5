//! Locks that are first in, first out: the first thread that comes is let in first.
//!
//! One thread at a time stands in line, and only then the next one comes, so there is one right
//! order.

use manx::lock::{Fifo, RawLock};
use platform::cell::UnsafeCell;
use std::thread;
use testing::until;

struct Guarded<L> {
    lock: L,
    order: UnsafeCell<Vec<usize>>,
}

// SAFETY: the order is used by holders of the lock only.
unsafe impl<L: RawLock> Sync for Guarded<L> {}

const WAITERS: usize = 6;

pub fn first_in_first_out<L: Fifo + 'static>() {
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
                until("one more in line", || guarded.lock.last_in_line() != before);
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
