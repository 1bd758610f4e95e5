//! Futures that a test polls by hand.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Wakes the thread that made it, and counts its calls.
#[derive(Debug)]
pub struct Caller {
    thread: Thread,
    called: AtomicUsize,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.called.fetch_add(1, Ordering::Relaxed);
        self.thread.unpark();
    }
}

impl Caller {
    /// A caller of this thread, and the waker that calls it.
    #[allow(clippy::new_ret_no_self, reason = "both are needed")]
    pub fn new() -> (Arc<Caller>, Waker) {
        let caller = Arc::new(Caller { thread: thread::current(), called: AtomicUsize::new(0) });
        (Arc::clone(&caller), Waker::from(caller))
    }

    /// The number of calls so far.
    pub fn called(&self) -> usize {
        self.called.load(Ordering::Relaxed)
    }
}

/// Polls once, with a waker that does nothing.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let (_, waker) = Caller::new();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}
