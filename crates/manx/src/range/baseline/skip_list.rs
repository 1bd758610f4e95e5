//! The lock-free skip list of held ranges (Thua-Duc Nguyen, "Concurrent Range Locking", 2024), complete.
//!
//! A range lock is a set of ranges that do not overlap: to lock is to insert, to unlock is to delete. The thesis
//! keeps the set in a skip list that threads change by compare-and-swap only, after the lock-free skip list of
//! Herlihy and Shavit; it shows that this passes trees and lists under one lock, and leaves open how memory comes
//! back, what happens at the ends of the key space, and how to wait. This is the same algorithm with these gaps
//! filled. [`SkipListPublished`](super::SkipListPublished) has it with them.
//!
//! | the thesis | here |
//! | --- | --- |
//! | two heap objects a node, and one a level; none is ever freed | one piece of memory a node, used again ([`epoch`], [`node`]) |
//! | between the mark at level 0 and the unlinking, requests that overlap fail | marked nodes are in nobody's way; whoever comes by unlinks them ([`list`]) |
//! | links of upper levels may lead to nodes released long ago | never to one that is used again ([`node`], [`list`]) |
//! | the ends of the key space are keys of sentinels | the ends are structure; every key can be locked |
//! | closed ranges of integers; an inverted one blocks others for ever | [`Span`]s of any [`Key`], which are never empty |
//! | whoever names a range releases it | who releases shows what it got; what is not its own is refused |
//! | try and yield | a line of waiters, whom releases wake ([`WaitQueue`]) |
//!
//! It is exclusive only, as in the thesis. To try is lock-free: a thread that stands still anywhere, also within a
//! release, makes no other fail or wait for it; at most, others take naps so that it runs (see [`epoch`]). Who waits
//! has no promised turn: a newcomer may be faster.
//!
//! Memory: 56 bytes a node and 8 more for each level, in whole cache lines, so 192 at the default height. There are
//! as many nodes as ranges were ever held at once, and about a hundred more for each thread that was inside at once
//! (see [`epoch`] for what a thread that stands still adds). A lock has 2.6 KiB of its own.
//!
//! Keys are compared, cloned and dropped by the caller's code, which may panic. What a walk compares is not changed
//! by that; who panics while it takes a range may leave it taken, and who panics while it releases one may leave its
//! node unused.
//!
//! Invariants:
//! 1. What a holder keeps (`SkipListHeld`) names a node of the lock with that number, and the node's generation when
//!    it was linked. Nodes live as long as their lock, so looking at the generation is allowed whatever became of the
//!    range.
//! 2. The generation is raised once for each release, before the node is marked. So of all who show the same, one
//!    releases.

mod chain;
mod epoch;
pub(super) mod link;
mod list;
mod node;
mod slot;

use super::super::key::Key;
use super::super::raw::{Access, RawRangeLock};
use super::super::span::Span;
use super::queue::WaitQueue;
use list::{HEIGHT_MAX, List};
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
/// use manx::range::baseline::SkipList;
///
/// let lock: SkipList<&str> = SkipList::new();
/// let names = lock.try_acquire(&Span::new("a", "n")?).expect("nobody has it");
/// assert!(lock.try_acquire(&Span::new("manx", "tailless")?).is_none());
/// let others = lock.acquire(&Span::from("n"));
/// lock.release(names)?;
/// lock.release(others)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SkipList<K: Key = u64> {
    list: List<K>,
    queue: WaitQueue<K>,
    /// No other lock's, ever.
    number: u64,
}

platform::os_only! {
    const _: () = assert!(size_of::<SkipList<u64>>() <= 2688, "what the module's text says");
}

// SAFETY: keys are written by who takes a range, read by whoever walks past, and dropped by who takes the next; the
// list and the queue say how these are kept apart.
unsafe impl<K: Key + Send + Sync> Send for SkipList<K> {}
// SAFETY: as above.
unsafe impl<K: Key + Send + Sync> Sync for SkipList<K> {}

/// What the holder of a range of a [`SkipList`] keeps.
pub struct SkipListHeld<K: Key = u64> {
    node: NonNull<Node<K>>,
    generation: u32,
    lock: u64,
}

// SAFETY: it is a name of a node; only its lock looks at that, and any thread may ask it to.
unsafe impl<K: Key + Send + Sync> Send for SkipListHeld<K> {}
// SAFETY: as above; nothing can be done with a shared reference.
unsafe impl<K: Key + Send + Sync> Sync for SkipListHeld<K> {}

/// A height that no skip list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeightOutOfRange(usize);

/// What was shown to a lock is not what it gave out, or was released before. It can be taken back.
pub struct NotHeld<K: Key = u64>(SkipListHeld<K>);

impl<K: Key> SkipList<K> {
    /// The height that the thesis finds best (section 5.3.2), and so the default.
    pub const HEIGHT: usize = 10;
    /// The most levels there can be.
    pub const HEIGHT_MAX: usize = HEIGHT_MAX;

    /// A lock of which nothing is held.
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

    fn of_height(height: usize) -> SkipList<K> {
        // Relaxed: that numbers differ is all.
        let number = LOCKS.fetch_add(1, Ordering::Relaxed);
        SkipList { list: List::new(height), queue: WaitQueue::new(), number }
    }

    /// How many levels the list has.
    pub const fn height(&self) -> usize {
        self.list.height()
    }

    /// Takes the range if nobody holds a part of it. Lock-free.
    #[inline]
    pub fn try_acquire(&self, span: &Span<K>) -> Option<SkipListHeld<K>> {
        let pin = self.list.pin();
        let node = self.list.insert(&pin, span)?;
        // SAFETY: the node is linked for this caller, and lives as long as the lock.
        let generation = unsafe { node.as_ref() }.generation();
        Some(SkipListHeld { node, generation, lock: self.number })
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

    /// Gives a range back, if `held` is what this lock gave out for it and it was not given back before.
    ///
    /// # Errors
    /// It is another lock's, or a copy of one that was released; it is returned, and nothing has changed.
    pub fn release(&self, held: SkipListHeld<K>) -> Result<(), NotHeld<K>> {
        // Invariant 1: if the number is this lock's, the node is there. Invariant 2: only one raises the generation.
        // SAFETY: as above.
        if held.lock != self.number || !unsafe { held.node.as_ref() }.next_generation(held.generation) {
            return Err(NotHeld(held));
        }
        // SAFETY: the node is linked, and this is the one release of it.
        unsafe { self.remove(held.node) };
        Ok(())
    }

    /// # Safety
    /// The node stands for a range that the caller gives back, once.
    #[inline]
    unsafe fn remove(&self, node: NonNull<Node<K>>) {
        let pin = self.list.pin();
        // SAFETY: as the caller says.
        unsafe { self.list.remove(&pin, node) };
        // The range was released by a mark, which is a sequentially consistent read-modify-write.
        if self.queue.released_by_rmw() {
            // SAFETY: still pinned, so the node keeps its range.
            let span = unsafe { node.as_ref() }.with_span(Span::clone);
            drop(pin);
            self.queue.wake(&span);
        }
    }

    /// Whether somebody holds a part of the range at this moment.
    pub fn is_held(&self, span: &Span<K>) -> bool {
        self.list.overlaps(&self.list.pin(), span)
    }

    /// How many nodes the lock has allocated: those of held ranges, and those waiting to be used again.
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

// SAFETY: by the invariants of the list: ranges that overlap are never in it at once, and the order of memory is that
// of its links. What is waiting tries again in the same way.
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
        // SAFETY: as the caller promised, the node is this lock's (Invariant 1).
        let node = unsafe { held.node.as_ref() };
        debug_assert_eq!(held.generation, node.generation(), "the range was released before");
        node.count_release(held.generation);
        // SAFETY: as the caller promised, this is the one release.
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

impl<K: Key> NotHeld<K> {
    /// What was shown.
    pub fn into_held(self) -> SkipListHeld<K> {
        self.0
    }
}

impl<K: Key> fmt::Debug for NotHeld<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("NotHeld").field(&self.0).finish()
    }
}

impl<K: Key> fmt::Display for NotHeld<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("the range is not held here: show the lock that gave it out, and each only once")
    }
}

impl<K: Key> std::error::Error for NotHeld<K> {}

impl HeightOutOfRange {
    pub(super) const fn check(height: usize) -> Result<usize, HeightOutOfRange> {
        if height == 0 || height > HEIGHT_MAX { Err(HeightOutOfRange(height)) } else { Ok(height) }
    }
}

impl fmt::Display for HeightOutOfRange {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a skip list of {} levels: it has 1 to {HEIGHT_MAX}", self.0)
    }
}

impl std::error::Error for HeightOutOfRange {}
