//! The default range lock under loom: every order of steps that the memory model allows.
//!
//! Each key has a cell that loom watches: two holders at once, and a holder that does not see what
//! the one before it wrote, are reported; so is a waiter that no thread wakes. Locks are as small
//! as can be, with one slot a shard, so that the second range is on the heap, and with a key a
//! block, so that a range of two keys is in two shards and a range of three is a wide one. Waiters
//! may be overtaken for ever (then a release tells them to look, and they sleep without a limit
//! until then) or not at all (then it hands the range over): [`PATIENT`] and [`STARVING`].

#[path = "range/operations.rs"]
mod operations;

#[path = "common/block_on.rs"]
mod block_on;
mod common;

use Access::{Exclusive, Shared};
use common::{check, join, spawn};
use loom::sync::Arc;
use loom::thread;
use manx_loom::range::{Access, LockError, Options, Owner, RangeGuard, RangeLock, Span, SpanSet};
use platform::cell::UnsafeCell;
use platform::futex::{Clock, Deadline};
use std::time::Duration;

/// How long a waiter may be overtaken: for ever, …
const PATIENT: Duration = Duration::MAX;
/// … and not at all.
const STARVING: Duration = Duration::ZERO;
/// Here a deadline passes as soon as a thread waits for it.
const SOON: Option<Deadline> = Some(Deadline { clock: Clock::Monotonic, ns: 0 });

const KEYS: usize = 4;

/// Keys of two shards in turn; `SHARDS` is 1 or 2.
struct Guarded<const SHARDS: usize, const SLOTS: usize> {
    lock: RangeLock<u64, SHARDS, SLOTS>,
    numbers: [UnsafeCell<u32>; KEYS],
}

// SAFETY: numbers are used by the holders of their keys; loom reports it if that is not enough.
unsafe impl<const SHARDS: usize, const SLOTS: usize> Sync for Guarded<SHARDS, SLOTS> {}
// SAFETY: as above.
unsafe impl<const SHARDS: usize, const SLOTS: usize> Send for Guarded<SHARDS, SLOTS> {}

/// From `first` up to, and without, `end`.
type Keys = (u64, u64);
const ALL: Keys = (0, KEYS as u64);

fn span((first, end): Keys) -> Span<u64> {
    Span::new(first, end).expect("the tests' ranges are not empty")
}

fn set(of: impl IntoIterator<Item = Keys>) -> SpanSet<u64> {
    SpanSet::disjoint(of.into_iter().map(span)).expect("the tests' ranges do not overlap")
}

impl<const SHARDS: usize, const SLOTS: usize> Guarded<SHARDS, SLOTS> {
    fn new(window: Duration) -> Arc<Self> {
        Guarded::with(Options::new().block_log2(0).window(window))
    }

    fn with(options: Options) -> Arc<Self> {
        let numbers = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Guarded { lock: RangeLock::with(options), numbers })
    }

    /// Works with keys that are held.
    fn work(&self, (first, end): Keys, access: Access) {
        for number in &self.numbers[first as usize..end as usize] {
            match access {
                // SAFETY: held alone.
                Exclusive => number.with_mut(|number| unsafe { *number += 1 }),
                // SAFETY: held by readers.
                Shared => assert!(number.with(|number| unsafe { *number }) < 100),
            }
        }
    }

    fn hold(&self, keys: Keys, access: Access) -> RangeGuard<'_, u64, SHARDS, SLOTS> {
        self.lock.lock_as(span(keys), access).expect("nothing but time is in the way")
    }

    fn lock(&self, keys: Keys, access: Access) {
        let held = self.hold(keys, access);
        self.work(keys, access);
        drop(held);
    }

    /// Whether it was had at once.
    fn try_lock(&self, keys: Keys, access: Access) -> bool {
        let Ok(held) = self.lock.try_lock_as(span(keys), access) else { return false };
        self.work(keys, access);
        drop(held);
        true
    }

    /// Whether it was had in time.
    fn lock_soon(&self, keys: Keys, access: Access) -> bool {
        match self.lock.lock_by_deadline(span(keys), access, SOON) {
            Ok(held) => {
                self.work(keys, access);
                drop(held);
                true
            }
            Err(error) => {
                assert_eq!(error, LockError::TimedOut);
                false
            }
        }
    }

    /// Checks that nothing is held or closed, no thread waits, and each key was written `times`
    /// times.
    fn assert_done(&self, times: [u32; KEYS]) {
        let dump = self.lock.dump();
        assert!(dump.held.is_empty() && dump.waiting.is_empty(), "{dump}");
        // Twice: what is in no holder's way but was closed would be refused by one of them.
        assert!(self.try_lock((1, 2), Shared) && self.try_lock((2, 3), Shared));
        let all = self.lock.try_lock(..).expect("what is free is acquired without waiting");
        // SAFETY: all are held.
        let found = self.numbers.each_ref().map(|number| number.with(|number| unsafe { *number }));
        drop(all);
        assert_eq!(found, times);
    }
}

/// Runs a model with waiters that may be overtaken for ever, and with waiters that may not.
fn in_both_windows(preemptions: usize, model: impl Fn(Duration) + Copy + Send + Sync + 'static) {
    for window in [PATIENT, STARVING] {
        check(preemptions, move || model(window));
    }
}

/// Two threads take ranges that overlap, one of them twice, so that a slot is used again.
fn two_overlap<const SHARDS: usize>(window: Duration, preemptions: usize) {
    check(preemptions, move || {
        let guarded = Guarded::<SHARDS, 1>::new(window);
        let other = spawn(&guarded, |guarded| guarded.lock((1, 3), Exclusive));
        guarded.lock((0, 2), Exclusive);
        guarded.lock((2, 4), Exclusive);
        other.join().unwrap();
        guarded.assert_done([1, 2, 2, 1]);
    });
}

#[test]
fn two_overlap_in_one_shard() {
    two_overlap::<1>(PATIENT, 2);
    two_overlap::<1>(STARVING, 2);
}

#[test]
fn two_overlap_in_two_shards() {
    two_overlap::<2>(PATIENT, 1);
    two_overlap::<2>(STARVING, 2);
}

/// A wide range and narrow ones.
#[test]
fn one_is_wide_and_the_others_narrow() {
    in_both_windows(2, |window| {
        let guarded = Guarded::<2, 1>::new(window);
        let other = spawn(&guarded, |guarded| guarded.lock(ALL, Exclusive));
        guarded.lock((0, 1), Exclusive);
        guarded.lock((3, 4), Exclusive);
        other.join().unwrap();
        guarded.assert_done([2, 1, 1, 2]);
    });
}

/// What was done under a wide range is seen by a thread that takes one of its keys, also if another
/// thread found the wide one gone.
#[test]
fn a_wide_range_is_seen_gone_by_two() {
    check(1, || {
        let guarded = Guarded::<2, 1>::new(PATIENT);
        let others = [
            spawn(&guarded, |guarded| guarded.lock(ALL, Exclusive)),
            spawn(&guarded, |guarded| guarded.lock((0, 1), Exclusive)),
        ];
        guarded.lock((1, 2), Exclusive);
        join(others);
        guarded.assert_done([2, 2, 1, 1]);
    });
}

/// Two wait for one, each for a part of its range. (Two that spin for the same word could take
/// turns for ever, as loom sees it; so this one is first.)
fn two_wait_for_one<const SHARDS: usize>(window: Duration, preemptions: usize) {
    check(preemptions, move || {
        let guarded = Guarded::<SHARDS, 1>::new(window);
        let held = guarded.hold((1, 3), Exclusive);
        let others = [
            spawn(&guarded, |guarded| guarded.lock((0, 2), Exclusive)),
            spawn(&guarded, |guarded| guarded.lock((1, 4), Exclusive)),
        ];
        guarded.work((1, 3), Exclusive);
        drop(held);
        join(others);
        guarded.assert_done([1, 3, 2, 1]);
    });
}

#[test]
fn two_wait_for_one_and_for_each_other() {
    two_wait_for_one::<1>(PATIENT, 1);
    two_wait_for_one::<1>(STARVING, 1);
}

#[test]
fn a_wide_one_and_a_narrow_one_wait_for_one() {
    two_wait_for_one::<2>(PATIENT, 1);
    two_wait_for_one::<2>(STARVING, 1);
}

/// Sharing holders do not wait for each other, and a thread that wants the range alone gets it from
/// the last of them.
#[test]
fn readers_and_a_writer() {
    in_both_windows(1, |window| {
        let guarded = Guarded::<1, 2>::new(window);
        let held = guarded.hold((0, 2), Shared);
        let writer = spawn(&guarded, |guarded| guarded.lock((1, 3), Exclusive));
        let reader = spawn(&guarded, |guarded| guarded.lock((1, 2), Shared));
        guarded.work((0, 2), Shared);
        drop(held);
        writer.join().unwrap();
        reader.join().unwrap();
        guarded.assert_done([0, 1, 1, 0]);
    });
}

/// The second range is on the heap; its slots go as soon as they are free, while the other thread
/// looks at them.
#[test]
fn the_second_range_of_a_shard_is_on_the_heap() {
    in_both_windows(1, |window| {
        let guarded = Guarded::<1, 1>::new(window);
        let other = spawn(&guarded, |guarded| guarded.lock((1, 3), Exclusive));
        let low = guarded.hold((0, 1), Exclusive);
        let high = guarded.hold((2, 3), Exclusive);
        guarded.work((0, 1), Exclusive);
        guarded.work((2, 3), Exclusive);
        drop(low);
        drop(high);
        guarded.lock((0, 4), Exclusive);
        other.join().unwrap();
        guarded.assert_done([2, 2, 3, 1]);
        assert_eq!(guarded.lock.statistics().spilled, 0, "the heap's slots were given back");
    });
}

/// A thread gives up while the range is released or handed to it: it has the range or leaves
/// nothing behind.
#[test]
fn one_gives_up_while_the_range_is_released() {
    in_both_windows(3, |window| {
        let guarded = Guarded::<1, 1>::new(window);
        let held = guarded.hold((1, 2), Exclusive);
        let other = spawn(&guarded, |guarded| u32::from(guarded.lock_soon((0, 2), Exclusive)));
        guarded.work((1, 2), Exclusive);
        drop(held);
        let acquired = other.join().unwrap();
        guarded.assert_done([acquired, 1 + acquired, 0, 0]);
    });
}

/// A waiter that gives up lets the waiters behind it go on.
#[test]
fn a_waiter_behind_one_that_gives_up_goes_on() {
    in_both_windows(1, |window| {
        let guarded = Guarded::<1, 2>::new(window);
        let held = guarded.hold((0, 1), Exclusive);
        // Wants what is held and what is not.
        let first = spawn(&guarded, |guarded| u32::from(guarded.lock_soon((0, 3), Exclusive)));
        // Strangers of the holder.
        let second = spawn(&guarded, |guarded| guarded.lock((2, 3), Exclusive));
        second.join().unwrap();
        guarded.work((0, 1), Exclusive);
        drop(held);
        let acquired = first.join().unwrap();
        guarded.assert_done([1 + acquired, acquired, 1 + acquired, 0]);
    });
}

/// Two want the same ranges, named in different orders, over two shards.
#[test]
fn two_want_the_same_set_in_different_orders() {
    in_both_windows(2, |window| {
        let guarded = Guarded::<2, 1>::new(window);
        let both = |guarded: &Guarded<2, 1>, keys: [Keys; 2]| {
            let held = guarded.lock.lock_many(set(keys)).unwrap();
            for keys in keys {
                guarded.work(keys, Exclusive);
            }
            drop(held);
        };
        let other = spawn(&guarded, move |guarded| both(guarded, [(3, 4), (0, 1)]));
        both(&guarded, [(0, 1), (3, 4)]);
        guarded.lock((0, 1), Exclusive);
        other.join().unwrap();
        guarded.assert_done([3, 0, 0, 2]);
    });
}

/// A third comes while one holds and one waits, and wants something of the waiter's that is free.
fn one_comes_later<const SHARDS: usize>(preemptions: usize) {
    check(preemptions, move || {
        let guarded = Guarded::<SHARDS, 2>::new(STARVING);
        let held = guarded.hold((0, 1), Exclusive);
        let waiter = spawn(&guarded, |guarded| guarded.lock((0, 3), Exclusive));
        let later = spawn(&guarded, |guarded| u32::from(guarded.try_lock((2, 3), Exclusive)));
        guarded.work((0, 1), Exclusive);
        drop(held);
        waiter.join().unwrap();
        let acquired = later.join().unwrap();
        guarded.assert_done([2, 1, 1 + acquired, 0]);
    });
}

#[test]
fn one_comes_while_shards_are_closed() {
    one_comes_later::<1>(2);
    one_comes_later::<2>(1);
}

/// An owner that is waited for takes more of what the waiter wants: it does not queue behind a
/// thread that waits for it.
#[test]
fn an_owner_does_not_queue_behind_a_waiter_for_it() {
    in_both_windows(2, |window| {
        let guarded = Guarded::<1, 4>::new(window);
        let mut owner: Owner<'_, u64, 1, 4> = guarded.lock.owner();
        owner.lock_shared(0..1).unwrap();
        let waiter = spawn(&guarded, |guarded| guarded.lock((0, 3), Exclusive));
        owner.lock(2..3).unwrap();
        guarded.work((2, 3), Exclusive);
        owner.lock(0..2).unwrap();
        guarded.work((0, 2), Exclusive);
        owner.release(0..1).unwrap();
        owner.release_all();
        waiter.join().unwrap();
        drop(owner);
        guarded.assert_done([2, 2, 2, 0]);
    });
}

/// The most slots on the heap are held: the next range is refused, not lost, and no waiter is
/// forgotten.
#[test]
fn a_thread_that_finds_no_room_gets_an_error() {
    in_both_windows(2, |window| {
        let options = Options::new().block_log2(0).window(window).spill_max(0);
        let guarded = Guarded::<1, 1>::with(options);
        let other = spawn(&guarded, |guarded| match guarded.lock.lock(1..3) {
            Ok(held) => {
                guarded.work((1, 3), Exclusive);
                drop(held);
                1
            }
            Err(error) => {
                assert_eq!(error, LockError::TooMany { limit: 0 });
                0
            }
        });
        let held = guarded.lock.lock(0..1);
        let acquired = match held {
            Ok(held) => {
                guarded.work((0, 1), Exclusive);
                drop(held);
                1
            }
            Err(error) => {
                assert_eq!(error, LockError::TooMany { limit: 0 });
                0
            }
        };
        let other_acquired = other.join().unwrap();
        assert!(acquired + other_acquired > 0, "there is room for one");
        guarded.assert_done([acquired, other_acquired, other_acquired, 0]);
    });
}

/// Loom finds what these tests look for: a lock that lets two in, and a lock that forgets a waiter.
#[test]
#[should_panic(expected = "Causality violation")]
fn two_holders_would_be_found() {
    check(1, || {
        let guarded = Guarded::<1, 1>::new(PATIENT);
        let other = spawn(&guarded, |guarded| guarded.lock((1, 3), Shared));
        let held = guarded.hold((1, 3), Shared);
        // A thread that only shares writes.
        guarded.work((1, 3), Exclusive);
        drop(held);
        other.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_waiter_that_is_forgotten_would_be_found() {
    check(1, || {
        // The standard library's: loom's own cannot be dropped once an execution has failed.
        let lock = std::sync::Arc::new(RangeLock::<u64, 1, 1>::with(Options::new().window(PATIENT)));
        std::mem::forget(lock.lock(1..3));
        let waiter = thread::spawn({
            let lock = std::sync::Arc::clone(&lock);
            move || lock.lock(2..4).is_ok()
        });
        // Never released.
        waiter.join().unwrap();
    });
}
