//! The compact NUMA-aware lock: passed on within the holder's node while a thread waits there, but
//! not for ever.
//!
//! On a machine of several NUMA nodes a hand-over to a neighbour is several times cheaper than one
//! across nodes: the lock's lines, and the lines that it guards, stay near. Locks that know this
//! used to need a lock a node. This one (Dice and Kogan, "Compact NUMA-aware locks", EuroSys 2019)
//! is the lock of Mellor-Crummey and Scott, one word, with a second queue: when the next in line is
//! of another node, the holder looks for the first waiter of its own node. It moves the waiters
//! before that one to the second queue, which goes from holder to holder along with the lock.
//!
//! ```text
//!   tail ─────────────────────────────────────────────────────────┐
//!   holder (node 0) ──next──► waiter (0) ──next──► waiter (1) ──next──► waiter (0) ◄┘   the main queue
//!      │ first, last
//!      └──► waiter (1) ──next──► waiter (2) ──► none                                   the second queue
//! ```
//!
//! Read the second queue first and the main one behind it: those are all waiters, in the order of
//! arrival. For moved waiters are the first of the main queue and go to the end of the second one;
//! and when that queue goes back, it goes to the front. So the whole policy is this: the lock
//! passes to *the first waiter of the holder's node*, unless there is none or the first waiter of
//! all has been passed over `LOCAL` times; then to *the first of all*. (The paper decides by chance
//! when the second queue goes back, and so bounds nothing but the mean.)
//!
//! # The bound
//! The first waiter of all gets the lock after at most `LOCAL` hand-overs to others, and then the
//! next one is first. So a thread that comes when A others wait has the lock after at most (A + 1)
//! (`LOCAL` + 1) hand-overs. No waiter starves, but the order is not that of arrival: this is no
//! [`manx::lock::Fifo`]. A hand-over across nodes costs what some five near ones do, so with 64
//! between two of them there is little more to win.
//!
//! On a machine with one node every waiter is of the holder's node: none is moved, the second queue
//! stays empty, and what is left is [`manx::lock::Mcs`]. As there, all spin, so it collapses when
//! threads outnumber CPUs.
//!
//! To look for a waiter of its own node costs the holder a cache miss for each waiter that it
//! passes. It looks at [`LOOKS_MAX`] at most. Waiters that it has moved are not looked at again
//! until they come back.
//!
//! Invariants:
//! 1. The holder is the first in the main queue, and stays in it until it unlocks; places are lent
//!    for that long.
//! 2. `tail` is the last place of the main queue, or null if no thread holds the lock. The place
//!    behind it, once there is one, is written once to its `next` by the thread that found it in
//!    `tail`; every other link is written by the holder.
//! 3. The holder changes the `next` of another place only if that place is not the last of the main
//!    queue: it has seen the place behind it, or has itself just made it the last, before another
//!    thread could find it in `tail`.
//! 4. A place's `side` is its owner's until it is linked in; from then on the holder's. It is
//!    [`NONE`](queue::Side::NONE) when it is lent and when it is given back.
//! 5. No waiter in the second queue is of the holder's node: the waiters before the first one of
//!    that node are moved, and when the holder's node changes the second queue goes back.
//! 6. Each waiter is in one of the queues until it is told, once, by the holder that leaves.
//!
//! # Memory orderings
//! As for [`manx::lock::Mcs`]: a swap of `tail` releases the place and acquires what the last
//! holder wrote, links are written with release and read with acquire, and `state` is stored with
//! release and read with acquire. So a holder sees all links and sides as the holder before it left
//! them, and the sides of waiters as these made them. When the second queue becomes the main one,
//! `tail` is changed with release: a thread that finds its last place there sees that place's
//! `next` as null.

use manx::cpu::numa_node;
use manx::lock::RawLock;
use manx::lock::queue::{self, Pool, QueueHeld, give_back, lend, try_enter};
use manx::wait::{Policy, Spin};
use platform::atomic::{AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

const YOURS: u32 = 1;
/// A holder that has not had to know yet on which node it is.
const UNKNOWN: u32 = u32::MAX;
/// The maximum number of waiters that are looked at for one of the holder's node.
const LOOKS_MAX: u32 = 256;

/// What goes from holder to holder along with the lock, and what they know of each waiter.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// The NUMA node of the place's owner.
    home: u32,
    /// How often the first waiter of all has been passed over.
    passed: u32,
    /// The second queue; null if it is empty.
    first: *mut Node,
    last: *mut Node,
}

/// A place in one of the two queues, and what its owner or the holder keeps there.
type Node = queue::Node<Side>;

/// The place by which a thread holds a lock of this kind.
pub type CnaHeld = QueueHeld<Side>;

platform::thread_local! {
    static POOL: Pool<Side> = Pool::new();
}

impl queue::Side for Side {
    /// Of a place that nothing is known of.
    const NONE: Side = Side { home: UNKNOWN, passed: 0, first: ptr::null_mut(), last: ptr::null_mut() };

    #[inline]
    fn with_pool<R>(run: impl FnOnce(&Pool<Side>) -> R) -> Option<R> {
        POOL.try_with(run).ok()
    }
}

/// The compact NUMA-aware lock: at most `LOCAL` hand-overs within a NUMA node while another one
/// waits. Spins. See the module's text.
///
/// ```
/// use manx::cpu::set_numa_node_of_this_thread;
/// use baselines::lock::Cna;
/// use manx::lock::RawLock;
///
/// static LOCK: Cna = Cna::new();
/// std::thread::scope(|scope| {
///     for node in [0, 1] {
///         scope.spawn(move || {
///             set_numa_node_of_this_thread(Some(node)); // Or as the machine has it.
///             let held = LOCK.lock();
///             // SAFETY: held by this thread.
///             unsafe { LOCK.unlock(held) };
///         });
///     }
/// });
/// ```
#[derive(Debug)]
pub struct Cna<const LOCAL: u32 = 64> {
    tail: AtomicPtr<Node>,
}

impl<const LOCAL: u32> Cna<LOCAL> {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            Cna { tail: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Something that stands for the last one in the main queue, and differs once another one
    /// stands behind it. To compare; its value means nothing.
    pub fn last_in_line(&self) -> usize {
        self.tail.load(Ordering::Relaxed).addr()
    }

    /// Waits behind the place that was the last.
    #[inline(never)]
    fn wait_behind(&self, before: NonNull<Node>, node: NonNull<Node>) {
        let home = known_node();
        // SAFETY: lent to this thread.
        let place = unsafe { node.as_ref() };
        // SAFETY: by Invariant 4, before it is linked in.
        place.side.with_mut(|side| unsafe { (*side).home = home });
        // SAFETY: by Invariant 2 it has not left, and will not until this is written.
        unsafe { before.as_ref() }.next.store(node.as_ptr(), Ordering::Release);
        Spin.until(|| place.state.load(Ordering::Acquire) == YOURS);
    }

    /// Passes the lock on to a waiter, along with what goes with it.
    ///
    /// # Safety
    /// The caller holds the lock, leaves the queue, and passes it to no other thread; `to` waits.
    #[inline]
    unsafe fn pass(to: NonNull<Node>, passed: u32, first: *mut Node, last: *mut Node) {
        // SAFETY: it waits, so its place is lent to it until it is told (Invariant 6).
        let place = unsafe { to.as_ref() };
        place.side.with_mut(|side| {
            // SAFETY: by Invariant 4.
            unsafe { *side = Side { home: (*side).home, passed, first, last } }
        });
        place.state.store(YOURS, Ordering::Release);
    }

    /// Makes the second queue the main one, if no other thread is in that; returns whether it did,
    /// or the lock is free.
    #[inline]
    fn leave_alone(&self, own: &Node) -> bool {
        // SAFETY: by Invariant 4 the holder's.
        let (first, last) = own.side.with(|side| unsafe { ((*side).first, (*side).last) });
        let own = ptr::from_ref(own).cast_mut();
        // Release as in the module's text. A failure learns nothing that `next` does not say.
        if self.tail.compare_exchange(own, last, Ordering::Release, Ordering::Relaxed).is_err() {
            return false;
        }
        if let Some(first) = NonNull::new(first) {
            // SAFETY: the first of all that wait; it is the first of the main queue now.
            unsafe { Self::pass(first, 0, ptr::null_mut(), ptr::null_mut()) };
        }
        true
    }

    /// Passes the lock to a waiter; `behind` is next in the main queue, or null if that waiter has
    /// not yet said where it stands.
    #[inline(never)]
    fn leave_to(&self, own: &Node, mut behind: *mut Node) {
        if behind.is_null() {
            Spin.until(|| {
                behind = own.next.load(Ordering::Acquire);
                !behind.is_null()
            });
        }
        let Some(behind) = NonNull::new(behind) else { return };
        // SAFETY: by Invariant 4 the holder's.
        let mut side = own.side.with(|side| unsafe { *side });
        if side.home == UNKNOWN {
            side.home = known_node();
        }
        // SAFETY: behind the holder (Invariant 4).
        let near = unsafe { home_of(behind) } == side.home;
        if near && side.first.is_null() {
            // SAFETY: it waits. It is the first of all.
            unsafe { Self::pass(behind, 0, ptr::null_mut(), ptr::null_mut()) };
        } else {
            self.choose(behind, near, &mut side);
        }
    }

    /// As `leave_to`, where it is not as simple as for the lock without nodes.
    #[cold]
    fn choose(&self, behind: NonNull<Node>, near: bool, side: &mut Side) {
        let found = match side.passed < LOCAL {
            true if near => Some(behind),
            true => find_near(behind, side),
            false => None,
        };
        let nobody = ptr::null_mut();
        if let Some(found) = found {
            // SAFETY: it waits in the main queue, and is its first now.
            unsafe { Self::pass(found, side.passed + 1, side.first, side.last) };
        } else if let (Some(first), Some(last)) = (NonNull::new(side.first), NonNull::new(side.last)) {
            // Relaxed: published with `state`. SAFETY: by Invariant 3 its link is the holder's.
            unsafe { last.as_ref() }.next.store(behind.as_ptr(), Ordering::Relaxed);
            // SAFETY: the first of all; the second queue is the front of the main one now.
            unsafe { Self::pass(first, 0, nobody, nobody) };
        } else {
            // SAFETY: it waits; there is no second queue, so it is the first of all.
            unsafe { Self::pass(behind, 0, nobody, nobody) };
        }
    }
}

/// Where the calling thread is: a number of a node, and never [`UNKNOWN`].
fn known_node() -> u32 {
    numa_node().min(UNKNOWN - 1)
}

/// Where the owner of a place is.
///
/// # Safety
/// The caller holds the lock, and a thread waits at this place.
#[inline]
unsafe fn home_of(node: NonNull<Node>) -> u32 {
    // SAFETY: by Invariants 4 and 6.
    unsafe { node.as_ref() }.side.with(|side| unsafe { (*side).home })
}

/// Looks behind `first`, which is not of the holder's node, for the first place of that node. If
/// there is one, moves the places before it to the end of the second queue.
fn find_near(first: NonNull<Node>, side: &mut Side) -> Option<NonNull<Node>> {
    let mut before = first;
    for _ in 0..LOOKS_MAX {
        // SAFETY: it waits (Invariant 6).
        let next = unsafe { before.as_ref() }.next.load(Ordering::Acquire);
        let place = NonNull::new(next)?;
        // SAFETY: behind the holder.
        if unsafe { home_of(place) } != side.home {
            before = place;
            continue;
        }
        match NonNull::new(side.last) {
            // Relaxed, here and below: published with `state` or `tail`. SAFETY: by Invariant 3.
            Some(last) => unsafe { last.as_ref() }.next.store(first.as_ptr(), Ordering::Relaxed),
            None => side.first = first.as_ptr(),
        }
        side.last = before.as_ptr();
        // SAFETY: by Invariant 3: `place` has been seen behind it.
        unsafe { before.as_ref() }.next.store(ptr::null_mut(), Ordering::Relaxed);
        return Some(place);
    }
    None
}

// SAFETY: by Invariants 1 and 6, and by the orderings in the module's text. Places do not know
// where the lock is.
unsafe impl<const LOCAL: u32> RawLock for Cna<LOCAL> {
    type Held = CnaHeld;
    const NAME: &'static str = "cna";
    platform::initial! { Cna::new() }

    #[inline]
    fn lock(&self) -> CnaHeld {
        let node = lend();
        let before = self.tail.swap(node.as_ptr(), Ordering::AcqRel);
        if let Some(before) = NonNull::new(before) {
            self.wait_behind(before, node);
        }
        CnaHeld::at(node)
    }

    #[inline]
    fn try_lock(&self) -> Option<CnaHeld> {
        try_enter(&self.tail)
    }

    #[inline]
    unsafe fn unlock(&self, held: CnaHeld) {
        let node = held.into_node();
        // SAFETY: lent to the caller, which holds the lock (Invariant 1).
        let place = unsafe { node.as_ref() };
        let behind = place.next.load(Ordering::Acquire);
        if !(behind.is_null() && self.leave_alone(place)) {
            self.leave_to(place, behind);
        }
        place.side.with_mut(|side| {
            // SAFETY: by Invariant 4, as long as it is not given back.
            if unsafe { (*side).home } != UNKNOWN {
                // SAFETY: as above.
                unsafe { *side = queue::Side::NONE };
            }
        });
        // SAFETY: lent by `lock`; it has left the queue, and the place behind it has been seen, if
        // there is one.
        unsafe { give_back(node) };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manx::cpu::set_numa_node_of_this_thread;
    use platform::cell::UnsafeCell;
    use proptest::prelude::*;
    use std::thread;

    struct Guarded<const LOCAL: u32> {
        lock: Cna<LOCAL>,
        order: UnsafeCell<Vec<usize>>,
    }

    // SAFETY: the order is used by holders of the lock only.
    unsafe impl<const LOCAL: u32> Sync for Guarded<LOCAL> {}

    /// Lets threads of these NUMA nodes stand in line one after the other behind a holder of node
    /// 0, and returns the order in which they were let in.
    fn order<const LOCAL: u32>(homes: &[u32]) -> Vec<usize> {
        let guarded = Guarded::<LOCAL> { lock: Cna::new(), order: UnsafeCell::new(Vec::new()) };
        let (guarded, lock) = (&guarded, &guarded.lock);
        set_numa_node_of_this_thread(Some(0));
        let own = RawLock::lock(lock).into_node();
        thread::scope(|scope| {
            for (number, &home) in homes.iter().enumerate() {
                scope.spawn(move || {
                    set_numa_node_of_this_thread(Some(home));
                    let held = RawLock::lock(lock);
                    // SAFETY: this thread holds the lock.
                    guarded.order.with_mut(|order| unsafe { (*order).push(number) });
                    // SAFETY: as above.
                    unsafe { lock.unlock(held) };
                });
                while behind(own, homes.len()) <= number {
                    thread::yield_now();
                }
            }
            // SAFETY: locked above.
            unsafe { lock.unlock(CnaHeld::at(own)) };
        });
        set_numa_node_of_this_thread(None);
        assert!(!lock.is_locked() && lock.last_in_line() == 0);
        // SAFETY: all others have ended.
        guarded.order.with_mut(|order| unsafe { std::mem::take(&mut *order) })
    }

    /// How many places can be reached from the holder's.
    fn behind(own: NonNull<Node>, most: usize) -> usize {
        let mut place = own;
        for count in 0..most {
            // SAFETY: no thread leaves meanwhile.
            match NonNull::new(unsafe { place.as_ref() }.next.load(Ordering::Acquire)) {
                Some(next) => place = next,
                None => return count,
            }
        }
        most
    }

    /// The policy, told once more with a list.
    fn expected(homes: &[u32], local: u32) -> Vec<usize> {
        let mut waiting: Vec<usize> = (0..homes.len()).collect();
        let (mut order, mut passed, mut home) = (Vec::new(), 0, 0);
        while !waiting.is_empty() {
            let near = waiting.iter().position(|&waiter| homes[waiter] == home).filter(|_| passed < local);
            let at = near.unwrap_or(0);
            passed = if at == 0 { 0 } else { passed + 1 };
            let next = waiting.remove(at);
            home = homes[next];
            order.push(next);
        }
        order
    }

    #[test]
    fn neighbours_of_the_holder_come_first() {
        assert_eq!(order::<64>(&[1, 0, 1, 0, 2, 0]), [1, 3, 5, 0, 2, 4]);
        assert_eq!(order::<64>(&[0, 1, 0, 1]), [0, 2, 1, 3]);
        assert_eq!(order::<64>(&[2, 1, 2, 1, 0]), [4, 0, 2, 1, 3], "those moved twice keep their order");
    }

    #[test]
    fn the_first_of_all_is_passed_over_so_often_and_no_more() {
        assert_eq!(order::<2>(&[1, 0, 0, 0, 1, 0]), [1, 2, 0, 4, 3, 5]);
        assert_eq!(order::<1>(&[1, 2, 0, 0, 0, 2]), [2, 0, 1, 5, 3, 4]);
        assert_eq!(order::<0>(&[1, 0, 1, 0]), [0, 1, 2, 3], "nobody is");
    }

    #[test]
    fn one_node_alone_is_served_in_the_order_of_arrival() {
        assert_eq!(order::<64>(&[0; 6]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(order::<64>(&[3; 6]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(order::<64>(&[u32::MAX, 0, u32::MAX]), [1, 0, 2], "whatever a node's number is");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_order_is_that_of_the_policy_and_keeps_the_bound(homes in prop::collection::vec(0..3_u32, 1..12)) {
            fn check<const LOCAL: u32>(homes: &[u32]) {
                let order = order::<LOCAL>(homes);
                assert_eq!(order, expected(homes, LOCAL), "{homes:?} with {LOCAL}");
                for (handed_over, &waiter) in order.iter().enumerate() {
                    assert!(handed_over < (waiter + 1) * (LOCAL as usize + 1), "{homes:?}: {waiter} waited too long");
                }
            }
            check::<1>(&homes);
            check::<3>(&homes);
        }
    }
}
