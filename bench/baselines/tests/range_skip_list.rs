//! The thesis' skip list and its published form on the machine: no two threads are in a range
//! together, memory comes back, and none of the faults that were found in the thesis' own code is
//! here.

#[path = "range_skip_list/memory.rs"]
mod memory;

use baselines::range::{HeightOutOfRange, SkipList, SkipListPublished};
use manx::range::{Access, InvalidRange, Key, RawRangeLock, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;

fn span(start: u64, end: u64) -> Span<u64> {
    Span::new(start, end).expect("the tests' ranges are not empty")
}

/// Marsaglia's xorshift.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

const KEYS: u64 = 64;
const NOBODY: u64 = 0;

/// Threads take ranges of few keys, each key with its owner, by trying and by waiting.
fn nobody_shares_a_key<L: RawRangeLock>(lock: &L, threads: u64, rounds: u64) {
    let owners: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(NOBODY)).collect();
    thread::scope(|scope| {
        for me in 1..=threads {
            let owners = &owners;
            scope.spawn(move || {
                let mut dice = Dice::new(me);
                for _ in 0..rounds {
                    let wanted = match dice.below(16) {
                        0 => Span::all(),
                        1 => Span::from(dice.below(KEYS)),
                        2 => Span::to(1 + dice.below(KEYS)),
                        3..8 => Span::point(dice.below(KEYS)),
                        _ => {
                            let start = dice.below(KEYS);
                            span(start, start + 1 + dice.below(KEYS - start))
                        }
                    };
                    let held = match dice.below(2) {
                        0 => lock.try_lock(&wanted, Access::Exclusive),
                        _ => Some(lock.lock(&wanted, Access::Exclusive)),
                    };
                    let Some(held) = held else { continue };
                    let start = wanted.start().map_or(0, |&start| start);
                    let end = wanted.end().map_or(KEYS, |&end| end);
                    let mine = &owners[start as usize..end as usize];
                    for owner in mine {
                        assert_eq!(owner.swap(me, Ordering::Relaxed), NOBODY, "{wanted} is somebody's");
                    }
                    for owner in mine {
                        assert_eq!(owner.swap(NOBODY, Ordering::Relaxed), me, "{wanted} became somebody's");
                    }
                    // SAFETY: what this lock returned for the range.
                    unsafe { lock.unlock(held) };
                }
            });
        }
    });
    let all = lock.try_lock(&Span::all(), Access::Exclusive).expect("nobody holds a key");
    // SAFETY: as above.
    unsafe { lock.unlock(all) };
}

/// The factor by which a test is longer if `MANX_FULL` is set.
fn factor() -> u64 {
    if std::env::var_os("MANX_FULL").is_some() { 20 } else { 1 }
}

#[test]
fn no_two_holders_share_a_key_at_any_height() {
    for height in [1, 2, 10, 16] {
        let lock = SkipList::with_height(height).expect("a height that there is");
        nobody_shares_a_key(&lock, 8, 10_000 * factor());
        assert_eq!(lock.waiting(), 0, "nobody is left in line");
    }
}

#[test]
fn no_two_holders_share_a_key_of_the_published_form() {
    nobody_shares_a_key(&SkipListPublished::new(), 4, 5_000 * factor());
}

/// Ranges that only touch never conflict, whatever else goes on between them.
#[test]
fn touching_ranges_never_fail() {
    let lock = &SkipList::<u64>::new();
    thread::scope(|scope| {
        for me in 0..4 {
            scope.spawn(move || {
                let mut dice = Dice::new(me);
                for _ in 0..50_000 * factor() {
                    let from = me * 100;
                    let at = from + 1 + dice.below(98);
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
                    let mut dice = Dice::new(me);
                    for _ in 0..20_000 * factor() {
                        let start = dice.below(KEYS);
                        let end = start + 1 + dice.below(3);
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

fn a_single_point_is_released<L: RawRangeLock>() {
    let lock = L::with_space(u64::MAX);
    for key in [0, 1, 7, u64::MAX - 1, u64::MAX] {
        for _ in 0..3 {
            let point = Span::point(key);
            let held = lock.try_lock(&point, Access::Exclusive).expect("nobody holds it");
            assert!(lock.try_lock(&point, Access::Exclusive).is_none(), "{key} is held");
            // SAFETY: what this lock returned.
            unsafe { lock.unlock(held) };
        }
    }
}

#[test]
fn single_points_are_released() {
    a_single_point_is_released::<SkipList>();
    a_single_point_is_released::<SkipListPublished>();
}

fn the_ends_are_locked<L: RawRangeLock>() {
    let lock = L::with_space(u64::MAX);
    let ends = [
        Span::to(1),
        Span::from(u64::MAX),
        Span::all(),
        Span::to(u64::MAX),
        Span::from(0),
        span(0, u64::MAX),
    ];
    for end in &ends {
        let held = lock.try_lock(end, Access::Exclusive).expect("nobody holds it");
        for other in &ends {
            let got = lock.try_lock(other, Access::Exclusive);
            assert!(!(end.overlaps(other) && got.is_some()), "{other} overlaps {end}");
            if let Some(got) = got {
                // SAFETY: what this lock returned.
                unsafe { lock.unlock(got) };
            }
        }
        // SAFETY: as above.
        unsafe { lock.unlock(held) };
    }
    // Both ends at once, and what is between them.
    let parts = [Span::to(1), span(1, u64::MAX - 10), Span::from(u64::MAX - 10)];
    let held = parts.map(|part| lock.try_lock(&part, Access::Exclusive).expect("they only touch"));
    assert!(lock.try_lock(&Span::point(5), Access::Exclusive).is_none());
    for held in held {
        // SAFETY: as above.
        unsafe { lock.unlock(held) };
    }
}

#[test]
fn ranges_that_touch_the_ends_are_locked() {
    the_ends_are_locked::<SkipList>();
    the_ends_are_locked::<SkipListPublished>();
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
    assert!(refused.to_string().contains("not held here"), "{refused}");
    other.release(its).expect("its own");
    one.release(refused.into_held()).expect("its own");
}

#[test]
fn heights_that_do_not_exist_are_refused() {
    for height in [0, 17, usize::MAX] {
        let refused: HeightOutOfRange = SkipList::<u64>::with_height(height).expect_err("no such height");
        assert!(refused.to_string().contains("1 to 16"), "{refused}");
        assert!(SkipListPublished::with_height(height).is_err());
    }
    assert_eq!(SkipList::<u64>::new().height(), 10);
}

/// One holds all and releases; the waiters for parts all go on, also waiters that are not the first
/// in line.
#[test]
fn no_waiter_is_left_in_line() {
    let lock = &SkipList::<u64>::new();
    for round in 0..200 * factor() {
        let all = lock.acquire(&Span::all());
        thread::scope(|scope| {
            for me in 0..6 {
                scope.spawn(move || {
                    let start = (me + round) % 5;
                    let held = lock.acquire(&span(start, start + 1 + me % 3));
                    lock.release(held).expect("held");
                });
            }
            while lock.waiting() == 0 {
                thread::yield_now();
            }
            lock.release(all).expect("held");
        });
        assert_eq!(lock.waiting(), 0);
    }
}
