//! The memory of the thesis' skip list on the machine: nodes come back, also after an order of keys
//! that panics, and what no thread needs goes back to the allocator. (What a walk that stands still
//! keeps is a test of the list, which can hold a walk.)

use super::{factor, span};
use baselines::range::SkipList;
use manx::range::{Key, Span};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

/// The system's allocator, which also counts nodes.
struct Counting;

thread_local! {
    /// The number of nodes that this thread has allocated, less the nodes that it has freed. Nodes
    /// are aligned to a cache line here, and nothing else is.
    static NODES: Cell<i64> = const { Cell::new(0) };
}

fn count(layout: Layout, nodes: i64) {
    if layout.align() == 64 {
        // An error says that the thread ends: no test has a node then.
        let _ = NODES.try_with(|count| count.set(count.get() + nodes));
    }
}

// SAFETY: the system's allocator does all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: the contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: the contract is the same.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many nodes this thread has allocated and not freed.
fn nodes() -> i64 {
    NODES.with(Cell::get)
}

#[test]
fn a_million_pairs_need_few_nodes_and_all_are_freed_with_the_lock() {
    let lock = SkipList::<u64>::new();
    for round in 0..1_000_000 * factor() {
        let at = round % 1_000;
        let held = lock.acquire(&span(at, at + 1));
        lock.release(held).expect("held");
    }
    assert!(lock.allocated() <= 100, "{lock:?}");
    assert_eq!(nodes(), lock.allocated() as i64, "the lock knows what it has");
    // Some are still held, some are on their way.
    let held: Vec<_> = (0..1_000).map(|at| lock.acquire(&span(at, at + 1))).collect();
    assert!((1_000..1_100).contains(&nodes()));
    held.into_iter().take(500).for_each(|held| lock.release(held).expect("held"));
    drop(lock);
    assert_eq!(nodes(), 0);
}

#[test]
fn batches_come_back_as_well() {
    let lock = SkipList::<u64>::new();
    for _ in 0..200 * factor() {
        let held: Vec<_> = (0..1_000).map(|at| lock.acquire(&span(at, at + 1))).collect();
        // In another order than they were taken.
        held.into_iter().rev().for_each(|held| lock.release(held).expect("held"));
    }
    assert!(lock.allocated() <= 1_100, "{lock:?}");
    drop(lock);
    assert_eq!(nodes(), 0);
}

/// One thread only takes and the other only gives back, so each node has to find its way from one
/// to the other.
#[test]
fn nodes_go_back_from_threads_that_release_to_threads_that_take() {
    let lock = SkipList::<u64>::new();
    let shared = &lock;
    let (to, from) = mpsc::sync_channel(16);
    let allocated: i64 = thread::scope(|scope| {
        let takes = scope.spawn(move || {
            for round in 0..100_000 * factor() {
                to.send(shared.acquire(&span(round % 64, round % 64 + 1))).expect("the other one lives");
            }
            drop(to);
            nodes()
        });
        let gives = scope.spawn(move || {
            from.iter().for_each(|held| shared.release(held).expect("held"));
            nodes()
        });
        takes.join().expect("no panic") + gives.join().expect("no panic")
    });
    // What is on its way grows while a thread that is inside has no CPU; how much, the scheduler
    // says. Without any way back it would be all.
    assert!(lock.allocated() < 50_000, "{lock:?}");
    assert_eq!(allocated, lock.allocated() as i64);
    drop(lock);
    assert_eq!(allocated + nodes(), 0);
}

#[test]
fn threads_come_and_go_and_leave_nothing() {
    let lock = &SkipList::<u64>::new();
    let mut allocated = 0;
    for round in 0..50 {
        allocated += thread::scope(|scope| {
            let threads: Vec<_> = (0..20)
                .map(|me| {
                    scope.spawn(move || {
                        let held = lock.acquire(&span(me, me + 1 + round % 2));
                        lock.release(held).expect("held");
                        nodes()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<i64>()
        });
    }
    assert_eq!(allocated, lock.allocated() as i64);
    assert!(allocated < 1_000, "a thread that ends does not take nodes with it: {lock:?}");
}

/// The number of nodes that a lock keeps beyond those of held ranges: full shelves, and the nodes
/// of one slot.
const KEPT: usize = 15 * 64 + 256;

#[test]
fn memory_falls_back_after_a_peak() {
    let lock = SkipList::<u64>::new();
    for _ in 0..2 {
        let held: Vec<_> = (0..20_000).map(|at| lock.acquire(&span(at, at + 1))).collect();
        assert!(lock.allocated() >= 20_000, "each stands for a range: {lock:?}");
        held.into_iter().for_each(|held| lock.release(held).expect("held"));
        assert!(lock.allocated() <= KEPT, "what nobody needs is freed: {lock:?}");
        assert_eq!(nodes(), lock.allocated() as i64, "the lock knows what it has");
    }
}

/// More threads than CPUs: some are always preempted while they walk.
#[test]
fn memory_does_not_grow_with_the_pairs_of_many_threads() {
    let lock = &SkipList::<u64>::new();
    thread::scope(|scope| {
        for me in 0..8 {
            scope.spawn(move || {
                for round in 0..100_000 * factor() {
                    let at = me * 1_000 + round % 1_000;
                    lock.release(lock.acquire(&span(at, at + 1))).expect("held");
                    assert!(lock.allocated() <= 20_000, "after {round} rounds: {lock:?}");
                }
            });
        }
    });
}

/// A key whose order panics on demand.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Moody(u64);

static MOOD: AtomicBool = AtomicBool::new(false);

impl PartialOrd for Moody {
    fn partial_cmp(&self, other: &Moody) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moody {
    fn cmp(&self, other: &Moody) -> std::cmp::Ordering {
        assert!(!MOOD.load(Ordering::Relaxed), "not now");
        self.0.cmp(&other.0)
    }
}

impl Key for Moody {
    const EXACT: bool = true;

    fn position(&self) -> u64 {
        self.0
    }
}

#[test]
fn an_order_that_panics_leaves_the_lock_as_it_was() {
    let lock = SkipList::<Moody>::new();
    let low = Span::new(Moody(1), Moody(5)).expect("not empty");
    let held = lock.acquire(&low);
    MOOD.store(true, Ordering::Relaxed);
    let other = Span::from(Moody(3));
    for _ in 0..20 {
        assert!(catch_unwind(AssertUnwindSafe(|| lock.try_acquire(&other).is_some())).is_err());
    }
    MOOD.store(false, Ordering::Relaxed);
    assert!(lock.try_acquire(&other).is_none());
    lock.release(held).expect("held");
    for _ in 0..1_000 {
        let other = lock.try_acquire(&other).expect("nobody holds a part of it");
        lock.release(other).expect("held");
    }
    assert!(lock.allocated() < 100, "no thread counts as inside that is not: {lock:?}");
    drop(lock);
    assert_eq!(nodes(), 0);
}
