//! Futures under model checkers: a thread that waits for one sleeps on a futex until it is woken.
//! The tests on shuttle use this, too.

use platform::atomic::{AtomicU32, Ordering};
use platform::futex;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

/// Wakes a thread that waits for it on a futex.
pub struct Flag(AtomicU32);

impl Wake for Flag {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(1, Ordering::Release);
        futex::wake(&self.0, 1);
    }
}

impl Flag {
    pub fn new() -> std::sync::Arc<Flag> {
        std::sync::Arc::new(Flag(AtomicU32::new(0)))
    }

    /// Returns once the flag was set, and takes it down.
    pub fn wait(&self) {
        // A thread that fails has not stored anything: loom cannot tell that the waker's store
        // comes after an exchange of 0 for 0.
        while self.0.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed).is_err() {
            futex::wait(&self.0, 0);
        }
    }
}

/// Runs a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let flag = Flag::new();
    let waker = Waker::from(std::sync::Arc::clone(&flag));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        flag.wait();
    }
}
