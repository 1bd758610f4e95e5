//! What every range lock does: exclude overlapping ranges, let others in, wake waiters, and forget
//! nothing.
//!
//! A test file names its locks, each with how fine it is, and has all of the tests for each:
//!
//! ```text
//! common::range::every_range_lock! {
//!     map: Map, Exact;
//!     segments: Segments, Coarse;
//! }
//! ```
//!
//! [`Exact`](Grain::Exact): a `try_lock` by the only thread succeeds exactly if no conflicting
//! range is held. [`Coarse`](Grain::Coarse): neighbours in the same block may exclude each other
//! where the space is large; for a space of [`KEYS`] keys it is as good as exact.

use super::hog::beside_a_hog;
use fastrand::Rng;
use manx::range::{Access, RawRangeLock, Span};
use platform::cell::UnsafeCell;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use testing::{full, until};

/// The keys that tests lock, from 0 on; few, so that threads meet.
pub const KEYS: u64 = 96;

/// Whether ranges that do not overlap may exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Never.
    Exact,
    /// If they are in the same block.
    Coarse,
}

/// Tests of everything in this file for each of these locks, in a module of its name.
macro_rules! every_range_lock {
    (@ $lock:ty; $($test:ident($($argument:expr)?))*) => {$(
        #[test]
        fn $test() {
            range::$test::<$lock>($($argument)?);
        }
    )*};
    ($($name:ident: $lock:ty, $grain:ident;)*) => {$(
        mod $name {
            use crate::common::range::{self, Grain};

            range::every_range_lock! { @ $lock;
                holders_are_alone_with_their_keys()
                tries_succeed_as_the_model_says()
                tries_at_the_ends_of_the_space_succeed_as_the_model_says(Grain::$grain)
                a_waiter_is_let_in_when_the_last_holder_leaves()
                every_waiter_is_let_in_in_the_end()
                strangers_do_not_wait_for_each_other()
                holders_that_share_are_inside_together()
                another_thread_may_unlock_in_any_order()
            }
        }
    )*};
}

pub(crate) use every_range_lock;

/// `[first, end)`, which is a range.
pub fn span(first: u64, end: u64) -> Span<u64> {
    Span::new(first, end).expect("first < end")
}

fn unlock<L: RawRangeLock>(lock: &L, held: L::Held) {
    // SAFETY: `held` comes from this lock, and the tests below give it back once.
    unsafe { lock.unlock(held) };
}

/// What excludes what in a lock: a lock that does not share takes everything as exclusive.
fn effective<L: RawRangeLock>(access: Access) -> Access {
    if L::SHARES { access } else { Access::Exclusive }
}

/// A key's owner, and how often the key was written.
struct Key {
    /// 0: no thread. Otherwise [`WRITER`] and the writer's number, or the number of readers.
    owner: AtomicU64,
    written: UnsafeCell<u64>,
}

const WRITER: u64 = 1 << 32;

/// A lock, and the keys that nothing but the lock protects.
struct Guarded<L> {
    lock: L,
    keys: Vec<Key>,
}

// SAFETY: that a key is used by one thread at a time, or read by several, is what the test is
// about; it has plain numbers only, so that a lock that fails makes them wrong and nothing else.
unsafe impl<L: RawRangeLock> Sync for Guarded<L> {}

impl<L: RawRangeLock> Guarded<L> {
    fn new() -> Guarded<L> {
        let key = || Key { owner: AtomicU64::new(0), written: UnsafeCell::new(0) };
        Guarded { lock: L::with_space(KEYS), keys: (0..KEYS).map(|_| key()).collect() }
    }

    /// The keys of a span, as far as there are any.
    fn keys(&self, span: &Span<u64>) -> &[Key] {
        let first = span.start().copied().unwrap_or(0).min(KEYS);
        let end = span.end().copied().unwrap_or(KEYS).min(KEYS);
        &self.keys[first as usize..end as usize]
    }

    /// Works with keys that are held, for some `rounds`.
    fn work(&self, me: u64, span: &Span<u64>, access: Access, rounds: u32) {
        let keys = self.keys(span);
        match access {
            Access::Exclusive => {
                for key in keys {
                    // Relaxed, like the others: an order of memory is what the lock has to bring.
                    let before = key.owner.swap(WRITER | me, Ordering::Relaxed);
                    assert_eq!(before, 0, "{}: {me} in {span}: a key has another owner", L::NAME);
                    // SAFETY: the caller holds the key.
                    key.written.with_mut(|written| unsafe { *written += 1 });
                }
                (0..rounds).for_each(|_| platform::cpu::pause());
                for key in keys {
                    let before = key.owner.swap(0, Ordering::Relaxed);
                    assert_eq!(before, WRITER | me, "{}: {me} in {span}: a key was taken", L::NAME);
                }
            }
            Access::Shared => {
                let mut seen = 0;
                for key in keys {
                    let before = key.owner.fetch_add(1, Ordering::Relaxed);
                    assert!(before < WRITER, "{}: {me} shares {span}: somebody writes", L::NAME);
                    // SAFETY: the caller holds the key.
                    seen += key.written.with(|written| unsafe { *written });
                }
                (0..rounds).for_each(|_| platform::cpu::pause());
                for key in keys {
                    let before = key.owner.fetch_sub(1, Ordering::Relaxed);
                    assert!(before < WRITER, "{}: {me} shares {span}: somebody wrote", L::NAME);
                    // SAFETY: as above.
                    seen -= key.written.with(|written| unsafe { *written });
                }
                assert_eq!(seen, 0, "{}: {me} shares {span}: a key changed", L::NAME);
            }
        }
    }
}

/// Random, adjacent, touching, open, single keys, and now and then all of them.
fn draw_span(draw: &mut Rng) -> Span<u64> {
    let key = draw.u64(..KEYS);
    match draw.u64(..32) {
        0 => Span::all(),
        1 => Span::from(key),
        2 => Span::to(key + 1),
        3 => span(0, KEYS),
        4..8 => Span::point(key),
        8..14 => span(key / 8 * 8, key / 8 * 8 + 8),
        // Beside those: they end where one of them begins, or begin where one ends.
        14..18 => span(key / 8 * 8 + 7, key / 8 * 8 + 8),
        18..22 => span(key / 8 * 8, key / 8 * 8 + 1),
        _ => span(key, (key + 1 + draw.u64(..6)).min(KEYS)),
    }
}

/// Threads take ranges of all kinds, and each finds its keys its own; also while their CPUs are
/// taken away.
pub fn holders_are_alone_with_their_keys<L: RawRangeLock>() {
    if full() {
        let minute = Duration::from_secs(60);
        stay_alone::<L>(8, minute);
        beside_a_hog(|| stay_alone::<L>(32, minute));
    } else {
        stay_alone::<L>(6, Duration::from_secs(1));
        beside_a_hog(|| stay_alone::<L>(12, Duration::from_millis(300)));
    }
}

fn stay_alone<L: RawRangeLock>(threads: u64, time: Duration) {
    let guarded = &Guarded::<L>::new();
    let end = Instant::now() + time;
    let written: u64 = thread::scope(|scope| {
        let run = |me| move || take_ranges(guarded, me, end);
        let running: Vec<_> = (1..=threads).map(|me| scope.spawn(run(me))).collect();
        running.into_iter().map(|thread| thread.join().expect("alone with its keys")).sum()
    });
    // SAFETY: all others have ended.
    let found: u64 = guarded.keys.iter().map(|key| key.written.with(|written| unsafe { *written })).sum();
    assert_eq!(found, written, "{}: a write was lost", L::NAME);
    let all = guarded.lock.try_lock(&Span::all(), Access::Exclusive).expect("all gave back");
    unlock(&guarded.lock, all);
}

/// Until then; returns how many keys it wrote.
fn take_ranges<L: RawRangeLock>(guarded: &Guarded<L>, me: u64, end: Instant) -> u64 {
    let mut draw = Rng::with_seed(me);
    let mut written = 0;
    while Instant::now() < end {
        let wanted = draw_span(&mut draw);
        let access = if draw.u64(..3) == 0 { Access::Shared } else { Access::Exclusive };
        let tried = if draw.u64(..4) == 0 { guarded.lock.try_lock(&wanted, access) } else { None };
        let held = tried.unwrap_or_else(|| guarded.lock.lock(&wanted, access));
        if access == Access::Exclusive {
            written += guarded.keys(&wanted).len() as u64;
        }
        guarded.work(me, &wanted, access, draw.u64(..64) as u32);
        unlock(&guarded.lock, held);
    }
    written
}

/// What a lone thread does with a lock.
#[derive(Clone, Debug)]
enum Step {
    Try(Span<u64>, Access),
    /// One of those held, by a number that is taken modulo how many there are.
    Unlock(usize),
}

fn steps(key: impl Strategy<Value = u64> + Clone + 'static) -> impl Strategy<Value = Vec<Step>> {
    let two = (key.clone(), key.clone())
        .prop_filter_map("not empty", |(one, two)| Span::new(one.min(two), one.max(two)).ok());
    let spans = prop_oneof![
        6 => two,
        2 => key.clone().prop_map(Span::point),
        1 => key.clone().prop_map(Span::from),
        // An end at the lowest key would leave a range without keys.
        1 => key.prop_map(|key| Span::to(key.max(1))),
        1 => Just(Span::all()),
    ];
    let access = prop_oneof![Just(Access::Exclusive), Just(Access::Shared)];
    let step = prop_oneof![
        3 => (spans, access).prop_map(|(span, access)| Step::Try(span, access)),
        2 => any::<usize>().prop_map(Step::Unlock),
    ];
    prop::collection::vec(step, 1..120)
}

/// Takes the steps, and compares with a list of what is held.
fn follow<L: RawRangeLock>(space: u64, grain: Grain, steps: &[Step]) -> Result<(), TestCaseError> {
    let lock = L::with_space(space);
    let mut held: Vec<(Span<u64>, Access, L::Held)> = Vec::new();
    for step in steps {
        match step {
            Step::Try(span, access) => {
                let access = effective::<L>(*access);
                let excludes = |(other, its, _): &(Span<u64>, Access, L::Held)| {
                    access.conflicts_with(*its) && span.overlaps(other)
                };
                let conflict = held.iter().any(excludes);
                let got = lock.try_lock(span, access);
                if conflict || grain == Grain::Exact {
                    prop_assert_eq!(got.is_some(), !conflict, "{}: {} {:?}", L::NAME, span, access);
                }
                held.extend(got.map(|got| (span.clone(), access, got)));
            }
            Step::Unlock(_) if held.is_empty() => {}
            Step::Unlock(which) => {
                let (_, _, which) = held.swap_remove(which % held.len());
                unlock(&lock, which);
            }
        }
    }
    held.into_iter().for_each(|(_, _, held)| unlock(&lock, held));
    let all = lock.try_lock(&Span::all(), Access::Exclusive);
    prop_assert!(all.is_some(), "{}: all is free when all is given back", L::NAME);
    all.into_iter().for_each(|all| unlock(&lock, all));
    Ok(())
}

fn runner() -> proptest::test_runner::TestRunner {
    let cases = if full() { 20_000 } else { 100 };
    proptest::test_runner::TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() })
}

/// A lone thread gets what is not held, and nothing else.
pub fn tries_succeed_as_the_model_says<L: RawRangeLock>() {
    let check = |steps: Vec<Step>| follow::<L>(KEYS, Grain::Exact, &steps);
    runner().run(&steps(0..KEYS), check).unwrap_or_else(|failure| panic!("{failure}"));
}

/// The same with the lowest and the highest keys there are.
pub fn tries_at_the_ends_of_the_space_succeed_as_the_model_says<L: RawRangeLock>(grain: Grain) {
    let keys = prop_oneof![0..4_u64, (u64::MAX - 3)..=u64::MAX, any::<u64>()];
    let check = |steps: Vec<Step>| follow::<L>(u64::MAX, grain, &steps);
    runner().run(&steps(keys.boxed()), check).unwrap_or_else(|failure| panic!("{failure}"));
}

/// A thread that wants more than one holder has is let in by the last of them, and not before.
pub fn a_waiter_is_let_in_when_the_last_holder_leaves<L: RawRangeLock>() {
    let wanted = [Span::all(), span(15, 35), Span::to(40), Span::from(12), span(10, 40)];
    for (wanted, access) in wanted.iter().flat_map(|span| [(span, Access::Exclusive), (span, Access::Shared)])
    {
        let lock = L::with_space(KEYS);
        let inside = AtomicBool::new(false);
        let holders = [span(10, 20), span(20, 30), span(30, 40)];
        let held: Vec<_> = holders.iter().map(|span| lock.lock(span, Access::Exclusive)).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                let held = lock.lock(wanted, access);
                inside.store(true, Ordering::Relaxed);
                unlock(&lock, held);
            });
            for held in held {
                thread::sleep(Duration::from_millis(1));
                assert!(!inside.load(Ordering::Relaxed), "{}: {wanted} is held", L::NAME);
                unlock(&lock, held);
            }
        });
        assert!(inside.load(Ordering::Relaxed));
    }
}

/// Many wait for ranges that overlap each other in part; all get theirs.
pub fn every_waiter_is_let_in_in_the_end<L: RawRangeLock>() {
    for round in 0..if full() { 200 } else { 10 } {
        let lock = L::with_space(KEYS);
        let (arrived, served) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let held = lock.lock(&Span::all(), Access::Exclusive);
        thread::scope(|scope| {
            let (lock, arrived, served) = (&lock, &arrived, &served);
            for me in 0..8 {
                scope.spawn(move || {
                    let mut draw = Rng::with_seed(round * 8 + me);
                    arrived.fetch_add(1, Ordering::Relaxed);
                    for turn in 0..3 {
                        let access = if (me + turn) % 2 == 0 { Access::Exclusive } else { Access::Shared };
                        let held = lock.lock(&draw_span(&mut draw), access);
                        served.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                        unlock(lock, held);
                    }
                });
            }
            until("eight", || arrived.load(Ordering::Relaxed) == 8);
            assert_eq!(served.load(Ordering::Relaxed), 0, "{}: everything is held", L::NAME);
            unlock(lock, held);
        });
        assert_eq!(served.load(Ordering::Relaxed), 24);
    }
}

/// While one holds a range and another waits for it, a third takes what neither wants.
pub fn strangers_do_not_wait_for_each_other<L: RawRangeLock>() {
    let lock = L::with_space(KEYS);
    let held = lock.lock(&span(0, 10), Access::Exclusive);
    let waits = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            waits.store(true, Ordering::Relaxed);
            let held = lock.lock(&span(5, 15), Access::Exclusive);
            unlock(&lock, held);
        });
        until("a waiter", || waits.load(Ordering::Relaxed));
        for turn in 0..100 {
            for access in [Access::Exclusive, Access::Shared] {
                let strange = lock.lock(&span(20 + turn % 5, 30 + turn % 7), access);
                unlock(&lock, strange);
            }
        }
        unlock(&lock, held);
    });
}

/// All sharers of a key are inside at the same time: each waits there for all the others.
pub fn holders_that_share_are_inside_together<L: RawRangeLock>() {
    if !L::SHARES {
        return;
    }
    let lock = L::with_space(KEYS);
    let together = Barrier::new(4);
    let held = lock.lock(&span(30, 31), Access::Exclusive);
    thread::scope(|scope| {
        for wanted in [Span::all(), span(20, 40), Span::point(30), Span::from(25)] {
            let (lock, together) = (&lock, &together);
            scope.spawn(move || {
                let held = lock.lock(&wanted, Access::Shared);
                together.wait();
                unlock(lock, held);
            });
        }
        unlock(&lock, held);
    });
}

/// What one thread locks another unlocks, not in the order in which it was locked.
pub fn another_thread_may_unlock_in_any_order<L: RawRangeLock + 'static>() {
    const COUNT: usize = 32;
    let lock = Arc::new(L::with_space(KEYS));
    // A step that has no divisor in common with the count visits all of them.
    for step in [1, 5, 13, COUNT - 1] {
        let nth = |nth| span(nth * 3, nth * 3 + 3);
        let held: Vec<_> = (0..COUNT as u64).map(|at| lock.lock(&nth(at), Access::Exclusive)).collect();
        let other = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                let mut held: Vec<_> = held.into_iter().map(Some).collect();
                for turn in 0..COUNT {
                    let at = turn * step % COUNT;
                    let wanted = nth(at as u64);
                    assert!(lock.try_lock(&wanted, Access::Exclusive).is_none());
                    unlock(&*lock, held[at].take().expect("each once"));
                    let again = lock.try_lock(&wanted, Access::Exclusive).expect("just given back");
                    unlock(&*lock, again);
                }
            })
        };
        other.join().expect("gives all back");
        let all = lock.try_lock(&Span::all(), Access::Exclusive).expect("all was given back");
        unlock(&*lock, all);
    }
}
