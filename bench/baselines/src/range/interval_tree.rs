//! An interval tree of held and wanted ranges under one spin lock, in which each range counts the
//! ranges that it waits for.
//!
//! The range lock that Kara proposed for the Linux kernel ("lib: Implement range locks", 2013), and
//! that Bueso made one for readers and writers ("locking: Introduce range reader/writer lock",
//! 2017). A thread that wants a range counts the ranges in the tree that conflict with it, held or
//! waited for, and puts its own in. It has the range when the count is 0; otherwise it sleeps. A
//! release takes its range out and one off the count of each range that conflicts with it. It wakes
//! the threads that have no range left to wait for.
//!
//! So among conflicting ranges the order is that of arrival, no thread looks in vain, and no thread
//! starves. But a request also waits for ranges that wait: while `[1, 3]` is held and `[2, 7]`
//! waits, `[5, 6]` waits too, although all its keys are free. For the same reason a thread that
//! holds `[1, 3]` must not ask for `[5, 6]` then: it would wait for a request that waits for it.
//! And all of them pass through one spin lock, which is held for as long as a search takes.
//!
//! | word of a sleeper | meaning | changed by |
//! | --- | --- | --- |
//! | 0 | it does not sleep yet | |
//! | 1 | the range is its own | a release, once |
//! | 2 | it sleeps, or is about to | its thread, from 0 |
//!
//! # Deviations
//! - The spin lock's waiters do not spin for ever ([`super::spinlock`]).
//! - A tree of Adelson-Velsky and Landis in place of the kernel's red-black tree ([`tree`]). Its
//!   nodes are in a block of memory that belongs to the lock, instead of on the callers' stacks,
//!   because what is held may move here.
//! - Threads that are to be woken are collected under the spin lock and woken after it, as in later
//!   versions of the kernel's.
//!
//! Invariants, under the spin lock:
//! 1. `blockers` of a range in the tree is the number of ranges there that came before it and
//!    conflict with it. It is held exactly if that is 0.
//! 2. All that is in the tree and conflicts with a held range came after it; so a release takes one
//!    off each of them.
//! 3. A sleeper lives until it is told, and is told once: by the release that made its range's
//!    count 0. From then on its address is a name, and at worst a thread that sleeps elsewhere at
//!    the same address looks again.
//!
//! # Memory orderings
//! The spin lock's, for threads that need not wait. A sleeper is told with release and acquires: it
//! sees what the last holder that it waited for wrote, and through the spin lock what the others
//! did.

mod tree;

use super::spinlock::Spinlock;
use manx::range::{Access, RawRangeLock, Span};
use platform::atomic::{AtomicU32, Ordering};
use platform::futex;
use std::cell::Cell;
use std::ptr;
use tree::Tree;

const AWAKE: u32 = 0;
const YOURS: u32 = 1;
const ASLEEP: u32 = 2;

/// The kernel's proposed range lock. First in, first out among conflicting ranges; parks. See the
/// module's text.
#[derive(Debug)]
pub struct IntervalTree {
    ranges: Spinlock<Tree<Range>>,
}

/// What a holder of a range of [`IntervalTree`] keeps: its number in the tree.
#[derive(Debug)]
pub struct IntervalTreeHeld(u32);

/// A range that a thread has or wants.
#[derive(Debug)]
struct Range {
    access: Access,
    /// How many it waits for.
    blockers: u32,
    /// The thread that is told when these are 0, if they were not from the beginning.
    sleeper: *const Sleeper,
}

// SAFETY: the pointer is used by the thread that tells the sleeper (Invariant 3), and sleepers are
// made to be told by others.
unsafe impl Send for Range {}

/// A thread that waits for its range, on its own stack.
#[derive(Debug)]
struct Sleeper {
    word: AtomicU32,
    /// The next sleeper that the same release tells.
    next: Cell<*const Sleeper>,
}

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper { word: AtomicU32::new(AWAKE), next: Cell::new(ptr::null()) }
    }

    #[cold]
    fn sleep(&self) {
        if self.word.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Acquire).is_ok() {
            while self.word.load(Ordering::Acquire) != YOURS {
                futex::wait(&self.word, ASLEEP);
            }
        }
    }
}

/// The sleepers that one release tells, linked.
struct Told(*const Sleeper);

impl Told {
    /// # Safety
    /// It waits, and only the caller tells it (Invariant 3).
    unsafe fn add(&mut self, sleeper: *const Sleeper) {
        // SAFETY: it lives until it is told, and only the thread that tells it uses `next`.
        unsafe { (*sleeper).next.set(self.0) };
        self.0 = sleeper;
    }

    #[cold]
    fn tell(mut self) {
        while !self.0.is_null() {
            // SAFETY: added by `add`, and not told yet.
            let (word, next) = unsafe { (&raw const (*self.0).word, (*self.0).next.get()) };
            self.0 = next;
            // SAFETY: as above. The exchange tells it.
            if unsafe { (*word).swap(YOURS, Ordering::Release) } == ASLEEP {
                // By Invariant 3: an address, from now on.
                futex::wake(word, 1);
            }
        }
    }
}

impl IntervalTree {
    /// Makes a lock that no thread holds.
    pub fn new() -> IntervalTree {
        IntervalTree { ranges: Spinlock::new(Tree::new()) }
    }
}

impl Default for IntervalTree {
    fn default() -> IntervalTree {
        IntervalTree::new()
    }
}

/// How many ranges conflict with this one.
#[inline]
fn count_blockers(ranges: &mut Tree<Range>, first: u64, last: u64, access: Access) -> u32 {
    let mut blockers = 0;
    ranges.overlapping(first, last, |other| blockers += u32::from(access.conflicts_with(other.access)));
    blockers
}

// SAFETY: by Invariant 1, and by the orderings in the module's text.
unsafe impl RawRangeLock for IntervalTree {
    type Held = IntervalTreeHeld;
    const NAME: &'static str = "interval-tree";
    const SHARES: bool = true;

    fn with_space(_space: u64) -> IntervalTree {
        IntervalTree::new()
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<IntervalTreeHeld> {
        let (first, last) = (span.first(), span.last());
        self.ranges.with(|ranges| {
            let range = Range { access, blockers: 0, sleeper: ptr::null() };
            let free = count_blockers(ranges, first, last, access) == 0;
            free.then(|| IntervalTreeHeld(ranges.insert(first, last, range)))
        })
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, access: Access) -> IntervalTreeHeld {
        let (first, last) = (span.first(), span.last());
        let sleeper = Sleeper::new();
        let (number, waits) = self.ranges.with(|ranges| {
            let blockers = count_blockers(ranges, first, last, access);
            let range = Range { access, blockers, sleeper: &raw const sleeper };
            (ranges.insert(first, last, range), blockers > 0)
        });
        if waits {
            sleeper.sleep();
        }
        IntervalTreeHeld(number)
    }

    #[inline]
    unsafe fn unlock(&self, held: IntervalTreeHeld) {
        let told = self.ranges.with(|ranges| {
            let mut told = Told(ptr::null());
            let (first, last, Some(released)) = ranges.remove(held.0) else { return told };
            ranges.overlapping(first, last, |other| {
                if released.access.conflicts_with(other.access) {
                    other.blockers -= 1;
                    if other.blockers == 0 {
                        // SAFETY: it waited for the released range, and now for no other (Invariant
                        // 1).
                        unsafe { told.add(other.sleeper) };
                    }
                }
            });
            told
        });
        if !told.0.is_null() {
            told.tell();
        }
    }
}
