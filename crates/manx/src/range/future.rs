//! Waiting for a range without a thread.
//!
//! The future is the waiter: its node in the wait queue lies within it, and instead of a sleeping
//! thread there is a waker. A future that is dropped leaves the wait queue; if it was handed its
//! range at the same moment, it gives the range back. It has no timer. So its window is found to be
//! over when it is polled, or when a range that it waits for is released, whichever comes first.
//!
//! The range of a [`LockFuture`] belongs to the task that polled the future first (`task.rs`). An
//! owner lends its future the ranges that it holds, and gets them back when the future is done or
//! dropped. A forgotten future keeps them for ever. So the memory that a node points to lives and
//! does not change in each of these cases.
//!
//! Invariants:
//! 1. While `node` is there, it is in the wait queue, or was handed its range; the future is
//!    pinned, and `span` and `own` do not change.
//! 2. The ranges in `own` are held, and no owner has them meanwhile.

use super::error::LockError;
use super::guard::RangeGuard;
use super::holder::Holder;
use super::key::Key;
use super::lock::RangeLock;
use super::owner::Owner;
use super::raw::Access;
use super::request::Request;
use super::slot::Held;
use super::span::{IntoSpan, Span};
use super::wait_queue::{HANDED, Node};
use platform::atomic::Ordering;
use platform::clock;
use std::future::Future;
use std::marker::PhantomPinned;
use std::mem;
use std::pin::Pin;
use std::slice;
use std::task::{Context, Poll, ready};

/// A future that waits for a range and returns its [`RangeGuard`]:
/// [`RangeLock::lock_async`] makes it. It may be dropped at any time.
///
/// ```
/// use manx::range::{Access, RangeLock, Span};
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Waker};
///
/// let file: RangeLock<u64> = RangeLock::new();
/// let held = file.lock(0..10)?;
/// let mut context = Context::from_waker(Waker::noop());
/// let mut waits = pin!(file.lock_async(Span::new(5, 15)?, Access::Exclusive));
/// assert!(waits.as_mut().poll(&mut context).is_pending());
/// drop(held);
/// assert!(waits.poll(&mut context).is_ready());
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[must_use = "nothing is locked until it is polled"]
#[derive(Debug)]
pub struct LockFuture<'a, K: Key, const SHARDS: usize = 64, const SLOTS: usize = 16> {
    lock: &'a RangeLock<K, SHARDS, SLOTS>,
    span: Span<K>,
    access: Access,
    /// The ranges of the asking owner, which are not in its own way.
    own: Vec<Held<K>>,
    node: Option<Node<K>>,
    /// The node is pointed to.
    _pinned: PhantomPinned,
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// A future of the range. It may be dropped at any time, and leaves nothing behind.
    ///
    /// The range belongs to the [`task`](super::task()) that polls the future first. Outside of
    /// such a task it has no owner: then the lock finds no deadlock, and a future that holds a
    /// range and waits for another one may queue behind a waiter for the first.
    ///
    /// ```
    /// use manx::range::{Access, RangeLock, Span};
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let lock: RangeLock<u64> = RangeLock::new();
    /// let first = lock.lock(0..10)?;
    /// let mut second = pin!(lock.lock_async(Span::new(5, 15)?, Access::Exclusive));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(second.as_mut().poll(&mut context).is_pending());
    /// drop(first);
    /// assert!(matches!(second.poll(&mut context), Poll::Ready(Ok(_))));
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub fn lock_async(&self, span: Span<K>, access: Access) -> LockFuture<'_, K, SHARDS, SLOTS> {
        LockFuture { lock: self, span, access, own: Vec::new(), node: None, _pinned: PhantomPinned }
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> LockFuture<'_, K, SHARDS, SLOTS> {
    /// Takes the range or joins the wait queue.
    fn begin(
        self: Pin<&mut Self>,
        context: &Context<'_>,
        holder: Holder,
        tag: u64,
    ) -> Poll<Result<Held<K>, LockError>> {
        // SAFETY: nothing is moved out.
        let this = unsafe { self.get_unchecked_mut() };
        let request =
            Request { spans: slice::from_ref(&this.span), access: this.access, holder, own: &this.own, tag };
        match this.lock.try_request(&request) {
            Err(LockError::WouldBlock) => {}
            done => return Poll::Ready(done),
        }
        // SAFETY: Invariants 1 and 2: what is in the request is in the pinned future, or held, as
        // long as the node is there.
        let node = unsafe { Node::new(&request, clock::now_ns(), this.lock.window_ns()) };
        let node = this.node.insert(node);
        let mut waker = Some(context.waker().clone());
        // SAFETY: called under the wait queue's mutex.
        let entered = this.lock.enter(node, |node| unsafe { node.guarded() }.waker = waker.take());
        let Some(done) = entered.transpose() else { return Poll::Pending };
        this.node = None;
        Poll::Ready(done)
    }

    /// Polls for the range, on behalf of `holder`.
    fn poll_held(
        self: Pin<&mut Self>,
        context: &Context<'_>,
        holder: Holder,
        tag: u64,
    ) -> Poll<Result<Held<K>, LockError>> {
        let Some(node) = &self.node else { return self.begin(context, holder, tag) };
        // Whatever wakers do when they are cloned and dropped, the mutex is not held.
        let mut waker = Some(context.waker().clone());
        // Acquire pairs with the release of `HANDED`.
        let result = if node.word.load(Ordering::Acquire) == HANDED {
            // SAFETY: no other thread touches the node any more (wait_queue.rs, Invariant 2).
            Some(Ok(unsafe { node.guarded() }.held))
        } else {
            self.lock.look(node, clock::now_ns(), false, |node| {
                // SAFETY: called under the wait queue's mutex.
                mem::swap(&mut unsafe { node.guarded() }.waker, &mut waker);
            })
        };
        let Some(result) = result else { return Poll::Pending };
        // SAFETY: nothing is moved but the node, which is in the wait queue no more.
        unsafe { self.get_unchecked_mut() }.node = None;
        Poll::Ready(result)
    }

    /// Leaves the wait queue, if it is there.
    fn cancel(&mut self) {
        if let Some(node) = &self.node {
            self.lock.cancel(node);
        }
        self.node = None;
    }
}

impl<'a, K: Key, const SHARDS: usize, const SLOTS: usize> Future for LockFuture<'a, K, SHARDS, SLOTS> {
    type Output = Result<RangeGuard<'a, K, SHARDS, SLOTS>, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let lock = self.lock;
        let held = ready!(self.poll_held(context, Holder::current_task(), 0));
        // SAFETY: just acquired, for this guard alone.
        Poll::Ready(held.map(|held| unsafe { RangeGuard::new(lock, held) }))
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Drop for LockFuture<'_, K, SHARDS, SLOTS> {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// A future that waits until an [`Owner`] holds a range: [`Owner::lock_as_async`] makes it. It may
/// be dropped at any time; the owner then holds what it held before.
///
/// ```
/// use manx::range::{Access, RangeLock, Span};
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Waker};
///
/// let file: RangeLock<u64> = RangeLock::new();
/// let mut owner = file.owner();
/// let mut context = Context::from_waker(Waker::noop());
/// {
///     let lock = pin!(owner.lock_as_async(Span::new(0, 10)?, Access::Shared));
///     assert!(lock.poll(&mut context).is_ready());
/// }
/// assert_eq!(owner.held().count(), 1);
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[must_use = "nothing is locked until it is polled"]
#[derive(Debug)]
pub struct OwnerLockFuture<'o, 'a, K: Key, const SHARDS: usize = 64, const SLOTS: usize = 16> {
    owner: &'o mut Owner<'a, K, SHARDS, SLOTS>,
    /// From the first poll to the last it has the ranges of the owner.
    wait: LockFuture<'a, K, SHARDS, SLOTS>,
}

impl<'a, K: Key, const SHARDS: usize, const SLOTS: usize> Owner<'a, K, SHARDS, SLOTS> {
    /// As [`Owner::lock`], without a thread. The future may be dropped at any time: then the owner
    /// holds what it held.
    ///
    /// ```
    /// use manx::range::{LockError, Options, RangeLock};
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let table: RangeLock<u64> = RangeLock::with(Options::new().detecting_deadlocks());
    /// let (mut one, mut other) = (table.owner(), table.owner());
    /// (one.lock(0..10)?, other.lock(20..30)?);
    /// let mut context = Context::from_waker(Waker::noop());
    /// {
    ///     let mut waits = pin!(one.lock_async(20..21));
    ///     assert!(waits.as_mut().poll(&mut context).is_pending());
    ///     let circle = pin!(other.lock_async(5..6)).poll(&mut context);
    ///     assert!(matches!(circle, Poll::Ready(Err(LockError::Deadlock(_)))));
    ///     drop(other);
    ///     assert_eq!(waits.poll(&mut context), Poll::Ready(Ok(())));
    /// }
    /// assert_eq!(one.held().count(), 2);
    /// # Ok::<(), LockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Owner::lock`].
    pub async fn lock_async<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), LockError> {
        self.lock_as_async(range.into_span()?, Access::Exclusive).await
    }

    /// As [`Owner::lock_shared`], without a thread. See [`Owner::lock_async`].
    ///
    /// # Errors
    /// As [`Owner::lock_shared`].
    pub async fn lock_shared_async<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), LockError> {
        self.lock_as_async(range.into_span()?, Access::Shared).await
    }

    /// As [`Owner::lock_async`] or [`Owner::lock_shared_async`], as a future with a name.
    ///
    /// A future that is polled and then forgotten ([`std::mem::forget`]) keeps the ranges of the
    /// owner for ever.
    ///
    /// # Errors
    /// As [`Owner::lock`] and [`Owner::lock_shared`].
    pub fn lock_as_async(
        &mut self,
        span: Span<K>,
        access: Access,
    ) -> OwnerLockFuture<'_, 'a, K, SHARDS, SLOTS> {
        let wait = self.lock.lock_async(span, access);
        OwnerLockFuture { owner: self, wait }
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Future for OwnerLockFuture<'_, '_, K, SHARDS, SLOTS> {
    type Output = Result<(), LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out.
        let this = unsafe { self.get_unchecked_mut() };
        if this.wait.node.is_none() && this.wait.own.is_empty() {
            mem::swap(&mut this.wait.own, &mut this.owner.held);
        }
        // SAFETY: `wait` is pinned with the whole, and never moved out of it.
        let wait = unsafe { Pin::new_unchecked(&mut this.wait) };
        let held = ready!(wait.poll_held(context, this.owner.holder(), this.owner.tag));
        mem::swap(&mut this.wait.own, &mut this.owner.held);
        this.owner.add(held?);
        Poll::Ready(Ok(()))
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Drop for OwnerLockFuture<'_, '_, K, SHARDS, SLOTS> {
    fn drop(&mut self) {
        // The node first: it points to what is given back to the owner.
        self.wait.cancel();
        if !self.wait.own.is_empty() {
            mem::swap(&mut self.wait.own, &mut self.owner.held);
        }
    }
}
