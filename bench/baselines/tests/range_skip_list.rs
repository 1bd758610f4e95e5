//! The thesis' skip list on the machine: memory comes back, and none of the faults that were found
//! in the thesis' own code is here. That no two threads are in a range together is a test of all
//! range locks (`ranges.rs`).

#[path = "range_skip_list/memory.rs"]
mod memory;

use baselines::range::{HeightOutOfRange, SkipList};
use fastrand::Rng;
use manx::range::{InvalidRange, Key, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;

fn span(start: u64, end: u64) -> Span<u64> {
    Span::new(start, end).expect("the tests' ranges are not empty")
}

const KEYS: u64 = 64;
/// The factor by which a test is longer if `MANX_FULL` is set.
fn factor() -> u64 {
    if testing::full() { 20 } else { 1 }
}

/// Ranges that only touch never conflict, whatever else goes on between them.
#[test]
fn touching_ranges_never_fail() {
    let lock = &SkipList::<u64>::new();
    thread::scope(|scope| {
        for me in 0..4 {
            scope.spawn(move || {
                let mut draw = Rng::with_seed(me);
                for _ in 0..50_000 * factor() {
                    let from = me * 100;
                    let at = from + 1 + draw.u64(..98);
                    let below = lock.try_acquire(&span(from, at)).expect("nobody else wants it");
                    let above = lock.try_acquire(&span(at, from + 100)).expect("nobody else wants it");
                    assert!(lock.try_acquire(&span(at - 1, at + 1)).is_none(), "both parts are held");
                    let (first, second) = if at.is_multiple_of(2) { (below, above) } else { (above, below) };
                    lock.release(first).expect("held");
                    lock.release(second).expect("held");
                }
            });
        }
    });
}

/// A key that knows whether it has been dropped, and how many of its kind there are.
#[derive(Debug)]
struct Canary {
    value: Box<AtomicU64>,
    alive: Arc<AtomicI64>,
}

const DROPPED: u64 = u64::MAX;

impl Canary {
    fn new(value: u64, alive: &Arc<AtomicI64>) -> Canary {
        alive.fetch_add(1, Ordering::Relaxed);
        Canary { value: Box::new(AtomicU64::new(value)), alive: Arc::clone(alive) }
    }

    fn value(&self) -> u64 {
        let value = self.value.load(Ordering::Relaxed);
        assert!(value < KEYS * 2, "a key that was dropped is compared");
        value
    }
}

impl Clone for Canary {
    fn clone(&self) -> Canary {
        Canary::new(self.value(), &self.alive)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        let value = self.value.swap(DROPPED, Ordering::Relaxed);
        assert!(value < KEYS * 2, "a key is dropped twice");
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PartialEq for Canary {
    fn eq(&self, other: &Canary) -> bool {
        self.value() == other.value()
    }
}

impl Eq for Canary {}

impl PartialOrd for Canary {
    fn partial_cmp(&self, other: &Canary) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Canary {
    fn cmp(&self, other: &Canary) -> std::cmp::Ordering {
        self.value().cmp(&other.value())
    }
}

impl Key for Canary {
    const EXACT: bool = true;

    fn position(&self) -> u64 {
        self.value()
    }
}

/// The thesis' upper links lead to nodes released long ago. Here nodes are used again, so a walk
/// that follows such a link compares a key that was dropped.
#[test]
fn no_walk_meets_a_key_that_was_dropped() {
    let alive = Arc::new(AtomicI64::new(0));
    for height in [2, 10] {
        let lock = SkipList::<Canary>::with_height(height).expect("a height that there is");
        thread::scope(|scope| {
            for me in 0..4 {
                let (lock, alive) = (&lock, &alive);
                scope.spawn(move || {
                    let mut draw = Rng::with_seed(me);
                    for _ in 0..20_000 * factor() {
                        let start = draw.u64(..KEYS);
                        let end = start + 1 + draw.u64(..3);
                        let wanted =
                            Span::new(Canary::new(start, alive), Canary::new(end, alive)).expect("not empty");
                        if let Some(held) = lock.try_acquire(&wanted) {
                            lock.release(held).expect("held");
                        }
                    }
                });
            }
        });
        // Also a range that is still held.
        let _held = lock.acquire(&Span::from(Canary::new(7, &alive)));
        drop(lock);
        assert_eq!(alive.load(Ordering::Relaxed), 0, "all keys are dropped with the lock");
    }
}

#[test]
fn both_highest_keys_are_locked_at_once() {
    let lock = SkipList::<u64>::new();
    let last = lock.try_acquire(&Span::point(u64::MAX)).expect("nobody holds it");
    let before = lock.try_acquire(&Span::point(u64::MAX - 1)).expect("nobody holds it");
    lock.release(last).expect("held");
    lock.release(before).expect("held");
}

#[test]
fn inverted_and_empty_ranges_block_nobody() {
    let lock = SkipList::<u64>::new();
    assert_eq!(Span::new(7_u64, 3), Err(InvalidRange::Inverted));
    assert_eq!(Span::new(7_u64, 7), Err(InvalidRange::Empty));
    // What there is instead, a range without keys up to the lowest, is held and given back like
    // others.
    let none = lock.try_acquire(&Span::to(0)).expect("nobody holds it");
    let rest = lock.try_acquire(&Span::from(1)).expect("they have no key in common");
    lock.release(none).expect("held");
    lock.release(rest).expect("held");
    assert!(!lock.is_held(&Span::all()));
}

#[test]
fn a_range_that_is_not_held_cannot_be_released() {
    let (one, other) = (SkipList::<u64>::new(), SkipList::<u64>::new());
    let held = one.acquire(&span(3, 5));
    let its = other.acquire(&span(3, 5));
    let refused = other.release(held).expect_err("it is the other lock's");
    assert!(other.is_held(&span(3, 5)) && one.is_held(&span(3, 5)));
    other.release(its).expect("its own");
    one.release(refused).expect("its own");
}

#[test]
fn heights_that_do_not_exist_are_refused() {
    const MOST: usize = SkipList::<u64>::HEIGHT_MAX;
    for height in [0, MOST + 1, usize::MAX] {
        let refused: HeightOutOfRange = SkipList::<u64>::with_height(height).expect_err("no such height");
        assert!(refused.to_string().contains(&format!("1 to {MOST}")), "{refused}");
    }
    assert_eq!(SkipList::<u64>::new().height(), 10);
}
