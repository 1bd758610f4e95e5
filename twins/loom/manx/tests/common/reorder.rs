//! The reorderable lock over any lock beneath, under loom: one stands by while others take the
//! lock, for every order of steps. The tests of the package `baselines-loom` use this, too.
//!
//! Time moves with each look at the clock here, so a window is a number of looks, and after that
//! number the thread that stands by is in line. Loom reports an execution that does not end.

use loom::sync::Arc;
use loom::thread;
use manx_loom::lock::{RawLock, Reorderable};
use platform::cell::UnsafeCell;

struct Guarded<L> {
    lock: Reorderable<L>,
    number: UnsafeCell<u32>,
}

// SAFETY: the number is used by holders of the lock only; loom reports it if that is not enough.
unsafe impl<L: RawLock> Sync for Guarded<L> {}

impl<L: RawLock> Guarded<L> {
    /// Stands by for this window, or does not.
    fn add(&self, window_ns: Option<u64>) {
        let held = match window_ns {
            Some(window_ns) => self.lock.lock_reorder(window_ns),
            None => self.lock.lock_immediately(),
        };
        // SAFETY: held.
        self.number.with_mut(|number| unsafe { *number += 1 });
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }
}

/// Runs `test` in every order with at most three preemptions.
pub fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(test);
}

/// One stands by, for windows that are over before the lock is quiet and for a longer one, while
/// the other takes the lock twice more. (Once it has taken it the lock is in use, and so the first
/// one stands by.)
pub fn one_stands_by<L: RawLock + 'static>() {
    for window_ns in [0, 1, 300, 12_000] {
        check(move || {
            let lock = Reorderable::over(L::new());
            let guarded = Arc::new(Guarded { lock, number: UnsafeCell::new(0) });
            guarded.add(None);
            let other = Arc::clone(&guarded);
            let other = thread::spawn(move || other.add(Some(window_ns)));
            guarded.add(None);
            guarded.add(None);
            other.join().unwrap();
            assert!(!guarded.lock.is_locked());
            // SAFETY: the other one has ended.
            assert_eq!(guarded.number.with(|number| unsafe { *number }), 4);
        });
    }
}

/// Two stand by, for one window or for two, while this thread takes the lock: neither is lost, and
/// they are not inside together.
pub fn two_stand_by<L: RawLock + 'static>(windows_ns: [u64; 2]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 10_000;
    builder.check(move || {
        let lock = Reorderable::over(L::new());
        let guarded = Arc::new(Guarded { lock, number: UnsafeCell::new(0) });
        guarded.add(None);
        let others = windows_ns.map(|window_ns| {
            let other = Arc::clone(&guarded);
            thread::spawn(move || other.add(Some(window_ns)))
        });
        guarded.add(None);
        for other in others {
            other.join().unwrap();
        }
        assert!(!guarded.lock.is_locked());
        // SAFETY: the others have ended.
        assert_eq!(guarded.number.with(|number| unsafe { *number }), 4);
    });
}
