//! Keys that a range lock protects, under ThreadSanitizer: what holders of a key write, and what
//! becomes of the nodes that stand for ranges, is ordered. The tests of the package `baselines` use
//! this, too.

use manx::range::{Access, RawRangeLock, Span};
use platform::cell::UnsafeCell;
use platform::thread;

const THREADS: u64 = 4;
const TURNS: u64 = 400;
const KEYS: u64 = 16;

struct Guarded<L> {
    lock: L,
    keys: [UnsafeCell<u64>; KEYS as usize],
}

// SAFETY: keys are used by their holders.
unsafe impl<L: RawRangeLock> Sync for Guarded<L> {}

impl<L: RawRangeLock> Guarded<L> {
    /// Takes keys from `first` up to, and without, `end`, and writes or reads them.
    fn visit(&self, first: u64, end: u64, access: Access) {
        let span = Span::new(first, end).expect("first < end");
        let held = self.lock.try_lock(&span, access).unwrap_or_else(|| self.lock.lock(&span, access));
        for key in &self.keys[first as usize..end as usize] {
            match access {
                // SAFETY: held alone.
                Access::Exclusive => key.with_mut(|number| unsafe { *number += 1 }),
                // SAFETY: held by readers.
                Access::Shared => assert!(key.with(|number| unsafe { *number }) <= THREADS * TURNS),
            }
        }
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }
}

/// Threads take ranges of a lock with the space that the keys need.
pub fn orders_memory<L: RawRangeLock + 'static>() {
    orders_memory_by(L::with_space(KEYS));
}

/// The same for this lock.
pub fn orders_memory_by<L: RawRangeLock + 'static>(lock: L) {
    let guarded: &'static Guarded<L> =
        Box::leak(Box::new(Guarded { lock, keys: std::array::from_fn(|_| UnsafeCell::new(0)) }));
    let threads: Vec<_> = (0..THREADS)
        .map(|me| {
            thread::spawn(move || {
                for turn in 0..TURNS {
                    let first = (me * 5 + turn * 7) % KEYS;
                    let end = (first + 1 + turn % 4).min(KEYS);
                    match turn % 8 {
                        0 => guarded.visit(0, KEYS, Access::Exclusive),
                        1..4 => guarded.visit(first, end, Access::Shared),
                        _ => guarded.visit(first, end, Access::Exclusive),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("all turns"));
    // SAFETY: the other threads have ended.
    let least = guarded.keys.iter().map(|key| key.with(|number| unsafe { *number })).min();
    assert!(least >= Some(THREADS * TURNS / 8), "{}: all keys were written with all others", L::NAME);
}
