//! Where nodes come from, and when unlinked ones may be lent again.
//!
//! As the authors do it, each thread has a pool of nodes of its own and a counter, which is odd
//! while the thread walks along links. A node that was unlinked may still be looked at by threads
//! that were on their way then, so it waits until each of them has been seen to arrive. Where the
//! authors' thread waits for that itself when its pool is empty, ours takes a new node from the
//! heap and asks again the next time: a thread that holds ranges must not wait for a thread that
//! waits for these. But when more than [`CROWDED`] nodes wait, because a thread was preempted on
//! its way, each request gives way once, so that the preempted thread gets a CPU.
//!
//! ```text
//!   heap ──► free ──► lent ──► linked ──► unlinked: fresh ──► aging ──► free ──► heap
//!             ▲         │                                │             │   (what is too much)
//!             └─────────┘ never looked at                counters      all odd ones
//!                                                        are noted     have changed
//! ```
//!
//! Pools belong to *records*, one for each thread that is there at the same time. A thread claims
//! one with its first node, and lets go of it with what is in it when it ends. Records are never
//! given back to the heap: there are as many as there ever were threads at once, with [`KEPT`] free
//! nodes each at most.
//!
//! Invariants:
//! 1. A record's pool is used by the thread that has claimed the record.
//! 2. A thread that looks at nodes that are linked, other than its own, has made its counter odd
//!    before it read the first link, and makes it even when it has read the last one.
//! 3. A node that is unlinked is retired once, by the thread that unlinked it, and cannot be
//!    reached by a thread that sets out later.
//! 4. A node leaves `aging` when every counter that was odd after it was unlinked has changed.
//!
//! # Memory orderings
//! Setting out (the counter's store, then links) against noting (an unlink, then counters) is
//! Dekker's pattern, with a sequentially consistent fence on both sides: either the thread that
//! notes sees the odd counter, or the thread that sets out sees the unlink. A counter is changed
//! with release and read with acquire: all looks at a node come before its next use.

use super::node::Node;
use platform::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use platform::cell::UnsafeCell;
use std::cell::Cell;
use std::ptr::{self, NonNull};

platform::os_only! {
    /// The number of nodes that wait together for the same counters.
    const BATCH: usize = 32;
    /// The maximum number of free nodes in a pool.
    const KEPT: usize = 128;
    /// More unlinked nodes than this say that a thread has stopped on its way.
    const CROWDED: usize = 4 * KEPT;
}

platform::twins_only! {
    const BATCH: usize = 1;
    const KEPT: usize = 2;
    const CROWDED: usize = 4 * KEPT;
}

/// Nodes of a pool, linked by `spare`.
#[derive(Debug)]
struct Chain {
    first: *mut Node,
    count: usize,
}

impl Chain {
    const EMPTY: Chain = Chain { first: ptr::null_mut(), count: 0 };

    fn push(&mut self, node: NonNull<Node>) {
        // SAFETY: the owner of the pool has the nodes in it, and had each node that it puts in.
        unsafe { node.as_ref() }.spare.set(self.first);
        self.first = node.as_ptr();
        self.count += 1;
    }

    fn pop(&mut self) -> Option<NonNull<Node>> {
        let node = NonNull::new(self.first)?;
        // SAFETY: as above.
        self.first = unsafe { node.as_ref() }.spare.get();
        self.count -= 1;
        Some(node)
    }

    fn take(&mut self) -> Chain {
        std::mem::replace(self, Chain::EMPTY)
    }
}

/// A thread's nodes.
#[derive(Debug)]
struct Pool {
    free: Chain,
    /// Unlinked before `odd` was noted.
    aging: Chain,
    /// Unlinked since.
    fresh: Chain,
    /// Records that had odd counters, with these.
    odd: Vec<(NonNull<Record>, u64)>,
}

impl Pool {
    /// Lets nodes pass on that need not wait for any thread any more.
    #[cold]
    fn age(&mut self) {
        let is_odd_still = |(record, counter): &(NonNull<Record>, u64)| {
            // SAFETY: records are never given back.
            unsafe { record.as_ref() }.counter.load(Ordering::Acquire) == *counter
        };
        self.odd.retain(is_odd_still);
        if !self.odd.is_empty() {
            return;
        }
        // Invariant 4.
        let mut aged = self.aging.take();
        while let Some(node) = aged.pop() {
            self.keep(node);
        }
        if self.fresh.count >= BATCH {
            self.aging = self.fresh.take();
            fence(Ordering::SeqCst);
            let mut next = RECORDS.load(Ordering::Acquire);
            while let Some(at) = NonNull::new(next) {
                // SAFETY: records are never given back.
                let record = unsafe { at.as_ref() };
                let counter = record.counter.load(Ordering::Acquire);
                if counter % 2 == 1 {
                    self.odd.push((at, counter));
                }
                next = record.next.load(Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn keep(&mut self, node: NonNull<Node>) {
        if self.free.count < KEPT {
            self.free.push(node);
        } else {
            // SAFETY: it is in no list, and no thread can reach it.
            unsafe { Node::free(node) };
        }
    }

    #[inline]
    fn lend(&mut self) -> NonNull<Node> {
        if self.fresh.count > CROWDED {
            self.age();
        }
        self.free.pop().unwrap_or_else(|| self.lend_slow())
    }

    #[cold]
    fn lend_slow(&mut self) -> NonNull<Node> {
        self.age();
        self.free.pop().unwrap_or_else(Node::allocate)
    }

    fn retire(&mut self, node: NonNull<Node>) {
        self.fresh.push(node);
        // A thread that unlinks more than it links asks now and then as well.
        if self.fresh.count.is_multiple_of(KEPT) {
            self.age();
        }
    }
}

/// A thread's part in this.
#[derive(Debug)]
#[repr(align(128))]
struct Record {
    /// Odd: a thread walks along links.
    counter: AtomicU64,
    claimed: AtomicBool,
    pool: UnsafeCell<Pool>,
    /// The record that was there before this one; never changes once it is known to others.
    next: AtomicPtr<Record>,
}

platform::global! {
    /// All records, the youngest first.
    static RECORDS: AtomicPtr<Record> = AtomicPtr::new(ptr::null_mut());
}

/// The record that a thread has claimed.
struct Mine(Cell<Option<NonNull<Record>>>);

impl Drop for Mine {
    fn drop(&mut self) {
        if let Some(record) = self.0.get()
            && !platform::execution_failed()
        {
            // SAFETY: records are never given back.
            unsafe { record.as_ref() }.let_go();
        }
    }
}

platform::thread_local! {
    static MINE: Mine = Mine(Cell::new(None));
}

impl Record {
    /// Returns a record that no other thread uses.
    #[cold]
    fn claim() -> NonNull<Record> {
        let mut next = RECORDS.load(Ordering::Acquire);
        while let Some(at) = NonNull::new(next) {
            // SAFETY: records are never given back.
            let record = unsafe { at.as_ref() };
            // Acquire pairs with the release in `let_go` (Invariant 1).
            if !record.claimed.load(Ordering::Relaxed)
                && record.claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return at;
            }
            next = record.next.load(Ordering::Relaxed);
        }
        let pool = Pool { free: Chain::EMPTY, aging: Chain::EMPTY, fresh: Chain::EMPTY, odd: Vec::new() };
        let record = NonNull::from(Box::leak(Box::new(Record {
            counter: AtomicU64::new(0),
            claimed: AtomicBool::new(true),
            pool: UnsafeCell::new(pool),
            next: AtomicPtr::new(ptr::null_mut()),
        })));
        let mut youngest = RECORDS.load(Ordering::Relaxed);
        loop {
            // SAFETY: just made. Relaxed: the exchange publishes it.
            unsafe { record.as_ref() }.next.store(youngest, Ordering::Relaxed);
            // Release: a thread that finds the record finds it whole, and by the chain of exchanges
            // those before it.
            match RECORDS.compare_exchange(youngest, record.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return record,
                Err(now) => youngest = now,
            }
        }
    }

    fn let_go(&self) {
        self.claimed.store(false, Ordering::Release);
    }

    #[inline]
    fn pool<R>(&self, work: impl FnOnce(&mut Pool) -> R) -> R {
        // SAFETY: the calling thread has claimed it (Invariant 1), and `work` does not come back
        // here.
        self.pool.with_mut(|pool| work(unsafe { &mut *pool }))
    }
}

/// The calling thread's record.
#[derive(Debug)]
struct Claim {
    record: NonNull<Record>,
    /// For this time only: the thread's variables are gone.
    passing: bool,
}

impl Claim {
    #[inline]
    fn mine() -> Claim {
        let mine = MINE.try_with(|mine| {
            mine.0.get().unwrap_or_else(|| {
                let record = Record::claim();
                mine.0.set(Some(record));
                record
            })
        });
        match mine {
            Ok(record) => Claim { record, passing: false },
            Err(_) => Claim { record: Record::claim(), passing: true },
        }
    }

    #[inline]
    fn record(&self) -> &Record {
        // SAFETY: records are never given back.
        unsafe { self.record.as_ref() }
    }
}

impl Drop for Claim {
    #[inline]
    fn drop(&mut self) {
        if self.passing {
            self.record().let_go();
        }
    }
}

/// A node that no link leads to, and that is the caller's until it links it or gives it back.
#[inline]
pub(super) fn lend() -> NonNull<Node> {
    let (node, crowded) = Claim::mine().record().pool(|pool| (pool.lend(), pool.fresh.count > CROWDED));
    if crowded {
        platform::thread::yield_now();
    }
    node
}

/// Takes back a node that only the caller can have looked at since it was lent.
///
/// # Safety
/// That is so.
#[inline]
pub(super) unsafe fn give_back(node: NonNull<Node>) {
    Claim::mine().record().pool(|pool| pool.keep(node));
}

/// While it lives, the thread may walk along links (Invariant 2). A thread has one at a time.
#[derive(Debug)]
pub(super) struct Walk {
    claim: Claim,
    /// The counter's odd value.
    counter: u64,
}

impl Walk {
    #[inline]
    pub(super) fn set_out() -> Walk {
        let claim = Claim::mine();
        let own = &claim.record().counter;
        // Relaxed: only this thread changes it. Release: a thread that waits for the last walk to
        // end may see this one in its stead.
        let counter = own.load(Ordering::Relaxed) + 1;
        own.store(counter, Ordering::Release);
        fence(Ordering::SeqCst);
        Walk { claim, counter }
    }

    /// Lets the node be lent again as soon as no thread can be looking at it.
    ///
    /// # Safety
    /// The caller has unlinked it.
    #[inline]
    pub(super) unsafe fn retire(&self, node: NonNull<Node>) {
        self.claim.record().pool(|pool| pool.retire(node));
    }
}

impl Drop for Walk {
    #[inline]
    fn drop(&mut self) {
        self.claim.record().counter.store(self.counter + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retire_some(count: usize) -> Vec<NonNull<Node>> {
        let nodes: Vec<_> = (0..count).map(|_| lend()).collect();
        let walk = Walk::set_out();
        for &node in &nodes {
            // SAFETY: no link has ever led to it.
            unsafe { walk.retire(node) };
        }
        nodes
    }

    /// In a thread of its own, so in a pool that no other test uses meanwhile.
    fn alone(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().expect("the test passes");
    }

    #[test]
    fn a_node_that_was_given_back_is_lent_at_once() {
        alone(|| {
            let node = lend();
            for _ in 0..1000 {
                // SAFETY: no other thread has seen it.
                unsafe { give_back(node) };
                assert_eq!(lend(), node);
            }
            // SAFETY: as above.
            unsafe { give_back(node) };
        });
    }

    #[test]
    fn nodes_are_lent_again_when_those_on_their_way_have_arrived() {
        alone(|| {
            let (arrive, is_to_arrive) = std::sync::mpsc::channel::<()>();
            let (set_out, has_set_out) = std::sync::mpsc::channel::<()>();
            let other = std::thread::spawn(move || {
                let walk = Walk::set_out();
                set_out.send(()).expect("somebody waits");
                is_to_arrive.recv().expect("somebody tells");
                drop(walk);
            });
            has_set_out.recv().expect("the other sets out");
            let retired = retire_some(BATCH);
            let lent: Vec<_> = (0..10 * BATCH).map(|_| lend()).collect();
            assert!(lent.iter().all(|node| !retired.contains(node)), "somebody may look at them");
            for node in lent {
                // SAFETY: no other thread has seen it.
                unsafe { Node::free(node) };
            }
            arrive.send(()).expect("the other waits");
            other.join().expect("it arrives");
            // Other tests' threads set out and arrive too.
            let again = (0..1_000_000).any(|_| {
                let node = lend();
                std::thread::yield_now();
                if retired.contains(&node) {
                    return true;
                }
                // SAFETY: no other thread has seen it.
                unsafe { Node::free(node) };
                false
            });
            assert!(again, "nobody looks at them any more");
        });
    }

    #[test]
    fn a_thread_that_ends_leaves_its_pool_to_others() {
        let ended = || {
            std::thread::spawn(|| drop(Walk::set_out())).join().expect("it ends");
        };
        let count = || {
            let mut count = 0;
            let mut next = RECORDS.load(Ordering::Acquire);
            // SAFETY: records are never given back.
            while let Some(record) = unsafe { next.as_ref() } {
                count += 1;
                next = record.next.load(Ordering::Relaxed);
            }
            count
        };
        (0..1000).for_each(|_| ended());
        // Other tests run beside this one, with some threads each.
        assert!(count() < 500, "{}", count());
    }
}
