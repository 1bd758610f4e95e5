//! The default lock's other interfaces, an owner for each range and a task for each range, behind
//! the trait of all locks.
//!
//! An owner is made, locks one range and is dropped, as in a transaction of one range. A task is
//! polled by the thread that wants its range, which parks until the task's waker is called.
//!
//! Invariant: a held range refers to the lock that returned it, and [`RawRangeLock::unlock`] is
//! called with it before that lock is dropped, by the contract of that trait. The locks are boxed,
//! so that they do not move.

use manx::range::{Access, Owner, RangeGuard, RangeLock, RawRangeLock, Span};
use std::future::Future;
use std::mem::transmute;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// An owner for each range.
pub(super) struct Owners(Box<RangeLock<u64>>);

impl Owners {
    fn owner(&self) -> Owner<'static, u64> {
        // SAFETY: only the lifetime changes; the owner is dropped before the lock is gone (the
        // invariant).
        unsafe { transmute::<Owner<'_, u64>, Owner<'static, u64>>(self.0.owner()) }
    }
}

// SAFETY: no two owners hold what excludes each other, by the promise of the lock, and each has one
// range.
unsafe impl RawRangeLock for Owners {
    type Held = Owner<'static, u64>;

    const NAME: &'static str = "manx, owners";
    const SHARES: bool = true;

    fn with_space(_space: u64) -> Owners {
        Owners(Box::new(RangeLock::new()))
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<Self::Held> {
        let mut owner = self.owner();
        owner.try_lock_as(span.clone(), access).ok().map(|()| owner)
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, access: Access) -> Self::Held {
        let mut owner = self.owner();
        owner.lock_as(span.clone(), access).expect("there is room for every thread's range");
        owner
    }

    #[inline]
    unsafe fn unlock(&self, held: Self::Held) {
        drop(held);
    }
}

/// A task for each range.
pub(super) struct Tasks(Box<RangeLock<u64>>);

impl Tasks {
    fn held(guard: RangeGuard<'_, u64>) -> RangeGuard<'static, u64> {
        // SAFETY: only the lifetime changes; the guard is dropped before the lock is gone (the
        // invariant).
        unsafe { transmute::<RangeGuard<'_, u64>, RangeGuard<'static, u64>>(guard) }
    }
}

// SAFETY: guards hold nothing that excludes each other, by the promise of the lock.
unsafe impl RawRangeLock for Tasks {
    type Held = RangeGuard<'static, u64>;

    const NAME: &'static str = "manx, tasks";
    const SHARES: bool = true;

    fn with_space(_space: u64) -> Tasks {
        Tasks(Box::new(RangeLock::new()))
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<Self::Held> {
        self.0.try_lock_as(span.clone(), access).ok().map(Tasks::held)
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, access: Access) -> Self::Held {
        let guard = block_on(self.0.lock_async(span.clone(), access));
        Tasks::held(guard.expect("there is room for every thread's range"))
    }

    #[inline]
    unsafe fn unlock(&self, held: Self::Held) {
        drop(held);
    }
}

/// The thread that polls.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Arc::new(Unpark(thread::current())).into();
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    WAKER.with(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::request::Pattern;
    use super::super::run::{Mode, Run};
    use super::*;
    use std::time::Duration;

    #[test]
    fn threads_that_wait_by_owners_and_by_tasks_are_served_and_exclude_each_other() {
        let pattern = Pattern::Window { window: 2048, readers_percent: 50 };
        let time = Duration::from_millis(20);
        let run = Run { threads: 3, pattern, batch: 1, touches: 1, whole: None, time };
        fn serves<L: RawRangeLock + 'static>(run: &Run) -> bool {
            let checked = run.with(Mode::Check, L::with_space(2048)).unwrap();
            assert_eq!(checked.violations, 0);
            checked.pairs > 0
        }
        // On a busy machine a run may be over before its threads were on a CPU.
        assert!((0..100).any(|_| serves::<Owners>(&run)) && (0..100).any(|_| serves::<Tasks>(&run)));
    }
}
