//! A task's identity: what a future locks belongs to it, on whatever thread it is polled.
//!
//! A guard belongs to the thread that took it, because a thread does one thing after the other. A
//! task does so too, but threads take turns to poll it. So the task draws a number once
//! ([`Holder`]), and the thread that polls it runs for that number until the poll ends, by a result
//! or by a panic. Within a poll another task may be polled: the inner one wins, and the outer one
//! comes back. That works in any runtime, and needs no help from it.
//!
//! Destructors belong to the task as well: the future is dropped while the thread that drops it
//! runs for the task.

use super::holder::Holder;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future with an identity of its own at range locks, as a thread has one: [`task`] makes it.
///
/// ```
/// use manx::range::{Access, RangeLock, Span, Task, task};
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Waker};
///
/// let file: RangeLock<u64> = RangeLock::new();
/// let copies: Task<_> = task(async {
///     // Both belong to the same holder, so neither waits behind a waiter for the other.
///     let from = file.lock_async(Span::new(0, 10)?, Access::Shared).await?;
///     let to = file.lock_async(Span::new(90, 100)?, Access::Exclusive).await?;
///     drop((from, to));
///     Ok::<(), manx::range::LockError>(())
/// });
/// assert!(pin!(copies).poll(&mut Context::from_waker(Waker::noop())).is_ready());
/// ```
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Task<F> {
    holder: Holder,
    future: ManuallyDrop<F>,
}

/// Gives a future an identity of its own at range locks: what is locked while it is polled, by
/// [`RangeLock::lock_async`](super::RangeLock::lock_async) or by a call that blocks, belongs to
/// this task and not to the thread that happens to poll it. So a task is treated like a thread: it
/// never queues behind a waiter that waits for it, and a lock that looks for deadlocks
/// ([`Options::detecting_deadlocks`](super::Options::detecting_deadlocks)) finds those of tasks.
/// Any runtime will do.
///
/// A task should do one thing after the other. If it polls several futures in turns (`join!`,
/// `select!`), each of them that locks ranges wants a `task` of its own: a task that waits for
/// itself is a deadlock. What an [`Owner`](super::Owner) locks is the owner's, here as elsewhere.
///
/// ```
/// use manx::range::{Access, Options, RangeLock, Span, task};
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
///
/// let table: RangeLock<u64> = RangeLock::with(Options::new().detecting_deadlocks());
/// // A runtime would have: spawn(task(async move { … })).
/// let transfer = task(async {
///     let from = table.lock_async(Span::point(3), Access::Exclusive).await?;
///     let to = table.lock_async(Span::point(7), Access::Exclusive).await?;
///     Ok::<String, manx::range::LockError>(table.dump().held[0].holder.to_string())
/// });
/// let name = transfer.holder().to_string();
/// assert!(name.starts_with("task "));
/// let answer = pin!(transfer).poll(&mut Context::from_waker(Waker::noop()));
/// assert_eq!(answer, Poll::Ready(Ok(name)));
/// ```
pub fn task<F: Future>(future: F) -> Task<F> {
    Task { holder: Holder::new_task(), future: ManuallyDrop::new(future) }
}

impl<F> Task<F> {
    /// The identity by which a [`Dump`](super::Dump) and a [`Deadlock`](super::Deadlock) name it.
    pub fn holder(&self) -> Holder {
        self.holder
    }
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.holder.enter();
        // SAFETY: the future is pinned with the whole: it is never moved, and dropped in its place.
        let future = unsafe { self.map_unchecked_mut(|task| &mut *task.future) };
        future.poll(context)
    }
}

impl<F> Drop for Task<F> {
    fn drop(&mut self) {
        let _entered = self.holder.enter();
        // SAFETY: the task is gone, and no code uses the future after this.
        unsafe { ManuallyDrop::drop(&mut self.future) };
    }
}
