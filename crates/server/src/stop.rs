//! The server's end: a thread starts it, and other threads wait for it.

use mio::Waker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Whether the server is to end.
#[derive(Default)]
pub(crate) struct Stop {
    is_over: AtomicBool,
    state: Mutex<Option<Waker>>,
    changed: Condvar,
}

impl Stop {
    /// Sets what to wake at the end: the thread that accepts.
    pub(crate) fn wakes(&self, waker: Waker) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    /// Ends the server. A second call changes nothing.
    pub(crate) fn stop(&self) {
        let waker = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Release: a thread that sees it sees what was done before. Under the lock: no thread goes
        // to sleep in between.
        self.is_over.store(true, Ordering::Release);
        if let Some(waker) = &*waker {
            // It fails only if there is no more memory in the kernel, and then the next event wakes
            // as well.
            let _ = waker.wake();
        }
        self.changed.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        // Acquire: see `stop`.
        self.is_over.load(Ordering::Acquire)
    }

    /// Waits for this time, or until it is over; returns whether it is.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        self.wait_or(time, || false)
    }

    /// The same, or until this is so, which is asked after each [`Stop::ask_again`].
    pub(crate) fn wait_or(&self, time: Duration, is_so: impl Fn() -> bool) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(state, time, |_| !self.is_over() && !is_so()));
        self.is_over()
    }

    /// Has threads that wait for something else ask whether it is so.
    pub(crate) fn ask_again(&self) {
        // Under the lock: no thread goes to sleep in between.
        let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }
}
