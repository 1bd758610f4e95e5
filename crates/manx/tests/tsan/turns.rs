//! Turns with a lock under ThreadSanitizer: a holder sees what the holder before it wrote. The
//! tests of the package `baselines` use this, too.

use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::RawLock;
use platform::atomic::{AtomicU64, Ordering};
use platform::cell::UnsafeCell;
use platform::thread;

const THREADS: u64 = 3;
/// Few: where the order is strict, each turn may take as long as the scheduler lets others run.
const TURNS: u64 = 30;

struct Guarded<L> {
    lock: L,
    arrived: AtomicU64,
    number: UnsafeCell<u64>,
}

// SAFETY: the number is used by holders of the lock only.
unsafe impl<L: RawLock> Sync for Guarded<L> {}

pub fn counts_alone<L: RawLock + 'static>() {
    let guarded: &'static Guarded<L> = Box::leak(Box::new(Guarded {
        lock: L::new(),
        arrived: AtomicU64::new(0),
        number: UnsafeCell::new(0),
    }));
    // All of them wait for the lock before the first one gets it.
    let held = guarded.lock.lock();
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            thread::spawn(move || {
                let class = if number == 0 { Class::Little } else { Class::Big };
                set_class_of_this_thread(Some(class));
                guarded.arrived.fetch_add(1, Ordering::Relaxed);
                for _ in 0..TURNS {
                    // One of them tries first, and now and then in vain.
                    let tried = if number == 1 { guarded.lock.try_lock() } else { None };
                    let held = tried.unwrap_or_else(|| guarded.lock.lock());
                    // SAFETY: this thread holds the lock.
                    guarded.number.with_mut(|number| unsafe { *number += 1 });
                    // SAFETY: by `held`.
                    unsafe { guarded.lock.unlock(held) };
                }
            })
        })
        .collect();
    while guarded.arrived.load(Ordering::Relaxed) < THREADS {
        thread::yield_now();
    }
    // SAFETY: locked above.
    unsafe { guarded.lock.unlock(held) };
    for thread in threads {
        thread.join().expect("all turns");
    }
    // SAFETY: the other threads have ended.
    assert_eq!(guarded.number.with(|number| unsafe { *number }), THREADS * TURNS);
}
