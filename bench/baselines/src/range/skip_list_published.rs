//! The thesis' skip list as it is published (Thua-Duc Nguyen, "Concurrent Range Locking", 2024,
//! Listings 3.1 to 4.4).
//!
//! The honest baseline for [`SkipList`](super::SkipList): the same algorithm in its own form, with
//! what it costs. Each node is a heap object, its array of links another, each link one more; and
//! **nothing is ever freed**: not a node that was unlinked, nor any when the lock is dropped. The
//! thesis names this as future work. It takes about 150 bytes for each range that is ever locked,
//! so it is for measuring only. (That it never frees is what makes it sound: its upper links lead
//! to nodes that were unlinked long ago.)
//!
//! Its other limits are kept as well:
//! - Between the mark at level 0 and the unlinking, requests that overlap fail, whatever is held.
//!   So it is not lock-free.
//! - A waiter yields and tries again (chapter 4 has no other way), so no waiter is promised a turn.
//! - It is exclusive only.
//! - A releaser names the range, and nothing checks that this thread has locked it. Here only a
//!   thread that was given the name has it.
//! - Ranges are closed and the lowest and the highest key are those of the sentinels. What
//!   [`RawRangeLock`] asks for is mapped onto that: keys move up by 1, and **the keys from 2⁶⁴ − 3
//!   on are one key**, so ranges that touch only these exclude each other although they need not.
//!   No key is refused. Empty and inverted ranges cannot be expressed.
//!
//! Where the listings do not do what the text says, the text is followed: the mark is taken off a
//! pointer before it is used, the comparison in a mark is with what was loaded, and a releaser
//! marks the node that it found.
//!
//! Invariants, which are the thesis':
//! 1. Nodes are never freed, so every pointer to a node is good for ever.
//! 2. A node with a marked link of level 0 is not held. No two others at level 0 overlap: a new one
//!    is linked by a compare-and-swap from an unmarked node that ends before it to a node that
//!    begins behind it.

use super::skip_list::SkipList;
use super::skip_list::link::Link;
use crate::xorshift::{seed, xorshift};
use manx::range::Span;
use manx::range::{Access, RawRangeLock};
use manx::wait::{Policy, Yield};
use platform::atomic::{AtomicU64, Ordering};
use std::cell::Cell;
use std::ptr;

/// The height that the thesis finds best (section 5.3.2).
const HEIGHT: usize = SkipList::<u64>::HEIGHT;
/// The key of the sentinel at the beginning.
const LOWEST: u64 = 0;
/// The key of the sentinel at the end.
const HIGHEST: u64 = u64::MAX;

/// A closed range and the links of its levels: the thesis' `Node` (Listing 3.1).
struct Node {
    start: u64,
    end: u64,
    /// The highest level it is linked at.
    top: usize,
    /// One heap object a level.
    next: Box<[Box<Link<Node>>]>,
}

impl Node {
    /// `initialize`. The node is never freed.
    fn leak(start: u64, end: u64, top: usize) -> &'static Node {
        let next = (0..=top).map(|_| Box::new(Link::new())).collect();
        Box::leak(Box::new(Node { start, end, top, next }))
    }

    fn as_ptr(&self) -> *mut Node {
        ptr::from_ref(self).cast_mut()
    }
}

/// A node that a link leads to.
fn at(node: *mut Node) -> &'static Node {
    // SAFETY: links lead to nodes, up to the sentinel at the end, beyond which no walk goes; none
    // is ever freed (Invariant 1), and nodes change by their links only, which are atomic.
    unsafe { &*node }
}

/// The neighbours of a range, at each level.
struct Neighbours {
    before: [&'static Node; HEIGHT],
    behind: [&'static Node; HEIGHT],
}

/// The thesis' lock in its published form. It never frees memory. See the module's text.
pub struct SkipListPublished {
    head: &'static Node,
}

/// What the holder of a range of a [`SkipListPublished`] keeps: the range, by which it is released.
#[derive(Debug)]
pub struct SkipListPublishedHeld {
    start: u64,
    end: u64,
}

platform::global! {
    static SEEDS: AtomicU64 = AtomicU64::new(1);
}

platform::thread_local! {
    static DICE: Cell<u64> = Cell::new(0);
}

/// Throws a coin until it shows tails, at most `HEIGHT - 1` times: `randomLevel`.
fn random_level() -> usize {
    let roll = DICE.try_with(|dice| {
        let mut state = dice.get();
        if state == 0 {
            state = seed(SEEDS.fetch_add(1, Ordering::Relaxed));
        }
        state = xorshift(state);
        dice.set(state);
        state
    });
    (roll.unwrap_or(1).trailing_zeros() as usize).min(HEIGHT - 1)
}

impl SkipListPublished {
    /// Makes a lock with no range held.
    pub fn new() -> SkipListPublished {
        let tail = Node::leak(HIGHEST, HIGHEST, HEIGHT - 1);
        let head = Node::leak(LOWEST, LOWEST, HEIGHT - 1);
        head.next.iter().for_each(|link| link.set(tail.as_ptr()));
        SkipListPublished { head }
    }

    /// Listing 4.4: walks to the neighbours of `start` at each level, and unlinks marked nodes on
    /// the way. Ends at the sentinel at the latest, since its start is above every other and its
    /// links are never marked.
    fn find(&self, start: u64, found: &mut Neighbours) {
        'retry: loop {
            let mut before = self.head;
            for level in (0..HEIGHT).rev() {
                let mut current = at(before.next[level].load().node());
                while start > current.start {
                    let mut next = current.next[level].load();
                    while next.is_marked() {
                        if before.next[level].replace(current.as_ptr(), next.node()).is_err() {
                            continue 'retry;
                        }
                        current = at(before.next[level].load().node());
                        next = current.next[level].load();
                    }
                    if start <= current.start {
                        break;
                    }
                    before = current;
                    current = at(next.node());
                }
                found.before[level] = before;
                found.behind[level] = current;
            }
            return;
        }
    }

    /// `findInsert`: whether the range cannot be inserted where it belongs.
    fn find_insert(&self, start: u64, end: u64, found: &mut Neighbours) -> bool {
        self.find(start, found);
        !(start > found.before[0].end && end < found.behind[0].start)
    }

    /// `findExact`: whether exactly this range is there.
    fn find_exact(&self, start: u64, end: u64, found: &mut Neighbours) -> bool {
        self.find(start, found);
        found.behind[0].start == start && found.behind[0].end == end
    }

    fn neighbours(&self) -> Neighbours {
        Neighbours { before: [self.head; HEIGHT], behind: [self.head; HEIGHT] }
    }

    /// Listing 4.2.
    fn try_lock_closed(&self, start: u64, end: u64) -> bool {
        let top = random_level();
        let mut found = self.neighbours();
        loop {
            if self.find_insert(start, end, &mut found) {
                return false;
            }
            let node = Node::leak(start, end, top);
            for level in 0..=top {
                node.next[level].set(found.behind[level].as_ptr());
            }
            if found.before[0].next[0].replace(found.behind[0].as_ptr(), node.as_ptr()).is_err() {
                continue;
            }
            for level in 1..=top {
                while found.before[level].next[level]
                    .replace(found.behind[level].as_ptr(), node.as_ptr())
                    .is_err()
                {
                    self.find_insert(start, end, &mut found);
                }
            }
            return true;
        }
    }

    /// Listing 4.3. Only one thread releases a range, so the listing's failures do not happen.
    fn release_closed(&self, start: u64, end: u64) -> bool {
        let mut found = self.neighbours();
        if !self.find_exact(start, end, &mut found) {
            return false;
        }
        let node = found.behind[0];
        for level in (0..=node.top).rev() {
            node.next[level].mark();
        }
        // `findDelete`: as far as the node itself is passed, and so unlinked.
        self.find(start + 1, &mut found);
        true
    }
}

impl Default for SkipListPublished {
    fn default() -> Self {
        SkipListPublished::new()
    }
}

/// Where a key stands between the sentinels.
const fn key(key: u64) -> u64 {
    if key > HIGHEST - 2 { HIGHEST - 1 } else { key + 1 }
}

/// The closed range of keys that a span becomes.
fn closed(span: &Span<u64>) -> (u64, u64) {
    let start = span.start().map_or(0, |&start| start);
    let last = span.end().map_or(u64::MAX, |&end| end.saturating_sub(1));
    (key(start), key(last))
}

// SAFETY: by Invariant 2; ranges that overlap have keys in common, which are mapped to keys in
// common. Links are changed with release and followed with acquire, so the next holder sees what
// the last one wrote before its mark.
unsafe impl RawRangeLock for SkipListPublished {
    type Held = SkipListPublishedHeld;
    const NAME: &'static str = "skip_list_published";
    const SHARES: bool = false;

    fn with_space(_space: u64) -> Self {
        SkipListPublished::new()
    }

    fn try_lock(&self, span: &Span<u64>, _access: Access) -> Option<SkipListPublishedHeld> {
        let (start, end) = closed(span);
        self.try_lock_closed(start, end).then_some(SkipListPublishedHeld { start, end })
    }

    fn lock(&self, span: &Span<u64>, _access: Access) -> SkipListPublishedHeld {
        let (start, end) = closed(span);
        Yield.until(|| self.try_lock_closed(start, end));
        SkipListPublishedHeld { start, end }
    }

    unsafe fn unlock(&self, held: SkipListPublishedHeld) {
        let released = self.release_closed(held.start, held.end);
        debug_assert!(released, "a held range is in the list");
    }
}

impl std::fmt::Debug for SkipListPublished {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("SkipListPublished").finish_non_exhaustive()
    }
}
