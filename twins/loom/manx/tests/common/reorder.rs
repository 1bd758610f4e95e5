//! The reorderable lock over any lock beneath, under loom: one stands by while others take the
//! lock, for every order of steps. The tests of the package `baselines-loom` use this, too.
//!
//! Time moves with each look at the clock here, so a window is a number of looks, and after that
//! number the thread that stands by is in line. Loom reports an execution that does not end.

use crate::common::{check_no_more, join, spawn};
use loom::sync::Arc;
use manx_loom::cpu::{Class, set_class_of_this_thread};
use manx_loom::lock::{Asl, Fifo, RawLock, Reorderable};
use platform::cell::UnsafeCell;
use std::time::Duration;

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
            Some(window_ns) => self.lock.lock_reorder(Duration::from_nanos(window_ns)),
            None => self.lock.lock_immediately(),
        };
        // SAFETY: held.
        self.number.with_mut(|number| unsafe { *number += 1 });
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }
}

/// One stands by, for windows that are over before the lock is quiet and for a longer one, while
/// the other takes the lock twice more. (Once it has taken it the lock is in use, and so the first
/// one stands by.)
pub fn one_stands_by<L: RawLock + 'static>() {
    for window_ns in [0, 1, 300, 12_000] {
        check_no_more(3, move || {
            let lock = Reorderable::over(L::new());
            let guarded = Arc::new(Guarded { lock, number: UnsafeCell::new(0) });
            guarded.add(None);
            let other = spawn(&guarded, move |guarded| guarded.add(Some(window_ns)));
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
    check_no_more(2, move || {
        let lock = Reorderable::over(L::new());
        let guarded = Arc::new(Guarded { lock, number: UnsafeCell::new(0) });
        guarded.add(None);
        let others = windows_ns.map(|window_ns| spawn(&guarded, move |guarded| guarded.add(Some(window_ns))));
        guarded.add(None);
        join(others);
        assert!(!guarded.lock.is_locked());
        // SAFETY: the others have ended.
        assert_eq!(guarded.number.with(|number| unsafe { *number }), 4);
    });
}

/// The holder gives the lock back only once the little one stands in line: if its window did not
/// end, this would not.
pub fn a_little_one_is_in_line_after_its_window<L: Fifo + 'static>() {
    check_no_more(3, || {
        let lock = Arc::new(Asl::over(L::new()));
        lock.set_window_max(Some(Duration::from_nanos(300)));
        let held = lock.lock();
        let before = lock.reorderable().beneath().last_in_line();
        let other = spawn(&lock, |lock| {
            set_class_of_this_thread(Some(Class::Little));
            let held = lock.lock();
            // SAFETY: just locked.
            unsafe { lock.unlock(held) };
        });
        while lock.reorderable().beneath().last_in_line() == before {
            platform::thread::yield_now();
        }
        // SAFETY: locked above.
        unsafe { lock.unlock(held) };
        other.join().unwrap();
        assert!(!lock.is_locked());
    });
}
