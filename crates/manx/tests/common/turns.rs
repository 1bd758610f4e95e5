//! Turns in which no two threads are in a critical section together, also while a thread that
//! cannot be outranked takes the CPUs away from holders and waiters.
//!
//! Each holder writes its number into a cell that nothing but the lock protects, and finds it there
//! at the end. The numbers of rounds are fixed and small: a strict queue passes no faster than the
//! scheduler changes threads.

use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::{RawLock, ReorderHeld, Reorderable};
use platform::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use testing::until;

const THREADS: u64 = 6;
const NOBODY: u64 = 0;

/// The thread that is inside, and how often one was.
struct Section {
    owner: u64,
    entered: u64,
}

struct Guarded<L> {
    lock: L,
    section: UnsafeCell<Section>,
}

// SAFETY: that the section is used by one thread at a time is what these tests are about; it has
// plain numbers only, so that a lock that fails makes them wrong and nothing else.
unsafe impl<L: RawLock> Sync for Guarded<L> {}

impl<L: RawLock> Guarded<L> {
    fn enter(&self, me: u64, stay: u32) {
        self.section.with_mut(|section| {
            // SAFETY: the caller holds the lock.
            unsafe {
                assert_eq!((&raw const (*section).owner).read_volatile(), NOBODY, "somebody else is inside");
                (&raw mut (*section).owner).write_volatile(me);
            }
            (0..stay).for_each(|_| platform::cpu::pause());
            // SAFETY: as above.
            unsafe {
                assert_eq!((&raw const (*section).owner).read_volatile(), me, "somebody else came in");
                (&raw mut (*section).owner).write_volatile(NOBODY);
                (*section).entered += 1;
            }
        });
    }
}

/// Lets threads take the lock, by trying or by waiting; returns when each has had it `rounds`
/// times.
pub fn take_turns<L: RawLock + 'static>(rounds: u64) {
    let section = UnsafeCell::new(Section { owner: NOBODY, entered: 0 });
    let guarded = &Guarded { lock: L::new(), section };
    let arrived = &AtomicU64::new(0);
    // All of them wait for the lock before the first one gets it.
    let held = guarded.lock.lock();
    thread::scope(|scope| {
        for me in 1..=THREADS {
            scope.spawn(move || {
                set_class_of_this_thread(Some(if me % 2 == 0 { Class::Little } else { Class::Big }));
                arrived.fetch_add(1, Ordering::Relaxed);
                for round in 0..rounds {
                    let tried = if (me + round).is_multiple_of(4) { guarded.lock.try_lock() } else { None };
                    let held = tried.unwrap_or_else(|| guarded.lock.lock());
                    guarded.enter(me, (me + round) as u32 % 16);
                    // SAFETY: by `held`, as this lock returned it.
                    unsafe { guarded.lock.unlock(held) };
                }
            });
        }
        until("all threads", || arrived.load(Ordering::Relaxed) == THREADS);
        // SAFETY: locked above.
        unsafe { guarded.lock.unlock(held) };
    });
    // SAFETY: all others have ended.
    let entered = guarded.section.with(|section| unsafe { (*section).entered });
    assert_eq!((entered, guarded.lock.is_locked()), (THREADS * rounds, false), "{}", L::NAME);
}

/// Locks that let any running thread pass, or whose waiters sleep, take many turns in little time.
pub const MANY: u64 = 2_000;
/// Locks that pass in a strict order while all spin need a change of threads for nearly every turn.
pub const FEW: u64 = 8;

/// Stands by for windows of many lengths, as the turns go.
pub struct Windows<L> {
    lock: Reorderable<L>,
    turn: AtomicU64,
}

// SAFETY: the lock beneath keeps the promise.
unsafe impl<L: RawLock> RawLock for Windows<L> {
    type Held = ReorderHeld<L::Held>;
    const NAME: &'static str = "windows";
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Windows { lock: Reorderable::over(L::INIT), turn: AtomicU64::new(0) };

    fn lock(&self) -> Self::Held {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % 5;
        match [0, 1, 10_000, 90_000, 400_000][turn as usize] {
            // No thread stands by for a lock that is not in use otherwise.
            0 => self.lock.lock_immediately(),
            window_ns => self.lock.lock_reorder(Duration::from_nanos(window_ns)),
        }
    }

    fn try_lock(&self) -> Option<Self::Held> {
        self.lock.try_lock()
    }

    unsafe fn unlock(&self, held: Self::Held) {
        // SAFETY: the contract is the same.
        unsafe { self.lock.unlock(held) }
    }

    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}
