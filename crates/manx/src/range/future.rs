//! Waiting for a range without a thread.
//!
//! The future is the waiter: its node in the waiting room lies within it, and instead of a sleeping thread there is a waker. A
//! future that is dropped leaves the room; if it was handed its range at that very moment, it gives that back. It has
//! no timer. So its window is found to be over when it is polled, or when a range that it waits for is released,
//! whichever comes first.
//!
//! Invariant: while `node` is there, it is in the room, or was handed its range; and the future is pinned.

use super::error::LockError;
use super::guard::RangeGuard;
use super::holder::Holder;
use super::key::Key;
use super::lock::RangeLock;
use super::raw::Access;
use super::request::Request;
use super::room::{HANDED, Node};
use super::slot::Held;
use super::span::Span;
use platform::atomic::Ordering;
use platform::clock;
use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::slice;
use std::task::{Context, Poll};

/// A range that will be held. See [`RangeLock::lock_async`].
#[must_use = "nothing is locked until it is polled"]
#[derive(Debug)]
pub struct LockFuture<'a, K: Key, const SHARDS: usize = 64, const SLOTS: usize = 16> {
    lock: &'a RangeLock<K, SHARDS, SLOTS>,
    span: Span<K>,
    access: Access,
    node: Option<Node<K>>,
    /// The node is pointed to.
    _pinned: PhantomPinned,
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// A future of the range. It may be dropped at any time, and leaves nothing behind.
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
        LockFuture { lock: self, span, access, node: None, _pinned: PhantomPinned }
    }
}

impl<'a, K: Key, const SHARDS: usize, const SLOTS: usize> LockFuture<'a, K, SHARDS, SLOTS> {
    /// Takes the range or comes to the room.
    fn begin(
        self: Pin<&mut Self>,
        context: &Context<'_>,
    ) -> Poll<Result<RangeGuard<'a, K, SHARDS, SLOTS>, LockError>> {
        // SAFETY: nothing is moved out.
        let this = unsafe { self.get_unchecked_mut() };
        let spans = slice::from_ref(&this.span);
        let request = Request { spans, access: this.access, holder: Holder::NOBODY, own: &[], tag: 0 };
        match this.lock.try_request(&request) {
            Err(LockError::WouldBlock) => {}
            done => return Poll::Ready(guard(this.lock, done)),
        }
        // SAFETY: the span is in the pinned future, as the node, and does not change.
        let node = unsafe { Node::new(&request, clock::now_ns(), this.lock.window_ns()) };
        let node = this.node.insert(node);
        let mut waker = Some(context.waker().clone());
        // SAFETY: called under the room's mutex.
        let entered = this.lock.enter(node, |node| unsafe { node.guarded() }.waker = waker.take());
        match entered {
            Ok(None) => Poll::Pending,
            Ok(Some(held)) => {
                this.node = None;
                Poll::Ready(guard(this.lock, Ok(held)))
            }
            Err(error) => {
                this.node = None;
                Poll::Ready(Err(error))
            }
        }
    }
}

fn guard<K: Key, const SHARDS: usize, const SLOTS: usize>(
    lock: &RangeLock<K, SHARDS, SLOTS>,
    held: Result<Held<K>, LockError>,
) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
    // SAFETY: just acquired, for this guard alone.
    held.map(|held| unsafe { RangeGuard::new(lock, held) })
}

impl<'a, K: Key, const SHARDS: usize, const SLOTS: usize> Future for LockFuture<'a, K, SHARDS, SLOTS> {
    type Output = Result<RangeGuard<'a, K, SHARDS, SLOTS>, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(node) = &self.node else { return self.begin(context) };
        // Whatever wakers do when they are cloned and dropped, the mutex is not held.
        let mut waker = Some(context.waker().clone());
        // Acquire pairs with the release of `HANDED`.
        let result = if node.word.load(Ordering::Acquire) == HANDED {
            // SAFETY: nobody else touches the node any more (room.rs, Invariant 2).
            Some(Ok(unsafe { node.guarded() }.held))
        } else {
            self.lock.look(node, clock::now_ns(), false, |node| {
                // SAFETY: called under the room's mutex.
                std::mem::swap(&mut unsafe { node.guarded() }.waker, &mut waker);
            })
        };
        let Some(result) = result else { return Poll::Pending };
        // SAFETY: nothing is moved but the node, which is in the room no more.
        let this = unsafe { self.get_unchecked_mut() };
        this.node = None;
        Poll::Ready(guard(this.lock, result))
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Drop for LockFuture<'_, K, SHARDS, SLOTS> {
    fn drop(&mut self) {
        if let Some(node) = &self.node {
            self.lock.cancel(node);
        }
    }
}

// SAFETY: the node is used under the room's mutex, whatever thread polls.
unsafe impl<K: Key + Send + Sync, const SHARDS: usize, const SLOTS: usize> Send
    for LockFuture<'_, K, SHARDS, SLOTS>
{
}
