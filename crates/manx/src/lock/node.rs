//! Places in a queue: each thread owns some, and stands in one of them in each queue that it is in.
//!
//! The next in line writes into the place of the one before it, so a place stays where it is for as
//! long as a thread stands in it. Guards move, and threads hold several locks at once and release
//! them in any order, so places are neither in guards nor a stack: they are lent from a pool that
//! belongs to the thread.
//!
//! ```text
//!   lend: from the free list, or the heap if that is empty ──► queue ──► give back: to the free list,
//!                                                                        or the heap if that is full
//! ```
//!
//! Invariants:
//! 1. A place is in its owner's free list, or lent. Only its owner lends it and gives it back.
//! 2. A place that is given back concerns only its owner: no queue leads to it, and the thread that
//!    stood behind it has been seen, so that no thread will write to it. (Its address may still be
//!    used to wake a thread, as a name.)
//! 3. A free list has at most [`KEPT`] places. So a thread keeps at most this number of places
//!    beside the lent ones, and none after its end: what is lent while the thread's variables are
//!    being destroyed comes from the heap and goes back there.
//! 4. A place that is never given back, because a program forgot a guard, is never reused either.

use platform::atomic::{AtomicPtr, AtomicU32};
use platform::cell::UnsafeCell;
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// The number of places that a thread keeps for later: as many as the locks that most threads ever
/// hold at once.
const KEPT: u32 = 8;

/// A place in a queue.
///
/// Two cache lines of its own, since they are fetched in pairs: a waiter looks at its own place
/// only.
#[repr(align(128))]
pub struct Node<S = ()> {
    /// The place behind this one.
    pub next: AtomicPtr<Node<S>>,
    /// How far this place has come; the lock knows what it means. 0 when lent.
    pub state: AtomicU32,
    /// The next one in the free list. Used by the owner only.
    free: Cell<*mut Node<S>>,
    /// What a lock keeps here beside the queue. [`Side::NONE`] when lent; the lock that changes it
    /// puts that back.
    pub side: UnsafeCell<S>,
}

/// What a lock keeps at each place beside the queue: `()`, unless holders pass on more than the
/// lock.
///
/// Each such type has places of its own, which a thread keeps in a [`Pool`].
pub trait Side: Sized + 'static {
    /// What a place has when it is lent.
    const NONE: Self;

    /// Runs this with the pool of the calling thread; `None` if the thread's variables are gone.
    fn with_pool<R>(run: impl FnOnce(&Pool<Self>) -> R) -> Option<R>;
}

/// A thread's free list.
pub struct Pool<S> {
    first: Cell<*mut Node<S>>,
    count: Cell<u32>,
}

platform::thread_local! {
    static POOL: Pool<()> = Pool::new();
}

impl Side for () {
    const NONE: () = ();

    #[inline]
    fn with_pool<R>(run: impl FnOnce(&Pool<()>) -> R) -> Option<R> {
        POOL.try_with(run).ok()
    }
}

/// Lends a place to the calling thread, with no place behind it and state 0.
#[inline]
pub fn lend<S: Side>() -> NonNull<Node<S>> {
    // Nothing says that the thread's variables are gone: Invariant 3.
    let kept = S::with_pool(Pool::take).flatten();
    kept.unwrap_or_else(allocate)
}

/// Takes a place back.
///
/// # Safety
/// The calling thread was lent the place and no other thread knows of it any more (Invariant 2).
#[inline]
pub unsafe fn give_back<S: Side>(node: NonNull<Node<S>>) {
    if !S::with_pool(|pool| pool.keep(node)).unwrap_or(false) {
        // SAFETY: it came from `allocate`, and is in no list and no queue.
        unsafe { free(node) };
    }
}

#[cold]
fn allocate<S: Side>() -> NonNull<Node<S>> {
    let (next, free) = (AtomicPtr::new(ptr::null_mut()), Cell::new(ptr::null_mut()));
    let node = Box::new(Node { next, state: AtomicU32::new(0), free, side: UnsafeCell::new(S::NONE) });
    NonNull::from(Box::leak(node))
}

/// # Safety
/// The place came from [`allocate`] and is not used any more.
#[cold]
unsafe fn free<S>(node: NonNull<Node<S>>) {
    // SAFETY: as the caller promised.
    drop(unsafe { Box::from_raw(node.as_ptr()) });
}

impl<S> Pool<S> {
    /// An empty one, which keeps 8 places at most.
    #[allow(clippy::new_without_default, reason = "one for each thread and kind of place")]
    pub const fn new() -> Self {
        Pool { first: Cell::new(ptr::null_mut()), count: Cell::new(0) }
    }

    #[inline]
    fn take(&self) -> Option<NonNull<Node<S>>> {
        let node = NonNull::new(self.first.get())?;
        // SAFETY: by Invariant 1 a place in the list is there, and this thread's.
        self.first.set(unsafe { node.as_ref() }.free.get());
        self.count.set(self.count.get() - 1);
        Some(node)
    }

    /// Puts a place into the list, if there is room.
    #[inline]
    fn keep(&self, node: NonNull<Node<S>>) -> bool {
        use platform::atomic::Ordering::Relaxed;
        if self.count.get() >= KEPT {
            return false;
        }
        // SAFETY: only its owner has it (Invariant 2).
        let place = unsafe { node.as_ref() };
        // Relaxed: the next queue that leads to it publishes it.
        place.next.store(ptr::null_mut(), Relaxed);
        place.state.store(0, Relaxed);
        place.free.set(self.first.replace(node.as_ptr()));
        self.count.set(self.count.get() + 1);
        true
    }
}

impl<S> Drop for Pool<S> {
    fn drop(&mut self) {
        while let Some(node) = self.take() {
            // SAFETY: by Invariant 1 it is in no queue.
            unsafe { free(node) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lend_all(count: u32) -> Vec<NonNull<Node>> {
        (0..count).map(|_| lend()).collect()
    }

    fn give_all_back(nodes: Vec<NonNull<Node>>) {
        for node in nodes {
            // SAFETY: lent above, and in no queue.
            unsafe { give_back(node) };
        }
    }

    fn kept() -> u32 {
        POOL.with(|pool| pool.count.get())
    }

    #[test]
    fn a_place_is_lent_again_and_again() {
        let first = lend::<()>();
        // SAFETY: lent, and in no queue.
        unsafe { give_back(first) };
        for _ in 0..1_000 {
            assert_eq!(lend(), first);
            // SAFETY: as above.
            unsafe { give_back(first) };
        }
        assert_eq!(kept(), 1);
    }

    #[test]
    fn places_that_are_lent_at_once_differ_and_a_bounded_number_is_kept() {
        let mut nodes = lend_all(3 * KEPT);
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), 3 * KEPT as usize);
        give_all_back(nodes);
        assert_eq!(kept(), KEPT);
        give_all_back(lend_all(3 * KEPT));
        assert_eq!(kept(), KEPT);
    }

    #[test]
    fn a_place_comes_back_as_new() {
        use platform::atomic::Ordering::Relaxed;
        let node = lend::<()>();
        // SAFETY: lent to this thread.
        let place = unsafe { node.as_ref() };
        place.state.store(7, Relaxed);
        place.next.store(node.as_ptr(), Relaxed);
        // SAFETY: lent above, and in no queue.
        unsafe { give_back(node) };
        assert_eq!(lend(), node);
        assert_eq!((place.state.load(Relaxed), place.next.load(Relaxed)), (0, ptr::null_mut()));
        // SAFETY: as above.
        unsafe { give_back(node) };
    }
}
