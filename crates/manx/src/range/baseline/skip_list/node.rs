//! A node: one held range, and its links, in one piece of memory.
//!
//! The thesis' `Node` (section 3.2.1) has a heap object for each of its links and an array of pointers to them. Here
//! the links, one a level, lie directly behind the node, the lowest one in the node's first cache line together with
//! the range: a walk along the lowest level touches one line a node. All nodes of a lock have room for the same
//! number of links, so that any of them can be used again for any height.
//!
//! ```text
//!   0          32          48            56
//!   ┌──────────┬───────────┬─────────────┬─────────┬─────────┬───
//!   │ span     │ passage   │ generation… │ link 0  │ link 1  │ …       for keys of 8 bytes
//!   └──────────┴───────────┴─────────────┴─────────┴─────────┴───
//!   64 bytes aligned
//! ```
//!
//! Who may use what:
//! 1. `span` and `height` are written by the one to whom the node was lent, before it is linked. From then on all
//!    read the span, until the node is lent again; only who has the range, or retires the node, reads the height.
//! 2. `linked` counts the levels at which the node is linked, or is about to be. It is set before the node is linked
//!    first, and lowered by whoever unlinks it, once for each level, after that. Who released the node, or comes into
//!    the same slot after that one, retires it once this is 0.
//! 3. `generation` counts how often the node has been released. What a holder keeps has the value from when it took
//!    the range, so a holder's second release, or one that comes after the node was used again, can be told from the
//!    first.
//! 4. `passage` belongs to the chains of the epochs.
//!
//! So a node is retired when it is unlinked from *every* level, by fact and not by somebody's belief that it must be:
//! not by the one who released it, if that one's walk missed it somewhere, and not while a helper that has unlinked
//! it is yet to count. This does not lean on the keys' order, so an order that contradicts itself makes locks that do
//! not exclude each other, but leads to no node that is used for something else.

use super::super::super::span::Span;
use super::chain::{Passage, Retire};
use super::link::Link;
use platform::atomic::{AtomicU16, AtomicU32, Ordering};
use platform::cell::UnsafeCell;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

/// The links of a node or of the head: a pointer to the lowest one.
pub(super) type Tower<K> = *const Link<Node<K>>;

/// A held range. Its links lie behind it.
#[repr(C)]
pub(super) struct Node<K> {
    span: UnsafeCell<Span<K>>,
    passage: UnsafeCell<Passage<Node<K>>>,
    generation: AtomicU32,
    linked: AtomicU16,
    height: Cell<u16>,
}

platform::os_only! {
    const _: () = assert!(size_of::<Node<u64>>() == 56, "the lowest link is in the node's first cache line");
}

// SAFETY: the cell is the node's own, and nothing else in this folder uses it.
unsafe impl<K> Retire for Node<K> {
    #[inline(always)]
    fn passage(&self) -> &UnsafeCell<Passage<Self>> {
        &self.passage
    }
}

impl<K> Node<K> {
    fn layout(room: usize) -> Layout {
        let links = Layout::array::<Link<Node<K>>>(room).expect("a tower has few links");
        let (layout, offset) = Layout::new::<Node<K>>().extend(links).expect("a node is small");
        assert_eq!(offset, size_of::<Node<K>>(), "links are aligned no more than nodes");
        layout.align_to(64).expect("64 is a power of two").pad_to_align()
    }

    /// Makes a node with room for so many links, for this range.
    #[cold]
    pub(super) fn allocate(room: usize, span: Span<K>) -> NonNull<Node<K>> {
        let layout = Node::<K>::layout(room);
        // SAFETY: the layout has a size above 0.
        let memory = unsafe { alloc(layout) }.cast::<Node<K>>();
        let Some(node) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let (generation, linked) = (AtomicU32::new(0), AtomicU16::new(0));
        let passage = UnsafeCell::new(Passage::new());
        // SAFETY: the memory is of this layout and nobody else's.
        unsafe {
            node.write(Node {
                span: UnsafeCell::new(span),
                passage,
                generation,
                linked,
                height: Cell::new(0),
            })
        };
        for level in 0..room {
            // SAFETY: the memory has room for so many links behind the node.
            unsafe { tower(node).cast_mut().add(level).write(Link::new()) };
        }
        node
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The node was made by [`allocate`](Node::allocate) with the same room, and nobody has a reference to it.
    pub(super) unsafe fn free(node: NonNull<Node<K>>, room: usize) {
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

    /// Sets how high the node will be. For the one to whom it was lent (Rule 1).
    #[inline]
    pub(super) fn prepare(&self, height: usize) {
        self.height.set(height as u16);
        // Relaxed: linking the node publishes it.
        self.linked.store(height as u16, Ordering::Relaxed);
    }

    /// At how many levels the node was linked. For the one who has the range (Rule 1).
    #[inline(always)]
    pub(super) fn height(&self) -> usize {
        usize::from(self.height.get())
    }

    /// The range. For whoever met the node on a link while pinned.
    #[inline(always)]
    pub(super) fn with_span<R>(&self, read: impl FnOnce(&Span<K>) -> R) -> R {
        // SAFETY: nobody writes it while it can be met (Rule 1).
        self.span.with(|span| read(unsafe { &*span }))
    }

    /// Says that the caller unlinked the node at one level (Rule 2).
    #[inline(always)]
    pub(super) fn count_unlinked(&self) {
        // Acquire and release: who retires it comes after all who unlinked it. Of the last level nobody else takes
        // anything off.
        let linked = self.linked.load(Ordering::Acquire);
        debug_assert!(linked > 0, "unlinked more often than linked");
        if linked == 1 {
            self.linked.store(0, Ordering::Release);
        } else {
            self.linked.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether the node is unlinked from all levels, and all who did it have said so.
    #[inline(always)]
    pub(super) fn is_unlinked(&self) -> bool {
        // Acquire: see `count_unlinked`.
        self.linked.load(Ordering::Acquire) == 0
    }

    /// How often the node was released so far.
    #[inline(always)]
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Counts a release, if there have been `generation` so far.
    #[inline]
    pub(super) fn next_generation(&self, generation: u32) -> bool {
        // Relaxed: that it changes once is all; who releases was ordered behind who took by whoever passed it on.
        let next = generation.wrapping_add(1);
        self.generation.compare_exchange(generation, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Counts a release of the caller's own.
    #[inline(always)]
    pub(super) fn count_release(&self, generation: u32) {
        self.generation.store(generation.wrapping_add(1), Ordering::Relaxed);
    }
}

/// The links behind a node.
#[inline(always)]
pub(super) fn tower<K>(node: NonNull<Node<K>>) -> Tower<K> {
    // In bounds or one past the end: the links lie behind the node in the same allocation.
    node.as_ptr().wrapping_add(1).cast()
}
