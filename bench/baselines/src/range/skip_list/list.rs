//! The lists: which ranges are held, sorted, at each level a sample of the nodes at the level
//! below.
//!
//! This is the thesis' data structure (chapter 4, after the lock-free skip list of Herlihy and
//! Shavit and the list of Harris): a range is held from when its node is linked at level 0 (Listing
//! 4.2, line 17) until its link of level 0 is marked (Listing 4.3, line 25). Links of higher levels
//! are shortcuts. A walk goes along the highest level as far as it can, then along the next, and
//! unlinks marked nodes on its way (Listing 4.4).
//!
//! ```text
//!   head ──────────────────────────────► [40,50) ───────────────────────► end        level 1
//!   head ──► [0,10) ──► [10,30)✗ ──────► [40,50) ──► [50,51) ───────────► end        level 0
//!                       marked: a thread that comes by unlinks it
//! ```
//!
//! What differs from the thesis, and why:
//! - *Marks are looked at before keys.* The thesis looks at the mark of a node only if the node is
//!   before the range that it looks for, so a released node right behind the position blocks all
//!   requests that overlap it until its releaser has run again. Here no walk ends at a marked node.
//!   A thread that stops anywhere makes no other thread fail.
//! - *A walk does not go down from a node that leaves.* What such a node's links lead to is old;
//!   the walk begins anew.
//! - *A node's own link is set anew before each attempt to link the node.* The thesis sets it once,
//!   and after a failure its nodes lead to others that were unlinked long ago; with reclamation
//!   that is a use after free.
//! - *A releaser goes on past nodes that begin where its own does.* They are newer ones, which may
//!   stand before it at the higher levels, where it is still linked.
//! - *A releaser marks, and mostly does not unlink.* It leaves the node to the next thread that
//!   comes by (see [`List::leave`]), which is often the releaser: a thread that links a node where
//!   marked ones stand puts it in their place by the same compare-and-swap. So a pair changes the
//!   link before it once, not twice, and walks once; and what one pair of threads passes to and fro
//!   most is the line of that link. A slot of the epochs has few such nodes; the oldest is unlinked
//!   if there are more.
//! - *No sentinels.* Before the first node is the head, which is no node, and behind the last one
//!   is nothing. So ranges without ends are ranges like others.
//! - *One in eight* nodes of a level is linked at the next one as well, not one in two: each level
//!   costs two or three compare-and-swaps, mostly in the line of the head, which all threads share.
//!   Walks are longer than with one in four (Pugh's advice, 1990), which is seen where many
//!   thousands of ranges are held.
//!
//! Invariants:
//! 1. At each level, the nodes from the head on are sorted by where their ranges begin; of two
//!    nodes that begin at the same place the newer is first, and the older is marked.
//! 2. No two nodes of level 0 that are unmarked there overlap.
//! 3. A node is linked at a level from one place at most, is linked once, and once it is unlinked
//!    there it stays so.
//! 4. A node is linked at its levels from the lowest to the highest, and marked from the highest to
//!    the lowest. The first is finished before its range is handed out, the second begins when the
//!    range is given back: they never overlap.
//! 5. A link that is not marked belongs to the head or to a node that is linked at that level.
//!
//! Why Invariant 2 holds: a walk for a range ends between a node that begins before it and a node
//! that does not, both seen unmarked. If neither overlaps it, the compare-and-swap that links the
//! new one succeeds only if the first is still linked (Invariant 5) and nothing has come in
//! between; and by Invariants 1 and 2 nodes further away cannot overlap either. Marked nodes in
//! between change nothing: their links stay as they are, so a thread that finds the first of them
//! still linked finds them all, and what the last one leads to. Why Invariant 3: nodes are unlinked
//! from the one unmarked link that leads to the first of them, and a link is only ever changed to a
//! node that is new, or to what the last of the unlinked led to.
//!
//! # Memory orderings
//! Those of the links (see [`super::link`]). A range is taken by a change of a link which follows,
//! in that link's order, the unlinking of any range that stood in the way, or is it; that one is a
//! change with acquire and release by a thread that saw the mark. So the next holder sees what the
//! last one wrote.

use super::epoch::{Epochs, Pin};
use super::link::Link;
use super::node::{Node, Tower, tower};
use manx::range::Key;
use manx::range::Span;
use std::mem;
use std::ptr::{self, NonNull};

/// The most levels there can be.
pub(super) const HEIGHT_MAX: usize = 20;
/// Usually, one node in 2 to the power of this is higher than a level, of those that reach it.
pub(super) const BRANCHING_LOG2: u32 = 3;

/// Nodes in sorted lists, and nodes that are on their way out.
pub(super) struct List<K> {
    head: [Link<Node<K>>; HEIGHT_MAX],
    height: usize,
    branching_log2: u32,
    epochs: Epochs<Node<K>>,
    allocated: platform::atomic::AtomicUsize,
}

/// A pin of a list's epoch.
pub(super) type ListPin<'a, K> = Pin<'a, Node<K>>;

/// Between which two nodes a range belongs, at each level below the height of its node.
struct Path<K> {
    before: [Tower<K>; HEIGHT_MAX],
    behind: [*mut Node<K>; HEIGHT_MAX],
    /// What the one before leads to at level 0: the one behind, or marked nodes up to it.
    first: *mut Node<K>,
}

/// Where a walk goes down a level.
struct Place<K> {
    /// Null for the head.
    before: *mut Node<K>,
    /// That of the head or of the node before.
    tower: Tower<K>,
    /// What that led to: `behind`, or marked nodes up to it.
    first: *mut Node<K>,
    /// Not marked, or null.
    behind: *mut Node<K>,
}

/// A node that is not linked yet: given back unless [`mem::forget`] is told otherwise.
struct Lent<'a, 'b, K> {
    pin: &'a ListPin<'b, K>,
    node: NonNull<Node<K>>,
}

impl<K> Drop for Lent<'_, '_, K> {
    fn drop(&mut self) {
        // SAFETY: the node is not linked, so it is this thread's alone.
        unsafe { self.pin.give_back(self.node) };
    }
}

/// A link of a tower.
///
/// # Safety
/// The tower is the head's or that of a node that was met while pinned, and has this level; both
/// outlive the use.
#[inline(always)]
unsafe fn link<'a, K>(tower: Tower<K>, level: usize) -> &'a Link<Node<K>> {
    // SAFETY: as the caller says.
    unsafe { &*tower.add(level) }
}

/// Counts that the nodes from `first` up to `behind` were unlinked at a level.
///
/// # Safety
/// They were met while pinned, are marked at this level, and the caller has unlinked them there.
#[inline(always)]
unsafe fn unlinked<K>(first: *mut Node<K>, behind: *mut Node<K>, level: usize) {
    let mut next = first;
    while next != behind
        && let Some(node) = NonNull::new(next)
    {
        // SAFETY: as the caller says; the pin outlives this.
        next = unsafe { link(tower(node), level) }.load().node();
        // SAFETY: as above.
        unsafe { node.as_ref() }.count_unlinked();
    }
}

impl<K: Key> List<K> {
    /// Nothing is held; nodes have at most `height` levels, 1 to [`HEIGHT_MAX`].
    /// One in 2^`branching_log2` of the nodes that reach a level is higher.
    pub(super) fn new(height: usize, branching_log2: u32) -> Self {
        debug_assert!((1..=HEIGHT_MAX).contains(&height) && branching_log2 > 0);
        let head = std::array::from_fn(|_| Link::new());
        let allocated = platform::atomic::AtomicUsize::new(0);
        List { head, height, branching_log2, epochs: Epochs::new(), allocated }
    }

    /// Pins the epoch. Nothing below is done without.
    #[inline]
    pub(super) fn pin(&self) -> ListPin<'_, K> {
        self.epochs.pin()
    }

    /// The most levels of a node.
    pub(super) const fn height(&self) -> usize {
        self.height
    }

    /// How many nodes have been allocated and not freed: nodes of held ranges and nodes on their
    /// way to be used again.
    pub(super) fn allocated(&self) -> usize {
        // Relaxed: a number to look at.
        self.allocated.load(platform::atomic::Ordering::Relaxed)
    }

    /// Walks down to level 0, at each level past the nodes for which `past` holds, and tells
    /// `arrived` where it goes down. It begins at the highest level that has a node, and at
    /// `levels` at least. Unlinks marked nodes it meets; but with `lazy`, those of level 0 where it
    /// ends stay, from `first` on, for a thread that links a node there.
    #[inline(always)]
    fn walk(
        &self,
        pin: &ListPin<'_, K>,
        levels: usize,
        lazy: bool,
        past: impl Fn(&Span<K>) -> bool,
        mut arrived: impl FnMut(usize, Place<K>),
    ) {
        'walk: loop {
            let mut before = ptr::null_mut();
            let mut before_tower: Tower<K> = self.head.as_ptr();
            let mut top = self.height;
            while top > levels && self.head[top - 1].is_empty() {
                top -= 1;
            }
            for level in (0..top).rev() {
                // SAFETY: the head, or a node met while pinned at a level above this one.
                let mut from = unsafe { link(before_tower, level) };
                let mut reference = from.load();
                'from: loop {
                    // Invariant 4 of the epochs: each link is loaded, then the epoch; if that has
                    // advanced, the walk goes on from a link that is not marked.
                    if !pin.is_current() {
                        pin.catch_up();
                        reference = from.load();
                        continue 'from;
                    }
                    if reference.is_marked() {
                        pin.renew();
                        continue 'walk;
                    }
                    let mut first = reference.node();
                    let mut behind = first;
                    loop {
                        let mut on = None;
                        if let Some(node) = NonNull::new(behind) {
                            // SAFETY: met while pinned, at this level.
                            let next = unsafe { link(tower(node), level) }.load();
                            if !pin.is_current() {
                                continue 'from;
                            }
                            if next.is_marked() {
                                behind = next.node();
                                continue;
                            }
                            // SAFETY: met while pinned.
                            on = unsafe { node.as_ref() }.with_span(&past).then_some((node, next));
                        }
                        if first != behind && !(lazy && level == 0 && on.is_none()) {
                            if let Err(found) = from.replace(first, behind) {
                                reference = found;
                                continue 'from;
                            }
                            // SAFETY: met while pinned, and just unlinked by this thread.
                            unsafe { unlinked(first, behind, level) };
                            first = behind;
                        }
                        let Some((node, next)) = on else { break };
                        before = node.as_ptr();
                        before_tower = tower(node);
                        // SAFETY: met while pinned, at this level.
                        from = unsafe { link(before_tower, level) };
                        first = next.node();
                        behind = first;
                    }
                    arrived(level, Place { before, tower: before_tower, first, behind });
                    break;
                }
            }
            return;
        }
    }

    /// Finds where a range belongs (the thesis' `findInsert`), at this many levels; returns whether
    /// it overlaps a held one.
    #[inline(always)]
    fn find(&self, pin: &ListPin<'_, K>, span: &Span<K>, levels: usize, path: &mut Path<K>) -> bool {
        let start = span.start();
        let mut around = (ptr::null_mut(), ptr::null_mut());
        self.walk(
            pin,
            levels,
            true,
            |other| other.start() < start,
            |level, place| {
                if level < levels {
                    path.before[level] = place.tower;
                    path.behind[level] = place.behind;
                }
                path.first = place.first;
                around = (place.before, place.behind);
            },
        );
        let overlaps = |node: *mut Node<K>| {
            // SAFETY: met while pinned.
            unsafe { node.as_ref() }.is_some_and(|node| node.with_span(|held| held.overlaps(span)))
        };
        overlaps(around.0) || overlaps(around.1)
    }

    /// Takes a range if no overlapping one is held (the thesis' `tryLock`); returns the node that
    /// stands for it.
    #[inline]
    pub(super) fn insert(&self, pin: &ListPin<'_, K>, span: &Span<K>) -> Option<NonNull<Node<K>>> {
        let mut path = Path {
            before: [ptr::null(); HEIGHT_MAX],
            behind: [ptr::null_mut(); HEIGHT_MAX],
            first: ptr::null_mut(),
        };
        let height = self.roll_height(pin);
        if self.find(pin, span, height, &mut path) {
            return None;
        }
        let lent = Lent { pin, node: self.lend(pin, span.clone()) };
        let node = lent.node;
        // SAFETY: the node is this thread's alone.
        unsafe { node.as_ref() }.prepare(height, pin.birth());
        let own = tower(node);
        loop {
            // SAFETY: the node is pinned or this thread's, and the tower before it was met while
            // pinned; likewise below.
            let (own, before) = unsafe { (link(own, 0), link(path.before[0], 0)) };
            own.set(path.behind[0]);
            if before.replace(path.first, node.as_ptr()).is_ok() {
                break;
            }
            if self.find_again(pin, span, height, &mut path) {
                return None;
            }
        }
        // From here on the range is held, and the node is not this thread's alone any more.
        mem::forget(lent);
        // SAFETY: met while pinned, and unlinked by linking the node in their place.
        unsafe { unlinked(path.first, path.behind[0], 0) };
        for level in 1..height {
            loop {
                // SAFETY: as above.
                let (own, before) = unsafe { (link(own, level), link(path.before[level], level)) };
                own.set(path.behind[level]);
                if before.replace(path.behind[level], node.as_ptr()).is_ok() {
                    break;
                }
                self.find_again(pin, span, height, &mut path);
            }
        }
        Some(node)
    }

    /// Finds anew where a range belongs; what was found before is not used any more.
    #[cold]
    #[inline(never)]
    fn find_again(&self, pin: &ListPin<'_, K>, span: &Span<K>, levels: usize, path: &mut Path<K>) -> bool {
        pin.renew();
        self.find(pin, span, levels, path)
    }

    /// Gives a range back (the thesis' `releaseLock`). The node stays what it is until it is
    /// [left](List::leave).
    ///
    /// # Safety
    /// The node came from [`insert`](List::insert) of this list, and is given back once.
    #[inline]
    pub(super) unsafe fn release(&self, node: NonNull<Node<K>>) {
        // SAFETY: a node is not retired before it is left.
        let height = unsafe { node.as_ref() }.height();
        for level in (0..height).rev() {
            self.mark(node, level);
        }
    }

    /// Marks a node that the caller gives back, at one level. At level 0 that is the release.
    #[inline(always)]
    fn mark(&self, node: NonNull<Node<K>>, level: usize) {
        // SAFETY: the node has this level.
        let link = unsafe { link(tower(node), level) };
        debug_assert!(!link.load().is_marked(), "a range is given back once");
        link.mark();
    }

    /// Leaves a node to threads that come by, and retires nodes left before that were unlinked
    /// meanwhile. If too many are left, unlinks the oldest.
    ///
    /// # Safety
    /// The caller has [released](List::release) the node, does this once, and has no reference to
    /// another one.
    #[inline]
    pub(super) unsafe fn leave(&self, pin: &ListPin<'_, K>, node: NonNull<Node<K>>) {
        // SAFETY: as the caller says. Of a node that is unlinked from all levels it was linked at
        // there is nothing left (Invariant 3).
        unsafe {
            pin.leave(node);
            if pin.retire_left(Node::is_unlinked, |node| self.free(node)) {
                self.sweep(pin);
            }
        }
    }

    /// Unlinks the oldest of the nodes that were left, where no other thread has.
    ///
    /// # Safety
    /// The caller has no reference to a node.
    #[cold]
    #[inline(never)]
    unsafe fn sweep(&self, pin: &ListPin<'_, K>) {
        let Some(node) = pin.oldest_left() else { return };
        // SAFETY: it is not retired yet.
        let node = unsafe { node.as_ref() };
        node.with_span(|own| {
            self.walk(pin, node.height(), false, |other| other.start() <= own.start(), |_, _| {})
        });
        pin.pass_over_oldest_left(Node::is_unlinked);
        // SAFETY: the walk is over; the rest as the caller says.
        unsafe { pin.retire_left(Node::is_unlinked, |node| self.free(node)) };
    }

    /// Whether a range that is held overlaps this one.
    pub(super) fn overlaps(&self, pin: &ListPin<'_, K>, span: &Span<K>) -> bool {
        let mut path = Path {
            before: [ptr::null(); HEIGHT_MAX],
            behind: [ptr::null_mut(); HEIGHT_MAX],
            first: ptr::null_mut(),
        };
        self.find(pin, span, 1, &mut path)
    }

    /// A node of this thread's alone, for a range.
    #[inline]
    fn lend(&self, pin: &ListPin<'_, K>, span: Span<K>) -> NonNull<Node<K>> {
        match pin.lend() {
            Some(node) => {
                // SAFETY: it was lent to this thread.
                unsafe { node.as_ref().set_span(span) };
                node
            }
            None => {
                self.allocated.fetch_add(1, platform::atomic::Ordering::Relaxed);
                Node::allocate(self.height, span)
            }
        }
    }

    /// Gives a node's memory back.
    #[cold]
    fn free(&self, node: NonNull<Node<K>>) {
        self.allocated.fetch_sub(1, platform::atomic::Ordering::Relaxed);
        // SAFETY: the epochs say that no thread has a reference to it; `lend` made it with this
        // room.
        unsafe { Node::free(node, self.height) };
    }
}

platform::os_only! {
    impl<K: Key> List<K> {
        /// With the usual branching one in eight is higher than 1, one in 64 higher than 2, and so
        /// on.
        #[inline(always)]
        fn roll_height(&self, pin: &ListPin<'_, K>) -> usize {
            (1 + (pin.roll().trailing_zeros() / self.branching_log2) as usize).min(self.height)
        }
    }
}

platform::twins_only! {
    impl<K: Key> List<K> {
        /// The first one of a slot is as high as can be, the second low, the third high, and so on.
        fn roll_height(&self, pin: &ListPin<'_, K>) -> usize {
            let _ = self.branching_log2;
            if pin.roll().is_multiple_of(2) { 1 } else { self.height }
        }
    }
}

impl<K> Drop for List<K> {
    fn drop(&mut self) {
        if platform::execution_failed() {
            return;
        }
        let room = self.height;
        let mut next = self.head[0].load().node();
        while let Some(node) = NonNull::new(next) {
            // SAFETY: no thread uses the list any more. What is linked at the lowest level is not
            // on its way elsewhere, or marked.
            let reference = unsafe { link(tower(node), 0) }.load();
            next = reference.node();
            // What is marked was left with the epochs.
            if !reference.is_marked() {
                // SAFETY: as above; `lend` made it with this room.
                unsafe { Node::free(node, room) };
            }
        }
        // SAFETY: as above.
        self.epochs.drain(|node| unsafe { Node::free(node, room) });
    }
}

#[cfg(test)]
mod tests;
