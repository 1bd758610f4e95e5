//! The lock-free skip list of held ranges (Thua-Duc Nguyen, "Concurrent Range Locking", 2024),
//! complete.
//!
//! A range lock is a set of ranges that do not overlap: to lock is to insert, to unlock is to
//! delete. The thesis keeps the set in a skip list that threads change by compare-and-swap only,
//! after the lock-free skip list of Herlihy and Shavit; it shows that this passes trees and lists
//! under one lock, and leaves open how memory comes back, what happens at the ends of the key
//! space, and how to wait. This is the same algorithm with these gaps filled.
//! [`SkipListPublished`](super::SkipListPublished) has it with them.
//!
//! | the thesis | here |
//! | --- | --- |
//! | two heap objects a node, and one a level; none is ever freed | one piece of memory a node, used again or freed ([`epoch`], [`node`]) |
//! | between the mark at level 0 and the unlinking, requests that overlap fail | marked nodes are in no thread's way; a thread that comes by unlinks them ([`list`]) |
//! | links of upper levels may lead to nodes released long ago | never to a node that is used again ([`node`], [`list`]) |
//! | the ends of the key space are keys of sentinels | the ends are structure; every key can be locked |
//! | closed ranges of integers; an inverted one blocks others for ever | [`Span`]s of any [`Key`], which are never empty |
//! | any thread can release any range by its name | the lock gives each holder one handle, which cannot be copied; a release takes the handle, and the lock refuses a handle of another lock |
//! | try and yield | a line of waiters, which releases wake ([`WaitQueue`]) |
//!
//! It is exclusive only, as in the thesis. To try is lock-free: a thread that stands still
//! anywhere, also within a release, makes no other fail or wait for it. A thread that waits has no
//! promised turn: a newcomer may be faster.
//!
//! Memory: 56 bytes a node and 8 more for each level, in whole cache lines, so 192 at the default
//! height. There are as many nodes as ranges are held, about two hundred more for each slot of the
//! epochs (16, if no more threads are inside at once), and a thousand that any thread may take. A
//! thread that stands still within a walk keeps as many more as were held when it stopped, and a
//! few hundred (see [`epoch`]). All others go back to the heap, so that memory falls back after a
//! peak, and does not grow with the number of pairs. A lock has 2.7 KiB of its own.
//!
//! Keys are compared, cloned and dropped by the caller's code, which may panic. What a walk
//! compares is not changed by that. A panic while a range is taken may leave it taken, and a panic
//! while one is released may leak its node.
//!
//! Invariants:
//! 1. What a holder keeps ([`SkipListHeld`]) names a linked node of the lock with that number. It
//!    cannot be copied, and a release takes it. So a node that was released has no name any more,
//!    and may be freed: nothing is looked up in it to tell whether a release is the first one. Code
//!    that copies the name by `unsafe` means breaks this; with debug assertions, such a release
//!    panics as long as the node has not been lent again.

mod chain;
mod epoch;
pub(super) mod link;
mod list;
mod node;
mod slot;

use super::queue::WaitQueue;
use list::{BRANCHING_LOG2, HEIGHT_MAX, List};
use manx::range::Key;
use manx::range::Span;
use manx::range::{Access, RawRangeLock};
use node::Node;
use platform::atomic::{AtomicU64, Ordering};
use std::fmt;
use std::ptr::NonNull;

platform::global! {
    static LOCKS: AtomicU64 = AtomicU64::new(1);
}

/// The thesis' skip list of held ranges.
///
/// ```
/// use manx::range::Span;
/// use baselines::range::SkipList;
///
/// let lock: SkipList<&str> = SkipList::new();
/// let names = lock.try_acquire(&Span::new("a", "n")?).expect("nobody has it");
/// assert!(lock.try_acquire(&Span::new("manx", "tailless")?).is_none());
/// let others = lock.acquire(&Span::from("n"));
/// assert!(lock.release(names).is_ok() && lock.release(others).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SkipList<K: Key = u64> {
    list: List<K>,
    queue: WaitQueue<K>,
    /// No other lock's, ever.
    number: u64,
}

platform::os_only! {
    const _: () = assert!(size_of::<SkipList<u64>>() <= 2752, "what the module's text says");
}

// SAFETY: keys are written by the thread that takes a range, read by threads that walk past, and
// dropped by the thread that takes the next; the list and the queue say how these are kept apart.
unsafe impl<K: Key + Send + Sync> Send for SkipList<K> {}
// SAFETY: as above.
unsafe impl<K: Key + Send + Sync> Sync for SkipList<K> {}

/// What the holder of a range of a [`SkipList`] keeps.
pub struct SkipListHeld<K: Key = u64> {
    node: NonNull<Node<K>>,
    lock: u64,
}

// SAFETY: it is a name of a node; only its lock looks at that, and any thread may ask it to.
unsafe impl<K: Key + Send + Sync> Send for SkipListHeld<K> {}
// SAFETY: as above; nothing can be done with a shared reference.
unsafe impl<K: Key + Send + Sync> Sync for SkipListHeld<K> {}

/// A height that no skip list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeightOutOfRange(usize);

impl<K: Key> SkipList<K> {
    /// The height that the thesis finds best (section 5.3.2), and so the default.
    pub const HEIGHT: usize = 10;
    /// The most levels there can be.
    pub const HEIGHT_MAX: usize = HEIGHT_MAX;

    /// Makes a lock with no range held.
    pub fn new() -> SkipList<K> {
        SkipList::of_height(SkipList::<K>::HEIGHT)
    }

    /// A lock whose list has `height` levels.
    ///
    /// # Errors
    /// The height is 0 or above [`HEIGHT_MAX`](SkipList::HEIGHT_MAX).
    pub fn with_height(height: usize) -> Result<SkipList<K>, HeightOutOfRange> {
        HeightOutOfRange::check(height).map(SkipList::of_height)
    }

    /// The same, where half of the nodes that reach a level are higher, as in the thesis; usually
    /// it is one in eight, which needs fewer links for as many ranges.
    ///
    /// # Errors
    /// As [`with_height`](SkipList::with_height).
    pub fn with_height_by_halves(height: usize) -> Result<SkipList<K>, HeightOutOfRange> {
        HeightOutOfRange::check(height).map(|height| SkipList::of(height, 1))
    }

    fn of_height(height: usize) -> SkipList<K> {
        SkipList::of(height, BRANCHING_LOG2)
    }

    fn of(height: usize, branching_log2: u32) -> SkipList<K> {
        // Relaxed: that numbers differ is all.
        let number = LOCKS.fetch_add(1, Ordering::Relaxed);
        SkipList { list: List::new(height, branching_log2), queue: WaitQueue::new(), number }
    }

    /// How many levels the list has.
    pub const fn height(&self) -> usize {
        self.list.height()
    }

    /// Takes the range if no part of it is held. Lock-free.
    #[inline]
    pub fn try_acquire(&self, span: &Span<K>) -> Option<SkipListHeld<K>> {
        let pin = self.list.pin();
        let node = self.list.insert(&pin, span)?;
        Some(SkipListHeld { node, lock: self.number })
    }

    /// Waits until the range is this caller's.
    #[inline]
    pub fn acquire(&self, span: &Span<K>) -> SkipListHeld<K> {
        match self.try_acquire(span) {
            Some(held) => held,
            None => self.acquire_contended(span),
        }
    }

    #[cold]
    fn acquire_contended(&self, span: &Span<K>) -> SkipListHeld<K> {
        self.queue.wait(span, Access::Exclusive, || self.try_acquire(span))
    }

    /// Gives a range back, if `held` is what this lock gave out for it.
    ///
    /// # Errors
    /// It is another lock's; it is returned, and nothing has changed.
    pub fn release(&self, held: SkipListHeld<K>) -> Result<(), SkipListHeld<K>> {
        if held.lock != self.number {
            return Err(held);
        }
        // SAFETY: by Invariant 1 it is the only handle of a node of this lock.
        unsafe { self.remove(held.node) };
        Ok(())
    }

    /// # Safety
    /// The node stands for a range that the caller gives back, once.
    #[inline]
    unsafe fn remove(&self, node: NonNull<Node<K>>) {
        // SAFETY: as the caller says.
        unsafe { self.list.release(node) };
        // The range was released by a mark, which is a sequentially consistent read-modify-write.
        if self.queue.released_by_rmw() {
            // SAFETY: not left yet, so the node keeps its range.
            unsafe { node.as_ref() }.with_span(|span| self.queue.wake(span));
        }
        // SAFETY: released above, and what the pin meets is not used.
        unsafe { self.list.leave(&self.list.pin(), node) };
    }

    /// Returns whether a part of the range is held at this moment.
    pub fn is_held(&self, span: &Span<K>) -> bool {
        self.list.overlaps(&self.list.pin(), span)
    }

    /// How many nodes the lock has allocated and not freed: nodes of held ranges, and nodes waiting
    /// to be used again.
    pub fn allocated(&self) -> usize {
        self.list.allocated()
    }

    /// How many wait in line at this moment.
    pub fn waiting(&self) -> usize {
        self.queue.waiting() as usize
    }
}

impl<K: Key> Default for SkipList<K> {
    fn default() -> Self {
        SkipList::new()
    }
}

// SAFETY: by the invariants of the list: ranges that overlap are never in it at once, and the order
// of memory is that of its links. What is waiting tries again in the same way.
unsafe impl RawRangeLock for SkipList<u64> {
    type Held = SkipListHeld<u64>;
    const NAME: &'static str = "skip_list";
    const SHARES: bool = false;

    fn with_space(_space: u64) -> Self {
        SkipList::new()
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, _access: Access) -> Option<SkipListHeld> {
        self.try_acquire(span)
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, _access: Access) -> SkipListHeld {
        self.acquire(span)
    }

    #[inline]
    unsafe fn unlock(&self, held: SkipListHeld) {
        debug_assert_eq!(held.lock, self.number, "a range of another lock");
        // SAFETY: as the caller promised, and by Invariant 1, this is the one release.
        unsafe { self.remove(held.node) };
    }
}

impl<K: Key> fmt::Debug for SkipList<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = to.debug_struct("SkipList");
        fields.field("height", &self.height()).field("allocated", &self.allocated());
        fields.field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

impl<K: Key> fmt::Debug for SkipListHeld<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("SkipListHeld").field("lock", &self.lock).finish_non_exhaustive()
    }
}

impl HeightOutOfRange {
    const fn check(height: usize) -> Result<usize, HeightOutOfRange> {
        if height == 0 || height > HEIGHT_MAX { Err(HeightOutOfRange(height)) } else { Ok(height) }
    }
}

impl fmt::Display for HeightOutOfRange {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a skip list of {} levels: it has 1 to {HEIGHT_MAX}", self.0)
    }
}

impl std::error::Error for HeightOutOfRange {}
