//! A node: one held range, and its links, in one piece of memory.
//!
//! The thesis' `Node` (section 3.2.1) has a heap object for each of its links and an array of
//! pointers to them. Here the links, one a level, lie directly behind the node, the lowest one in
//! the node's first cache line together with the range: a walk along the lowest level touches one
//! line a node. All nodes of a lock have room for the same number of links, so that any of them can
//! be used again for any height.
//!
//! ```text
//!   0          32          48            56
//!   ┌──────────┬───────────┬─────────────┬─────────┬─────────┬───
//!   │ span     │ passage   │ state       │ link 0  │ link 1  │ …       for keys of 8 bytes
//!   └──────────┴───────────┴─────────────┴─────────┴─────────┴───
//!   64 bytes aligned
//! ```
//!
//! | bits of `state` | meaning |
//! | --- | --- |
//! | 0 to 7, `linked` | the levels at which the node is linked, or is about to be |
//! | 8 to 15, `height` | the levels at which it is linked in all |
//! | 16 to 63, `born` | the epoch at which it was lent; with an epoch each 10 µs enough for 89 years |
//!
//! Which thread may use what:
//! 1. `span`, `height` and `born` are written by the thread to which the node was lent, before it
//!    is linked. From then on all read the span, until the node is lent again; only the holder, and
//!    the thread that has it in a chain, read the others.
//! 2. `linked` is set before the node is linked first, and lowered by each thread that unlinks it,
//!    once for each level, after that. The thread that released the node, or a later user of the
//!    same slot, retires it once this is 0.
//! 3. `passage` belongs to the chains of the epochs.
//!
//! So a node is retired when it is unlinked from *every* level, by fact and not by a thread's
//! belief that it must be: not by its releaser, if the releaser's walk missed it somewhere, and not
//! while a helper that has unlinked it is yet to count. This does not lean on the keys' order, so
//! an order that contradicts itself makes locks that do not exclude each other, but leads to no
//! node that is used for something else.

use super::chain::{Passage, Retire};
use super::link::Link;
use manx::range::Span;
use platform::atomic::{AtomicU64, Ordering};
use platform::cell::UnsafeCell;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The links of a node or of the head: a pointer to the lowest one.
pub(super) type Tower<K> = *const Link<Node<K>>;

/// A held range. Its links lie behind it.
#[repr(C)]
pub(super) struct Node<K> {
    span: UnsafeCell<Span<K>>,
    passage: UnsafeCell<Passage<Node<K>>>,
    state: AtomicU64,
}

/// The levels at which a node is linked, in its state.
const LINKED: u64 = 0xff;
const HEIGHT_SHIFT: u32 = 8;
const HEIGHT: u64 = 0xff;
const BORN_SHIFT: u32 = 16;

platform::os_only! {
    const _: () = assert!(size_of::<Node<u64>>() == 56, "the lowest link is in the node's first cache line");
}

// SAFETY: the cell is the node's own, and nothing else in this folder uses it.
unsafe impl<K> Retire for Node<K> {
    #[inline(always)]
    fn passage(&self) -> &UnsafeCell<Passage<Self>> {
        &self.passage
    }

    #[inline(always)]
    fn born(&self) -> u64 {
        // Relaxed: the node came here by way of others that saw it lent.
        self.state.load(Ordering::Relaxed) >> BORN_SHIFT
    }
}

impl<K> Node<K> {
    fn layout(room: usize) -> Layout {
        let links = Layout::array::<Link<Node<K>>>(room).expect("a tower has few links");
        let (layout, offset) = Layout::new::<Node<K>>().extend(links).expect("a node is small");
        assert_eq!(offset, size_of::<Node<K>>(), "links are aligned no more than nodes");
        layout.align_to(64).expect("64 is a power of two").pad_to_align()
    }

    /// Makes a node with room for `room` links, for this range.
    #[cold]
    pub(super) fn allocate(room: usize, span: Span<K>) -> NonNull<Node<K>> {
        let layout = Node::<K>::layout(room);
        // SAFETY: the layout has a size above 0.
        let memory = unsafe { alloc(layout) }.cast::<Node<K>>();
        let Some(node) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let (span, passage) = (UnsafeCell::new(span), UnsafeCell::new(Passage::new()));
        // SAFETY: the memory is of this layout and this thread's alone.
        unsafe { node.write(Node { span, passage, state: AtomicU64::new(0) }) };
        for level in 0..room {
            // SAFETY: the memory has room for `room` links behind the node.
            unsafe { tower(node).cast_mut().add(level).write(Link::new()) };
        }
        node
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The node was made by [`allocate`](Node::allocate) with the same room, and no thread has a
    /// reference to it.
    pub(super) unsafe fn free(node: NonNull<Node<K>>, room: usize) {
        // For the model checkers: they would find a thread that still reads the range.
        // SAFETY: as the caller says.
        unsafe { node.as_ref() }.span.with_mut(|_| ());
        for level in 0..room {
            // SAFETY: each link was written by `allocate`.
            unsafe { tower(node).cast_mut().add(level).drop_in_place() };
        }
        // SAFETY: as the caller says; it was allocated with this layout.
        unsafe {
            node.drop_in_place();
            dealloc(node.as_ptr().cast(), Node::<K>::layout(room));
        }
    }

    /// Writes the range of a node that was lent.
    ///
    /// # Safety
    /// The node is the caller's alone (Rule 1).
    #[inline]
    pub(super) unsafe fn set_span(&self, span: Span<K>) {
        // SAFETY: as the caller says.
        self.span.with_mut(|place| unsafe { *place = span });
    }

    /// Sets how high the node will be, and when it was lent. For the thread to which it was lent
    /// (Rule 1).
    #[inline]
    pub(super) fn prepare(&self, height: usize, born: u64) {
        let height = height as u64;
        // Relaxed: linking the node publishes it.
        self.state.store(born << BORN_SHIFT | height << HEIGHT_SHIFT | height, Ordering::Relaxed);
    }

    /// At how many levels the node was linked. For the holder of the range, and for the owner of a
    /// chain with the node (Rule 1).
    #[inline(always)]
    pub(super) fn height(&self) -> usize {
        (self.state.load(Ordering::Relaxed) >> HEIGHT_SHIFT & HEIGHT) as usize
    }

    /// The range. For a thread that met the node on a link while pinned.
    #[inline(always)]
    pub(super) fn with_span<R>(&self, read: impl FnOnce(&Span<K>) -> R) -> R {
        // SAFETY: no thread writes it while it can be met (Rule 1).
        self.span.with(|span| read(unsafe { &*span }))
    }

    /// Says that the caller unlinked the node at one level (Rule 2).
    #[inline(always)]
    pub(super) fn count_unlinked(&self) {
        // Acquire and release: the thread that retires it comes after all that unlinked it. No
        // other thread lowers the count of the last level.
        let state = self.state.load(Ordering::Acquire);
        debug_assert!(state & LINKED > 0, "unlinked more often than linked");
        if state & LINKED == 1 {
            self.state.store(state - 1, Ordering::Release);
        } else {
            self.state.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether the node is unlinked from all levels, and all threads that did it have said so.
    #[inline(always)]
    pub(super) fn is_unlinked(&self) -> bool {
        // Acquire: see `count_unlinked`.
        self.state.load(Ordering::Acquire) & LINKED == 0
    }
}

/// The links behind a node.
#[inline(always)]
pub(super) fn tower<K>(node: NonNull<Node<K>>) -> Tower<K> {
    // In bounds or one past the end: the links lie behind the node in the same allocation.
    node.as_ptr().wrapping_add(1).cast()
}
