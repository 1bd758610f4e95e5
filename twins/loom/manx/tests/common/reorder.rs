//! The reorderable lock over any lock beneath, under loom: one stands by while others take the
//! lock, for every order of steps. The tests of the package `baselines-loom` use this, too.
//!
//! Time moves with each look at the clock here, so a window is a number of looks, and after that
//! number the thread that stands by is in line. Loom reports an execution that does not end.

#[path = "guarded.rs"]
mod guarded;

use crate::common::{check_no_more, join, spawn};
pub use guarded::Guarded;
use loom::sync::Arc;
use manx_loom::cpu::{Class, set_class_of_this_thread};
use manx_loom::lock::{Asl, Fifo, RawLock, Reorderable};
use std::time::Duration;

/// Stands by for this window, or does not.
fn add<L: RawLock + 'static>(guarded: &Guarded<Reorderable<L>>, window_ns: Option<u64>) {
    let held = match window_ns {
        Some(window_ns) => guarded.lock.lock_reorder(Duration::from_nanos(window_ns)),
        None => guarded.lock.lock_immediately(),
    };
    guarded.add();
    // SAFETY: just locked.
    unsafe { guarded.lock.unlock(held) };
}

/// One stands by, for windows that are over before the lock is quiet and for a longer one, while
/// the other takes the lock twice more. (Once it has taken it the lock is in use, and so the first
/// one stands by.)
pub fn one_stands_by<L: RawLock + 'static>() {
    for window_ns in [0, 1, 300, 12_000] {
        check_no_more(3, move || {
            let guarded = Guarded::<Reorderable<L>>::new();
            add(&guarded, None);
            let other = spawn(&guarded, move |guarded| add(guarded, Some(window_ns)));
            add(&guarded, None);
            add(&guarded, None);
            other.join().unwrap();
            guarded.assert_done(4);
        });
    }
}

/// Two stand by, for one window or for two, while this thread takes the lock: neither is lost, and
/// they are not inside together.
pub fn two_stand_by<L: RawLock + 'static>(windows_ns: [u64; 2]) {
    check_no_more(2, move || {
        let guarded = Guarded::<Reorderable<L>>::new();
        add(&guarded, None);
        let others =
            windows_ns.map(|window_ns| spawn(&guarded, move |guarded| add(guarded, Some(window_ns))));
        add(&guarded, None);
        join(others);
        guarded.assert_done(4);
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
