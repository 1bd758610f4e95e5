//! A skip list of held ranges under one spin lock.
//!
//! The range lock of Song, Shi, Liu, Yang and Chen ("Parallelizing live migration of virtual
//! machines", VEE 2013), which keeps migration threads and the guest out of each other's memory.
//! Held ranges stand in a skip list (Pugh, 1990) ordered by their first keys; a thread that takes
//! or releases one has the whole list to itself for as long as it searches. A request that overlaps
//! a held range lets go of the list, yields, and searches again: no waiter is told, and none has a
//! turn.
//!
//! ```text
//!   level 2   head ─────────────────────► [20, 29] ───────────────► end
//!   level 1   head ──────► [8, 11] ─────► [20, 29] ───────────────► end
//!   level 0   head ──────► [8, 11] ─────► [20, 29] ──► [40, 40] ──► end
//! ```
//!
//! Held ranges have no key in common, so of all that begin no later than a request ends, the last
//! one ends highest: one search finds both the conflict, if there is one, and the place.
//!
//! # Deviations
//! - The spin lock's waiters do not spin for ever ([`super::spinlock`]), and a thread that meets a
//!   held range yields. [`SongSpinning`] has neither of these deviations: it spins, as in the
//!   kernel.
//! - Nodes stand in one block of memory and are found by number; a released one is used again. So
//!   there are as many as ranges were ever held at once.
//! - The release is given its node, so it cannot release what another holder has.
//!
//! Invariants, under the spin lock:
//! 1. Every level is a list in ascending order, and a part of the level below. Ranges in it have no
//!    key in common.
//! 2. A node is in the list, from level 0 up to its height, or in the free list.
//!
//! # Memory orderings
//! The spin lock's.

use super::spinlock::Spinlock;
use crate::xorshift::{seed, xorshift};
use manx::range::{Access, RawRangeLock, Span};
use manx::wait::{Policy, Yield};

/// Levels of the list: enough for thousands of ranges held at once, and what the others are
/// compared at.
const HEIGHT: usize = 10;

/// Instead of a node: the head before the first one, or the end behind the last one.
const NONE: u32 = u32::MAX;

/// The skip list under a spin lock; exclusive only. See the module's text.
pub type Song = SongLock<false>;

/// The same with the authors' waiting: it spins.
pub type SongSpinning = SongLock<true>;

/// A skip list under a spin lock; its waiters yield, or spin.
#[derive(Debug)]
pub struct SongLock<const SPINS: bool> {
    list: Spinlock<List, SPINS>,
}

/// What a holder of a range of [`Song`] keeps: its node.
#[derive(Debug)]
pub struct SongHeld(u32);

impl<const SPINS: bool> SongLock<SPINS> {
    /// Makes a lock that no thread holds.
    pub fn new() -> Self {
        SongLock { list: Spinlock::new(List::new()) }
    }

    #[inline]
    fn take(&self, span: &Span<u64>) -> Option<SongHeld> {
        let (first, last) = (span.first(), span.last());
        self.list.with(|list| list.take(first, last)).map(SongHeld)
    }

    #[cold]
    fn lock_contended(&self, span: &Span<u64>) -> SongHeld {
        let mut taken = None;
        if SPINS {
            return loop {
                platform::cpu::pause();
                if let Some(taken) = self.take(span) {
                    break taken;
                }
            };
        }
        Yield.until(|| {
            taken = self.take(span);
            taken.is_some()
        });
        taken.unwrap_or_else(|| unreachable!("the wait ends when it is taken"))
    }
}

impl<const SPINS: bool> Default for SongLock<SPINS> {
    fn default() -> Self {
        SongLock::new()
    }
}

// SAFETY: ranges are taken and given back by one thread at a time, and by Invariant 1 only if no
// held one overlaps.
unsafe impl<const SPINS: bool> RawRangeLock for SongLock<SPINS> {
    type Held = SongHeld;
    const NAME: &'static str = if SPINS { "song_spinning" } else { "song" };
    const SHARES: bool = false;

    fn with_space(_space: u64) -> Self {
        SongLock::new()
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, _access: Access) -> Option<SongHeld> {
        self.take(span)
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, _access: Access) -> SongHeld {
        match self.take(span) {
            Some(held) => held,
            None => self.lock_contended(span),
        }
    }

    #[inline]
    unsafe fn unlock(&self, held: SongHeld) {
        self.list.with(|list| list.give_back(held.0));
    }
}

#[derive(Debug)]
struct Node {
    first: u64,
    last: u64,
    /// Those behind it, as many as it is high. In the free list, the first is the next free one.
    next: [u32; HEIGHT],
    height: u8,
}

#[derive(Debug)]
struct List {
    nodes: Vec<Node>,
    head: [u32; HEIGHT],
    /// No node is higher.
    height: usize,
    free: u32,
    random: u64,
}

impl List {
    const fn new() -> List {
        List { nodes: Vec::new(), head: [NONE; HEIGHT], height: 0, free: NONE, random: seed(1) }
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    fn next(&self, at: u32, level: usize) -> u32 {
        if at == NONE { self.head[level] } else { self.node(at).next[level] }
    }

    fn link(&mut self, at: u32, level: usize, next: u32) {
        if at == NONE {
            self.head[level] = next;
        } else {
            self.nodes[at as usize].next[level] = next;
        }
    }

    /// The last node of each level for which `before` is true, as it is for all nodes up to some
    /// key.
    #[inline]
    fn search(&self, before: impl Fn(&Node) -> bool) -> [u32; HEIGHT] {
        let mut found = [NONE; HEIGHT];
        let mut at = NONE;
        for level in (0..self.height).rev() {
            loop {
                let next = self.next(at, level);
                if next == NONE || !before(self.node(next)) {
                    break;
                }
                at = next;
            }
            found[level] = at;
        }
        found
    }

    fn take(&mut self, first: u64, last: u64) -> Option<u32> {
        let before = self.search(|node| node.first <= last);
        if before[0] != NONE && self.node(before[0]).last >= first {
            return None;
        }
        let height = self.draw_height();
        let mut next = [NONE; HEIGHT];
        for (level, next) in next.iter_mut().enumerate().take(height) {
            *next = self.next(before[level], level);
        }
        let new = self.make(Node { first, last, next, height: height as u8 });
        for (level, &before) in before.iter().enumerate().take(height) {
            self.link(before, level, new);
        }
        self.height = self.height.max(height);
        Some(new)
    }

    fn give_back(&mut self, held: u32) {
        let &Node { first, next, height, .. } = self.node(held);
        let before = self.search(|node| node.first < first);
        for level in 0..usize::from(height) {
            self.link(before[level], level, next[level]);
        }
        while self.height > 0 && self.head[self.height - 1] == NONE {
            self.height -= 1;
        }
        self.nodes[held as usize].next[0] = self.free;
        self.free = held;
    }

    fn make(&mut self, node: Node) -> u32 {
        if self.free != NONE {
            let new = self.free;
            self.free = self.node(new).next[0];
            self.nodes[new as usize] = node;
            return new;
        }
        // 2^32 nodes would be 256 GiB of them.
        let new = self.nodes.len() as u32;
        self.nodes.push(node);
        new
    }

    /// A height from 1 to [`HEIGHT`]; each is half as likely as the one below.
    fn draw_height(&mut self) -> usize {
        self.random = xorshift(self.random);
        1 + (self.random.trailing_ones() as usize).min(HEIGHT - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges of each level.
    fn levels(list: &List) -> Vec<Vec<u64>> {
        let level = |level| {
            let mut at = NONE;
            std::iter::from_fn(|| {
                at = list.next(at, level);
                (at != NONE).then(|| list.node(at).first)
            })
            .collect::<Vec<_>>()
        };
        (0..HEIGHT).map(level).collect()
    }

    #[test]
    fn levels_are_parts_of_those_below_and_in_order() {
        let mut list = List::new();
        let taken: Vec<u32> = (0..1000)
            .map(|turn| list.take(turn * 7 % 1000 * 2, turn * 7 % 1000 * 2).expect("free"))
            .collect();
        let found = levels(&list);
        assert!(found[0].iter().copied().eq((0..1000).map(|key| key * 2)));
        for (below, level) in found.iter().zip(&found[1..]) {
            assert!(level.is_sorted());
            assert!(level.iter().all(|key| below.binary_search(key).is_ok()));
        }
        // Half of them on average; less than a tenth of that off.
        assert!((450..550).contains(&found[1].len()), "{}", found[1].len());
        taken.into_iter().for_each(|node| list.give_back(node));
        assert!(levels(&list).iter().all(Vec::is_empty));
        assert_eq!((list.height, list.nodes.len()), (0, 1000));
    }

    #[test]
    fn nodes_are_used_again() {
        let mut list = List::new();
        for turn in 0..1000 {
            let (one, two) = (list.take(turn, turn), list.take(turn + 1, u64::MAX));
            list.give_back(one.expect("free"));
            list.give_back(two.expect("free"));
        }
        assert_eq!(list.nodes.len(), 2);
    }
}
