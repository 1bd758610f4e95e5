//! The readers-writer lock and the condition variable under ThreadSanitizer: what is read and
//! written between entering and leaving is ordered.

use manx::lock::bounded::{UNBOUNDED_NS, Wait};
use manx::lock::{RawCondvar, RawMutex, RawRwLock};
use platform::cell::UnsafeCell;
use platform::thread;

const THREADS: u64 = 4;
const TURNS: u64 = 300;

struct Shared {
    lock: RawRwLock,
    mutex: RawMutex,
    changed: RawCondvar,
    number: UnsafeCell<u64>,
}

// SAFETY: the number is used under the one lock or under the other, never both in one test.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> &'static Shared {
        Box::leak(Box::new(Shared {
            lock: RawRwLock::new(),
            mutex: RawMutex::new(),
            changed: RawCondvar::new(),
            number: UnsafeCell::new(0),
        }))
    }

    fn number(&self) -> u64 {
        // SAFETY: the caller has the lock, or the other threads have ended.
        self.number.with(|number| unsafe { *number })
    }

    fn add_one(&self) {
        // SAFETY: the caller has the lock alone.
        self.number.with_mut(|number| unsafe { *number += 1 });
    }
}

fn together(run: impl Fn(u64) + Send + Copy + 'static) {
    let threads: Vec<_> = (0..THREADS).map(|number| thread::spawn(move || run(number))).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("all turns"));
}

fn readers_and_writers(window_ns: u64) {
    let shared = Shared::new();
    together(move |number| {
        let wait = Wait { window_ns: Some(window_ns), ..Wait::default() };
        for turn in 0..TURNS {
            if (turn + number) % 2 == 0 {
                shared.lock.write_slow(&wait).expect("no deadline");
                shared.add_one();
                if turn % 3 == 0 {
                    // SAFETY: this thread writes, and then reads.
                    unsafe { shared.lock.downgrade() };
                    shared.number();
                    // SAFETY: as above.
                    unsafe { shared.lock.release_read() };
                } else {
                    // SAFETY: this thread writes.
                    unsafe { shared.lock.release_write() };
                }
            } else {
                shared.lock.read_slow(&wait).expect("no deadline");
                shared.number();
                // SAFETY: this thread reads.
                unsafe { shared.lock.release_read() };
            }
        }
    });
    assert_eq!(shared.number(), THREADS * TURNS / 2);
}

#[test]
fn readers_and_writers_order_memory() {
    readers_and_writers(UNBOUNDED_NS);
    readers_and_writers(0);
    readers_and_writers(100_000);
}

#[test]
fn a_condition_variable_leaves_the_order_of_memory_to_the_mutex() {
    let shared = Shared::new();
    together(move |number| {
        for turn in 0..TURNS / 2 {
            shared.mutex.acquire();
            // In turns: thread after thread, round after round.
            while shared.number() != turn * THREADS + number {
                let ticket = shared.changed.enter();
                // SAFETY: acquired above.
                unsafe { shared.mutex.release() };
                let outcome = shared.changed.sleep(&ticket, None);
                shared.changed.leave(ticket, outcome);
                shared.mutex.acquire();
            }
            shared.add_one();
            // SAFETY: acquired above.
            unsafe { shared.mutex.release() };
            shared.changed.broadcast();
        }
    });
    assert_eq!(shared.number(), THREADS * TURNS / 2);
}
