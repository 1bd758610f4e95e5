//! Waiting for ranges: which waiter goes first, for how long, and when a waiter is notified.
//!
//! A free range belongs to the first thread that asks for it; no thread looks for waiters
//! elsewhere. A thread that finds something in its way may be overtaken for its *window*. First it
//! lets others run and tries again (`yielding.rs`): most likely the holder is kept from running,
//! and a sleeper that is woken takes the CPU away from the next holder. Then it waits in the wait
//! queue (`wait_queue.rs`), having marked each slot in its way as awaited. When the window is
//! over it is *starving*. It closes the shards of its ranges, so that newcomers join the wait queue
//! as well and queue behind it if they want any of the same; and the release that frees its ranges
//! hands them over. (A waiter that joined the wait queue before its window was over, because that
//! is long or a starving waiter was before it, is woken when its ranges are free, and tries.)
//! Strangers are never in each other's way: what counts is whether ranges overlap.
//!
//! ```text
//!           ┌──────── free ◄──────────────────────┐
//!   lock ──►│ yield and look ──► wait ──► woken ──┤ window over
//!           └──────────────────── ▲ ──── in vain  └────────────► starving ──► handed over
//! ```
//!
//! Invariants:
//! 1. For each waiter that was not notified since it looked, one of these is true: it is
//!    behind a waiter in the list that goes before it, or each slot that was in its way when it
//!    looked is awaited. (The second is made true under the words of the shards, by the look
//!    itself.)
//! 2. A waiter that leaves the wait queue with its ranges leaves slots behind that are awaited, if
//!    it excludes any waiter in the wait queue. A waiter that leaves without its ranges makes each
//!    waiter that it excluded look, as a release does (*settling*).
//! 3. So a waiter is notified when nothing is in its way any more: by the release of the last slot,
//!    or by a waiter that was before it.
//! 4. While a starving waiter waits, its shards are closed, and it excludes no range that is taken
//!    there. So what is in its way becomes less with each release. Only waiters before it in the
//!    list can make it more.
//!
//! `precedence.rs` tells which waiter goes before which.
//!
//! # The bound
//! A waiter's window is the lock's or its epoch's. If neither names one, it is [`WINDOW`], or
//! [`EACH_NS`] for each waiter that is in the wait queue before it, if that is longer. A waiter
//! with no other one before it has its ranges after at most: its window, the time until it runs (to
//! become starving), and the longest of the holds in its way. A waiter with others before it waits
//! for these first.

use super::deadlock;
use super::error::LockError;
use super::key::Key;
use super::lock::RangeLock;
use super::precedence;
use super::request::Request;
use super::slot::Held;
use super::take::{How, Refused};
use super::wait_queue::{HANDED, LOOK, LockedQueue, Node, WAITING, Wakes};
use super::yielding::Wait;
use crate::lock::bounded::EPOCH_WINDOW_NS_MIN;
use crate::slo;
use platform::atomic::Ordering;
use platform::clock;
use platform::futex::{self, Clock, Deadline};
use std::pin::pin;
use std::ptr;
use std::time::Duration;

/// How long a waiter may be overtaken unless its lock
/// ([`Options::window`](super::Options::window)) or its epoch ([`crate::slo`]) says otherwise.
pub const WINDOW: Duration = Duration::from_nanos(WINDOW_NS);

/// The default window in nanoseconds. It is longer than a thread runs until the scheduler gives the
/// CPU to another one (3 to 4 ms): a waiter that comes back after that time should try for a while,
/// rather than make every thread behind it sleep until it was handed its range.
const WINDOW_NS: u64 = 5_000_000;

/// The window is at least this time for each waiter that is in the wait queue already. A hand-over
/// to a sleeping waiter lasts until the scheduler runs it. Without this rule every release would be
/// such a hand-over where many threads wait for the same keys: 32 threads made 0.07 of the best
/// peer's throughput.
const EACH_NS: u64 = 500_000;

/// Keys that became free, or that a waiter waits for no more: from the one position to the other,
/// both included.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PositionRange {
    first: u64,
    last: u64,
}

impl PositionRange {
    fn may_overlap<K: Key>(self, request: &Request<'_, K>) -> bool {
        request.wants().any(|want| want.first <= self.last && self.first <= want.last)
    }
}

/// A waiter on the stack, which must not stay in the wait queue if the comparison of keys panics.
struct RemoveOnUnwind<'a, K: Key, const SHARDS: usize, const SLOTS: usize> {
    lock: &'a RangeLock<K, SHARDS, SLOTS>,
    node: &'a Node<K>,
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Drop for RemoveOnUnwind<'_, K, SHARDS, SLOTS> {
    fn drop(&mut self) {
        if !platform::execution_failed() {
            self.lock.cancel(self.node);
        }
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// Takes ranges if that needs no waiting.
    pub(super) fn try_request(&self, request: &Request<'_, K>) -> Result<Held<K>, LockError> {
        match self.table.take(request, How::default()) {
            Ok(held) => Ok(held),
            Err(Refused::Blocked) => Err(LockError::WouldBlock),
            Err(Refused::Full) => Err(self.too_many()),
            Err(Refused::Closed) => self.try_closed(request),
        }
    }

    /// Takes ranges in the same way where a starving waiter may want some of them.
    pub(super) fn try_closed(&self, request: &Request<'_, K>) -> Result<Held<K>, LockError> {
        let queue = self.queue.lock();
        if self.starving_before(&queue, request) {
            return Err(LockError::WouldBlock);
        }
        self.take_part(request)
    }

    /// Takes ranges where no starving waiter counts: a part of what the asker holds, or what no
    /// starving waiter before it wants.
    pub(super) fn take_part(&self, request: &Request<'_, K>) -> Result<Held<K>, LockError> {
        self.take_as(request, How { closed: true, ..How::default() })
    }

    fn take_as(&self, request: &Request<'_, K>, how: How) -> Result<Held<K>, LockError> {
        self.table.take(request, how).map_err(|refused| match refused {
            Refused::Full => self.too_many(),
            Refused::Blocked | Refused::Closed => LockError::WouldBlock,
        })
    }

    pub(super) fn too_many(&self) -> LockError {
        LockError::TooMany { limit: self.table.options().spill_max }
    }

    /// Returns whether a starving waiter goes before the asker.
    fn starving_before(&self, queue: &LockedQueue<'_, K>, request: &Request<'_, K>) -> bool {
        // SAFETY: the wait queue's mutex is held.
        precedence::before(&self.table, queue, *request, ptr::null())
            .any(|node| unsafe { node.guarded() }.starving)
    }

    /// Waits for ranges, until the deadline if there is one. `blocked`: something in the way was
    /// seen just now.
    #[cold]
    pub(super) fn lock_request(
        &self,
        request: &Request<'_, K>,
        deadline: Option<Deadline>,
        blocked: bool,
    ) -> Result<Held<K>, LockError> {
        let mut began = None;
        match self.yield_and_try(request, deadline, blocked, &mut began) {
            Err(LockError::WouldBlock) => {}
            other => return other,
        }
        let Wait { began_ns, window_ns, .. } = began.unwrap_or_else(|| self.begin(deadline));
        // SAFETY: the request's parts are borrowed for longer than this function runs.
        let node = pin!(unsafe { Node::new(request, began_ns, window_ns) });
        let node = &*node;
        let stays = RemoveOnUnwind { lock: self, node };
        let entered = self.enter(node, |_| ()).transpose();
        let result = entered.unwrap_or_else(|| self.sleep(node, deadline));
        std::mem::forget(stays);
        result
    }

    /// How long a waiter may be overtaken, unless the number of waiters makes that longer.
    pub(super) fn window_ns(&self) -> u64 {
        self.configured_window_ns().unwrap_or(WINDOW_NS)
    }

    /// The window that the lock's options or the thread's epoch name.
    fn configured_window_ns(&self) -> Option<u64> {
        let in_epoch = || slo::window_ns().map(|window_ns| window_ns.max(EPOCH_WINDOW_NS_MIN));
        self.table.options().window_ns.or_else(in_epoch)
    }

    /// Joins the wait queue, unless nothing is in the way any more. `prepare` is called when it has
    /// come, under the mutex.
    pub(super) fn enter(
        &self,
        node: &Node<K>,
        prepare: impl FnOnce(&Node<K>),
    ) -> Result<Option<Held<K>>, LockError> {
        let mut queue = self.queue.lock();
        // SAFETY: the node is new, and every way out of the waits below unlinks it first.
        unsafe { queue.link(node) };
        queue.counters.waits += 1;
        // SAFETY: the mutex is held.
        let guarded = unsafe { node.guarded() };
        if self.configured_window_ns().is_none() {
            let end_ns = guarded.began_ns.saturating_add(EACH_NS * u64::from(queue.count - 1));
            guarded.window_end_ns = guarded.window_end_ns.max(end_ns);
        }
        if clock::now_ns() >= guarded.window_end_ns {
            self.mark_starving(&queue, node);
        }
        let refused = match self.admit(&queue, node) {
            Ok(Some(held)) => {
                self.leave(&mut queue, node);
                return Ok(Some(held));
            }
            Ok(None) => deadlock::check(&self.table, &queue, node).err(),
            Err(error) => Some(error),
        };
        if let Some(error) = refused {
            self.give_up(queue, node);
            return Err(error);
        }
        prepare(node);
        self.let_pass(queue, node);
        Ok(None)
    }

    /// Notifies the holders that the newcomer waits for, if they wait too: they may be behind a
    /// waiter that waits for them only now, by way of the newcomer.
    fn let_pass<'s>(&'s self, queue: LockedQueue<'s, K>, node: &Node<K>) {
        // The newcomer, a waiter for it, and a waiter behind this waiter.
        if queue.count < 3 || !node.request().holder.is_known() {
            return;
        }
        let holders = precedence::waited_for(&self.table, &queue, node);
        self.notify(queue, |other| !ptr::eq(other, node) && holders.contains(&other.request().holder));
    }

    /// Takes a waiter's ranges if no waiter goes before it and nothing is in the way (Invariants 1
    /// and 2).
    fn admit(&self, queue: &LockedQueue<'_, K>, node: &Node<K>) -> Result<Option<Held<K>>, LockError> {
        if self.is_behind(queue, node) {
            return Ok(None);
        }
        let how = How { closed: true, waiting: true, awaited: queue.is_awaited(node) };
        match self.take_as(&node.request(), how) {
            Err(LockError::WouldBlock) => Ok(None),
            done => done.map(Some),
        }
    }

    /// Returns whether the waiter has to let another waiter go first.
    fn is_behind(&self, queue: &LockedQueue<'_, K>, node: &Node<K>) -> bool {
        precedence::before(&self.table, queue, node.request(), node).next().is_some()
    }

    /// Takes the waiter out of the wait queue.
    fn leave(&self, queue: &mut LockedQueue<'_, K>, node: &Node<K>) {
        // SAFETY: the wait queue's mutex is held, and the node is in the list.
        let guarded = unsafe { node.guarded() };
        if guarded.starving {
            guarded.starving = false;
            self.table.open(&node.request());
        }
        let waited_ns = clock::now_ns().saturating_sub(guarded.began_ns);
        queue.counters.waited_ns += waited_ns;
        queue.counters.waited_ns_max = queue.counters.waited_ns_max.max(waited_ns);
        // SAFETY: as above.
        unsafe { queue.unlink(node) };
    }

    /// Takes the waiter out of the wait queue without its ranges.
    fn give_up<'s>(&'s self, mut queue: LockedQueue<'s, K>, node: &Node<K>) {
        self.leave(&mut queue, node);
        queue.counters.given_up += 1;
        let freed: Vec<PositionRange> =
            node.request().wants().map(|want| PositionRange { first: want.first, last: want.last }).collect();
        self.settle(queue, &freed);
    }

    /// Makes the waiter starving: no other thread may overtake it from now on (Invariant 4).
    fn mark_starving(&self, _queue: &LockedQueue<'_, K>, node: &Node<K>) {
        // SAFETY: the wait queue's mutex is held.
        let guarded = unsafe { node.guarded() };
        if !guarded.starving {
            guarded.starving = true;
            self.table.close(&node.request());
        }
    }

    /// Sleeps until the ranges are the waiter's, or it has to give up.
    fn sleep(&self, node: &Node<K>, deadline: Option<Deadline>) -> Result<Held<K>, LockError> {
        let mut window_end_ns = {
            let _queue = self.queue.lock();
            // SAFETY: the wait queue's mutex is held.
            unsafe { node.guarded() }.window_end_ns
        };
        loop {
            // A window that is over does not end again.
            let window = (window_end_ns != u64::MAX)
                .then_some(Deadline { clock: Clock::Monotonic, ns: window_end_ns });
            let until = match (window, deadline) {
                (Some(window), Some(deadline)) if deadline.remaining_ns() < window.remaining_ns() => {
                    Some(deadline)
                }
                (Some(window), _) => Some(window),
                (None, deadline) => deadline,
            };
            // Acquire pairs with the release of `HANDED`.
            if node.word.load(Ordering::Acquire) == WAITING {
                futex::wait_set(&node.word, WAITING, futex::ANY_SET, until);
            }
            if node.word.load(Ordering::Acquire) == HANDED {
                // SAFETY: no other thread touches the node any more (wait_queue.rs, Invariant 2).
                return Ok(unsafe { node.guarded() }.held);
            }
            let now_ns = clock::now_ns();
            if now_ns >= window_end_ns {
                window_end_ns = u64::MAX;
            }
            let given_up = deadline.is_some_and(|deadline| deadline.remaining_ns() == 0);
            if let Some(result) = self.look(node, now_ns, given_up, |_| ()) {
                return result;
            }
        }
    }

    /// What has become of a waiter that was notified, or whose time is up. `None`: it goes on
    /// waiting, and `prepare` was called under the mutex.
    pub(super) fn look(
        &self,
        node: &Node<K>,
        now_ns: u64,
        gives_up: bool,
        prepare: impl FnOnce(&Node<K>),
    ) -> Option<Result<Held<K>, LockError>> {
        let mut queue = self.queue.lock();
        // Relaxed: words change under the mutex.
        let word = node.word.load(Ordering::Relaxed);
        if word == HANDED {
            // SAFETY: no other thread touches the node any more.
            return Some(Ok(unsafe { node.guarded() }.held));
        }
        node.word.store(WAITING, Ordering::Relaxed);
        // SAFETY: the mutex is held.
        let is_over = now_ns >= unsafe { node.guarded() }.window_end_ns;
        if is_over {
            self.mark_starving(&queue, node);
        }
        if gives_up || word == LOOK || is_over {
            match self.admit(&queue, node) {
                Ok(Some(held)) => {
                    self.leave(&mut queue, node);
                    return Some(Ok(held));
                }
                Ok(None) => {}
                Err(error) => {
                    self.give_up(queue, node);
                    return Some(Err(error));
                }
            }
        }
        if gives_up {
            self.give_up(queue, node);
            return Some(Err(LockError::TimedOut));
        }
        prepare(node);
        None
    }

    /// A waiter that does not want to wait any more: its future is dropped. Whatever it was handed
    /// is released.
    pub(super) fn cancel(&self, node: &Node<K>) {
        let queue = self.queue.lock();
        // SAFETY: the mutex is held.
        let linked = unsafe { node.guarded() }.linked;
        // Relaxed: words change under the mutex.
        if node.word.load(Ordering::Relaxed) == HANDED {
            drop(queue);
            // SAFETY: the ranges are the waiter's, which does not use them.
            unsafe { self.release(node.guarded().held) };
        } else if linked {
            self.give_up(queue, node);
        }
    }

    /// Gives ranges back.
    ///
    /// # Safety
    /// The caller holds them, and does not use them any more.
    #[inline(always)]
    pub(super) unsafe fn release(&self, held: Held<K>) {
        // SAFETY: the caller's promise: it holds the slot until `free`.
        unsafe {
            let slot = &*held.0;
            if !slot.entry().next.is_null() || !slot.try_free() {
                self.release_slow(held);
            }
        }
    }

    /// Gives back a range of several slots, or a range that waiters wait for, and notifies these
    /// waiters.
    ///
    /// # Safety
    /// As [`RangeLock::release`].
    #[cold]
    #[inline(never)]
    unsafe fn release_slow(&self, held: Held<K>) {
        let mut freed = Vec::new();
        // SAFETY: the caller's promise; each slot is freed once, after its last use.
        unsafe {
            for slot in held.slots() {
                let entry = (*slot).entry();
                let freed_range = PositionRange { first: entry.span.first(), last: entry.span.last() };
                // The slots of one range say the same.
                if (*slot).free() && !freed.contains(&freed_range) {
                    freed.push(freed_range);
                }
            }
        }
        if !freed.is_empty() {
            self.settle(self.queue.lock(), &freed);
        }
    }

    /// Notifies the waiters that may go on, after some ranges became free, or a waiter waits for
    /// them no more (Invariant 3).
    fn settle<'s>(&'s self, queue: LockedQueue<'s, K>, freed: &[PositionRange]) {
        self.notify(queue, |node| freed.iter().any(|freed_range| freed_range.may_overlap(&node.request())));
    }

    /// Notifies the waiters that `picks` accepts, if they may go on: they were not notified yet,
    /// and are behind no other waiter.
    fn notify<'s>(&'s self, mut queue: LockedQueue<'s, K>, picks: impl Fn(&Node<K>) -> bool) {
        let mut wakes = Wakes::new();
        let mut now_ns = 0;
        loop {
            for node in queue.nodes() {
                if wakes.is_full() {
                    break;
                }
                // Relaxed: words change under the mutex.
                let waits = node.word.load(Ordering::Relaxed) == WAITING;
                if !waits || !picks(node) || self.is_behind(&queue, node) {
                    continue;
                }
                if now_ns == 0 {
                    now_ns = clock::now_ns();
                }
                self.serve(&mut queue, node, now_ns, &mut wakes);
            }
            let again = wakes.is_full();
            drop(queue);
            wakes.wake();
            if !again {
                return;
            }
            // More than fit into one batch: no waiter is notified twice.
            queue = self.queue.lock();
        }
    }

    /// Hands the waiter its ranges if they are free and it is starving. Notifies it, so that it
    /// looks, if they are free and it is not.
    fn serve(&self, queue: &mut LockedQueue<'_, K>, node: &Node<K>, now_ns: u64, wakes: &mut Wakes) {
        // SAFETY: the mutex is held, here and below.
        if now_ns < unsafe { node.guarded() }.window_end_ns {
            if self.table.is_free_or_awaited(&node.request()) {
                // SAFETY: as above; there is room for a call.
                unsafe { wakes.notify(node, LOOK) };
            }
            return;
        }
        match self.admit(queue, node) {
            Ok(Some(held)) => {
                queue.counters.handed += 1;
                self.leave(queue, node);
                // SAFETY: as above; it is the last that is done to the node.
                unsafe {
                    node.guarded().held = held;
                    wakes.notify(node, HANDED);
                }
            }
            Ok(None) => self.mark_starving(queue, node),
            // It finds out for itself.
            // SAFETY: as above.
            Err(_) => unsafe { wakes.notify(node, LOOK) },
        }
    }
}
