//! The wait queue: the waiters for ranges, in the order of arrival.
//!
//! One mutex, and a list through nodes that lie on the waiters' stacks or in their futures. A
//! thread that has the mutex may take words of shards, never the other way round.
//!
//! | word of a node | meaning |
//! | --- | --- |
//! | [`WAITING`] | nothing has happened since the waiter looked |
//! | [`LOOK`] | its ranges were free a moment ago: it may try |
//! | [`HANDED`] | they are its own; it is in the list no more |
//!
//! Invariants:
//! 1. The list, and what is in nodes that are in it, belong to the holder of the mutex. A node
//!    stays where it is while it is in the list, and its request lives as long.
//! 2. The step that changes a word to `HANDED` is the last step of another thread on a node; the
//!    node's owner may then be gone at once. Waking the owner gives the kernel an address, as a
//!    name.
//!
//! # Memory orderings
//! The mutex orders all but `HANDED`, which is stored with release and read with acquire: the
//! waiter sees the ranges that it was handed, and what their last holders did, because the thread
//! that handed them over had seen that.

use super::holder::Holder;
use super::key::Key;
use super::raw::Access;
use super::request::Request;
use super::slot::Held;
use super::span::Span;
use crate::lock::RawMutex;
use platform::atomic::{AtomicU32, Ordering};
use platform::cell::UnsafeCell;
use platform::futex;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::task::Waker;

pub(super) const WAITING: u32 = 0;
pub(super) const LOOK: u32 = 1;
pub(super) const HANDED: u32 = 2;

/// How a waiter waits: what the holder of the mutex knows of it.
#[derive(Debug)]
pub(super) struct Guarded<K> {
    next: *const Node<K>,
    previous: *const Node<K>,
    /// The node is in the list.
    pub(super) linked: bool,
    /// The ranges that were handed to the waiter.
    pub(super) held: Held<K>,
    pub(super) began_ns: u64,
    /// When the waiter's window is over.
    pub(super) window_end_ns: u64,
    /// The window is over, and the shards of the waiter's ranges are closed.
    pub(super) starving: bool,
    /// The waiter already shares a part of its ranges.
    pub(super) upgrades: bool,
    /// The waker of the task to notify; `None`: a thread, which sleeps on the node's word.
    pub(super) waker: Option<Waker>,
}

/// A waiter.
#[derive(Debug)]
pub(super) struct Node<K> {
    pub(super) word: AtomicU32,
    spans: *const [Span<K>],
    own: *const [Held<K>],
    access: Access,
    holder: Holder,
    tag: u64,
    guarded: UnsafeCell<Guarded<K>>,
}

// SAFETY: what is in a node is used under the wait queue's mutex (Invariant 1), or by its owner
// alone.
unsafe impl<K: Send + Sync> Send for Node<K> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync> Sync for Node<K> {}

impl<K> Node<K> {
    /// # Safety
    /// What is in the request lives, and does not change, until the node is dropped.
    pub(super) unsafe fn new(request: &Request<'_, K>, began_ns: u64, window_ns: u64) -> Node<K>
    where
        K: Key,
    {
        let guarded = Guarded {
            next: ptr::null(),
            previous: ptr::null(),
            linked: false,
            held: Held(ptr::null()),
            began_ns,
            window_end_ns: began_ns.saturating_add(window_ns),
            starving: false,
            // SAFETY: what it holds is held until the node is dropped.
            upgrades: unsafe { request.upgrades() },
            waker: None,
        };
        Node {
            word: AtomicU32::new(WAITING),
            spans: request.spans,
            own: request.own,
            access: request.access,
            holder: request.holder,
            tag: request.tag,
            guarded: UnsafeCell::new(guarded),
        }
    }

    pub(super) fn request(&self) -> Request<'_, K> {
        // SAFETY: they live as long as the node, as promised to `new`.
        let (spans, own) = unsafe { (&*self.spans, &*self.own) };
        Request { spans, access: self.access, holder: self.holder, own, tag: self.tag }
    }

    /// # Safety
    /// The caller holds the mutex, or the node is its own and in no list; and it uses one result at
    /// a time.
    #[expect(clippy::mut_from_ref, reason = "the mutex makes it exclusive")]
    pub(super) unsafe fn guarded(&self) -> &mut Guarded<K> {
        // SAFETY: Invariant 1 and the caller's promise.
        self.guarded.with_mut(|guarded| unsafe { &mut *guarded })
    }
}

/// What has happened in the wait queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// The number of waiters that came.
    pub(super) waits: u64,
    pub(super) waited_ns: u64,
    pub(super) waited_ns_max: u64,
    /// The number of waiters that were handed what they waited for.
    pub(super) handed: u32,
    /// The number of waiters that left without it.
    pub(super) given_up: u32,
}

/// The waiters.
#[derive(Debug)]
pub(super) struct List<K> {
    first: *const Node<K>,
    last: *const Node<K>,
    pub(super) count: u32,
    pub(super) counters: Counters,
}

/// The wait queue.
#[derive(Debug)]
#[repr(C)]
pub(super) struct WaitQueue<K> {
    mutex: RawMutex,
    list: UnsafeCell<List<K>>,
}

platform::os_only! {
    const _: () = assert!(size_of::<WaitQueue<u64>>() <= 64);
}

// SAFETY: the list is used under the mutex, and so are the nodes that it leads to (Invariant 1).
unsafe impl<K: Send + Sync> Sync for WaitQueue<K> {}
// SAFETY: as above; no waiter is in a wait queue that is moved.
unsafe impl<K: Send> Send for WaitQueue<K> {}

impl<K> WaitQueue<K> {
    platform::const_fn! {
        pub(super) const fn new() -> WaitQueue<K> {
            let counters = Counters { waits: 0, waited_ns: 0, waited_ns_max: 0, handed: 0, given_up: 0 };
            let list = List { first: ptr::null(), last: ptr::null(), count: 0, counters };
            WaitQueue { mutex: RawMutex::new(), list: UnsafeCell::new(list) }
        }
    }

    pub(super) fn lock(&self) -> LockedQueue<'_, K> {
        self.mutex.acquire();
        LockedQueue { queue: self }
    }
}

/// The mutex of a wait queue, held.
pub(super) struct LockedQueue<'a, K> {
    queue: &'a WaitQueue<K>,
}

impl<K> Drop for LockedQueue<'_, K> {
    fn drop(&mut self) {
        // SAFETY: acquired in `lock`.
        unsafe { self.queue.mutex.release() };
    }
}

impl<K> Deref for LockedQueue<'_, K> {
    type Target = List<K>;

    fn deref(&self) -> &List<K> {
        // SAFETY: Invariant 1; this value is the only way to the list while it lives.
        self.queue.list.with(|list| unsafe { &*list })
    }
}

impl<K> DerefMut for LockedQueue<'_, K> {
    fn deref_mut(&mut self) -> &mut List<K> {
        // SAFETY: Invariant 1; this value is the only way to the list while it lives.
        self.queue.list.with_mut(|list| unsafe { &mut *list })
    }
}

impl<K> List<K> {
    /// Puts a waiter behind the others; or before them, if it has a part of its ranges already,
    /// which they wait for.
    ///
    /// # Safety
    /// The node is in no list, and stays where it is until it was unlinked.
    pub(super) unsafe fn link(&mut self, node: &Node<K>) {
        // SAFETY: Invariant 1, here and below: the list is borrowed from the holder of the mutex.
        let guarded = unsafe { node.guarded() };
        let (previous, next) =
            if guarded.upgrades { (ptr::null(), self.first) } else { (self.last, ptr::null()) };
        guarded.previous = previous;
        guarded.next = next;
        guarded.linked = true;
        self.set_next(previous, node);
        self.set_previous(next, node);
        self.count += 1;
    }

    /// Takes a waiter out.
    ///
    /// # Safety
    /// It is in this list.
    pub(super) unsafe fn unlink(&mut self, node: &Node<K>) {
        // SAFETY: Invariant 1.
        let guarded = unsafe { node.guarded() };
        let (previous, next) = (guarded.previous, guarded.next);
        guarded.linked = false;
        self.set_next(previous, next);
        self.set_previous(next, previous);
        self.count -= 1;
    }

    fn set_next(&mut self, of: *const Node<K>, next: *const Node<K>) {
        // SAFETY: nodes that the list's own nodes point to are in it (Invariant 1).
        match unsafe { of.as_ref() } {
            // SAFETY: as above.
            Some(node) => unsafe { node.guarded() }.next = next,
            None => self.first = next,
        }
    }

    fn set_previous(&mut self, of: *const Node<K>, previous: *const Node<K>) {
        // SAFETY: as in `set_next`.
        match unsafe { of.as_ref() } {
            // SAFETY: as above.
            Some(node) => unsafe { node.guarded() }.previous = previous,
            None => self.last = previous,
        }
    }

    /// The waiters in order, for as long as the caller holds the mutex. A waiter may be unlinked
    /// once the next one was asked for.
    pub(super) fn nodes<'n>(&self) -> Nodes<'n, K> {
        Nodes { next: self.first, held: PhantomData }
    }
}

/// Waiters in order.
#[derive(Debug)]
pub(super) struct Nodes<'n, K> {
    next: *const Node<K>,
    held: PhantomData<&'n Node<K>>,
}

impl<K> Clone for Nodes<'_, K> {
    fn clone(&self) -> Self {
        Nodes { next: self.next, held: PhantomData }
    }
}

impl<'n, K> Iterator for Nodes<'n, K> {
    type Item = &'n Node<K>;

    fn next(&mut self) -> Option<&'n Node<K>> {
        // SAFETY: Invariant 1: the caller holds the mutex as long as it uses the list, and with
        // that the nodes.
        let node = unsafe { self.next.as_ref() }?;
        // SAFETY: as above.
        self.next = unsafe { node.guarded() }.next;
        Some(node)
    }
}

impl<K: Key> List<K> {
    /// Returns whether another waiter waits for what this one wants.
    pub(super) fn is_awaited(&self, node: &Node<K>) -> bool {
        self.nodes().any(|other| !ptr::eq(other, node) && other.request().conflicts_with(&node.request()))
    }
}

/// How many are woken at once.
const BATCH: usize = 16;

enum Call {
    Thread(*const AtomicU32),
    Task(Waker),
}

/// The waiters to wake, once the mutex is released.
pub(super) struct Wakes {
    calls: [Option<Call>; BATCH],
    count: usize,
}

impl Wakes {
    pub(super) fn new() -> Wakes {
        Wakes { calls: [const { None }; BATCH], count: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.count == BATCH
    }

    /// Changes a waiter's word, and wakes it later; the node is not touched after this.
    ///
    /// # Safety
    /// The caller holds the mutex; the list of calls is not full; the node's word is not yet
    /// changed.
    pub(super) unsafe fn notify<K>(&mut self, node: &Node<K>, word: u32) {
        // SAFETY: the caller's promise.
        let call = match unsafe { node.guarded() }.waker.take() {
            Some(waker) => Call::Task(waker),
            None => Call::Thread(&raw const node.word),
        };
        self.calls[self.count] = Some(call);
        self.count += 1;
        node.word.store(word, Ordering::Release);
    }

    /// Wakes them. The mutex is not held: a waker may do anything.
    pub(super) fn wake(&mut self) {
        for call in &mut self.calls[..self.count] {
            match call.take() {
                Some(Call::Task(waker)) => waker.wake(),
                // An address for the kernel (Invariant 2): the node may be gone.
                Some(Call::Thread(word)) => drop(futex::wake(word, 1)),
                None => {}
            }
        }
        self.count = 0;
    }
}
