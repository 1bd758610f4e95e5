//! The default range lock under randomized schedules: more threads, more ranges and more ways to
//! ask than loom can try.
//!
//! Each key has a cell that reports two threads that use it at once. Locks are small, so that
//! ranges are wide, in several shards or on the heap; the window of an execution is drawn, from
//! none to one without an end. Clocks jump and waits end early or are interrupted, as chance has
//! it. In the end no range is held, no thread waits, and nothing is closed. Shuttle models
//! sequentially consistent memory only; the orderings are loom's business
//! (`twins/loom/manx/tests`).

#[path = "../../../loom/manx/tests/common/block_on.rs"]
mod block_on;
mod common;

use Access::{Exclusive, Shared};
use block_on::{Flag, block_on};
use common::together;
use manx_shuttle::range::{
    Access, LockError, LockFuture, Options, RangeGuard, RangeLock, Span, SpanSet, task,
};
use platform::cell::UnsafeCell;
use platform::clock;
use platform::explore::check;
use platform::futex::{Clock, Deadline};
use platform::site;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const THREADS: u32 = 4;
const ROUNDS: u32 = 3;
const KEYS: u64 = 8;

/// Keys, and a lock of them.
struct Guarded<const SHARDS: usize, const SLOTS: usize> {
    lock: RangeLock<u64, SHARDS, SLOTS>,
    keys: [UnsafeCell<u32>; KEYS as usize],
    written: AtomicU32,
}

// SAFETY: keys are used by their holders; a cell reports it if that is not enough.
unsafe impl<const SHARDS: usize, const SLOTS: usize> Sync for Guarded<SHARDS, SLOTS> {}
// SAFETY: as above.
unsafe impl<const SHARDS: usize, const SLOTS: usize> Send for Guarded<SHARDS, SLOTS> {}

type Guard<'a, const SHARDS: usize, const SLOTS: usize> = RangeGuard<'a, u64, SHARDS, SLOTS>;

fn draw(below: u64) -> u64 {
    thread_rng().gen_range(0..below)
}

fn coin() -> bool {
    draw(2) == 0
}

fn access() -> Access {
    if coin() { Exclusive } else { Shared }
}

/// A few keys, one, or all of them.
fn span() -> Span<u64> {
    let (one, other) = (draw(KEYS), draw(KEYS));
    match draw(8) {
        0 => Span::all(),
        1 => Span::from(one),
        2 => Span::to(one + 1),
        3 => Span::point(one),
        _ => Span::new(one.min(other), one.max(other) + 1).expect("it has a key"),
    }
}

impl<const SHARDS: usize, const SLOTS: usize> Guarded<SHARDS, SLOTS> {
    fn new() -> Arc<Self> {
        Guarded::with(Options::new())
    }

    /// With blocks of one or two keys, and a window that is drawn.
    fn with(options: Options) -> Arc<Self> {
        let window_ns = [0, 20_000, 200_000, u64::MAX][draw(4) as usize];
        let options = options.block_log2(draw(2) as u32).window(Duration::from_nanos(window_ns));
        let keys = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Guarded { lock: RangeLock::with(options), keys, written: AtomicU32::new(0) })
    }

    /// Works with keys that are held.
    fn work(&self, span: &Span<u64>, access: Access) {
        for (key, cell) in (0..).zip(&self.keys).filter(|(key, _)| span.contains(key)) {
            match access {
                Exclusive => {
                    // SAFETY: held alone.
                    cell.with_mut(|number| unsafe { *number += 1 });
                    self.written.fetch_add(1, Ordering::Relaxed);
                }
                // SAFETY: held by readers.
                Shared => assert!(cell.with(|number| unsafe { *number }) < 1_000_000, "{key}"),
            }
        }
    }

    fn use_up(&self, guard: Guard<'_, SHARDS, SLOTS>) {
        self.work(guard.span(), guard.access());
        drop(guard);
    }

    fn deadline() -> Option<Deadline> {
        Some(Deadline { clock: Clock::Monotonic, ns: clock::now_ns() + draw(100_000) })
    }

    /// Takes a range in one of the ways there are, if it can be had.
    fn take(&self) -> Option<Guard<'_, SHARDS, SLOTS>> {
        let (span, access) = (span(), access());
        match draw(4) {
            0 => self.lock.try_lock_as(span, access).ok(),
            1 => match self.lock.lock_by_deadline(span, access, Self::deadline()) {
                Ok(guard) => Some(guard),
                Err(error) => {
                    assert_eq!(error, LockError::TimedOut);
                    None
                }
            },
            _ => Some(self.lock.lock_as(span, access).expect("nothing but time is in the way")),
        }
    }

    /// Takes ranges of all kinds in all ways, one at a time.
    fn take_turns(&self) {
        for _ in 0..ROUNDS {
            self.take().into_iter().for_each(|guard| self.use_up(guard));
        }
    }

    /// Nothing is left behind.
    fn assert_done(&self) {
        let dump = self.lock.dump();
        assert!(dump.held.is_empty() && dump.waiting.is_empty(), "{dump}");
        for key in 0..KEYS {
            assert!(self.lock.try_lock_as(Span::point(key), Exclusive).is_ok(), "{key} is closed");
        }
        let all = self.lock.try_lock(..).expect("nobody holds a key");
        // SAFETY: all are held.
        let found: u32 = self.keys.iter().map(|key| key.with(|number| unsafe { *number })).sum();
        drop(all);
        assert_eq!(found, self.written.load(Ordering::Relaxed));
        let statistics = self.lock.statistics();
        assert!(statistics.handed_over + statistics.given_up <= statistics.waits, "{statistics}");
        assert_eq!(statistics.waiting, 0);
    }
}

/// What threads do, by their numbers, with keys that they share; in the end nothing is left behind.
fn all_do<const SHARDS: usize, const SLOTS: usize>(
    run: impl Fn(&Guarded<SHARDS, SLOTS>, u32) + Send + Sync + Copy + 'static,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let guarded = Guarded::new();
        together(THREADS, &guarded, run);
        guarded.assert_done();
    }
}

#[test]
fn holders_are_alone_with_their_keys() {
    check(site!(), all_do::<4, 1>(|guarded, _| guarded.take_turns()));
}

#[test]
fn holders_in_one_shard_are_alone_with_their_keys() {
    check(site!(), all_do::<1, 2>(|guarded, _| guarded.take_turns()));
}

/// Each holds several at once, what it takes beside the first without waiting, and gives them back
/// in any order.
#[test]
fn several_at_once() {
    let run = all_do::<2, 1>(|guarded, _| {
        for _ in 0..ROUNDS {
            let mut held: Vec<_> = guarded.take().into_iter().collect();
            for _ in 0..3 {
                held.extend(guarded.lock.try_lock_as(span(), access()));
            }
            while !held.is_empty() {
                guarded.use_up(held.swap_remove(draw(held.len() as u64) as usize));
            }
        }
    });
    check(site!(), run);
}

/// Changes a guard in one of the ways there are.
fn changed<'a, const SHARDS: usize, const SLOTS: usize>(
    guarded: &Guarded<SHARDS, SLOTS>,
    guard: Guard<'a, SHARDS, SLOTS>,
) -> Vec<Guard<'a, SHARDS, SLOTS>> {
    let before = (guard.span().clone(), guard.access());
    let result = match draw(4) {
        0 => match guard.split_at(draw(KEYS)) {
            Ok((low, high)) => return vec![low, high],
            Err(unchanged) => Err(unchanged),
        },
        1 => guard.shrink(span()),
        2 => guard.downgrade(),
        _ => guard.upgrade(),
    };
    match result {
        Ok(guard) => vec![guard],
        Err(unchanged) => {
            let guard = unchanged.guard;
            assert_eq!((guard.span().clone(), guard.access()), before, "it holds what it held");
            guarded.work(guard.span(), guard.access());
            vec![guard]
        }
    }
}

/// Guards are cut, made smaller, shared and had alone while others wait for parts of them.
#[test]
fn guards_change_while_others_wait() {
    let run = all_do::<4, 1>(|guarded, number| {
        for _ in 0..ROUNDS {
            let Some(guard) = guarded.take() else { continue };
            if number % 2 == 0 {
                guarded.use_up(guard);
                continue;
            }
            guarded.work(guard.span(), guard.access());
            let mut parts = changed(guarded, guard);
            // A thread that upgrades holds one range only: otherwise two could wait for each
            // other's second.
            if parts.len() == 1 {
                parts = parts.into_iter().flat_map(|part| changed(guarded, part)).collect();
            }
            parts.into_iter().for_each(|part| guarded.use_up(part));
        }
    });
    check(site!(), run);
}

/// Sets of ranges, and ranges, by threads that hold nothing else.
#[test]
fn sets_are_all_or_nothing() {
    let run = all_do::<4, 1>(|guarded, number| {
        for _ in 0..ROUNDS {
            if number == 0 {
                guarded.take().into_iter().for_each(|guard| guarded.use_up(guard));
                continue;
            }
            let set = SpanSet::merged([span(), Span::point(draw(KEYS)), Span::point(draw(KEYS))]).unwrap();
            let access = access();
            let held = match draw(3) {
                0 => guarded.lock.try_lock_many(set, access).ok(),
                1 => guarded.lock.lock_many_by_deadline(set, access, Guarded::<4, 1>::deadline()).ok(),
                _ => Some(guarded.lock.lock_many_as(set, access).expect("all of them, in the end")),
            };
            if let Some(held) = held {
                held.spans().iter().for_each(|span| guarded.work(span, access));
            }
        }
    });
    check(site!(), run);
}

/// Owners lock ascending keys, some of them again, and give parts back; others want ranges that
/// overlap several of theirs. No owner queues behind a thread that waits for it, so the order of
/// keys is enough.
#[test]
fn owners_lock_in_the_order_of_keys() {
    let run = all_do::<4, 1>(|guarded, number| {
        if number == 0 {
            return guarded.take_turns();
        }
        let mut owner = guarded.lock.owner();
        let mut key = draw(3);
        while key < KEYS {
            let end = (key + 1 + draw(3)).min(KEYS);
            let span = Span::new(key, end).unwrap();
            owner.lock_as(span.clone(), Exclusive).expect("nobody locks downwards");
            guarded.work(&span, Exclusive);
            // Again, and shared: both count.
            owner.try_lock_shared(key..end).expect("its own");
            match draw(4) {
                0 => owner.release(key..key + 1).expect("held"),
                1 => owner.unlock(key..end).expect("held"),
                2 => drop(owner.escalate()),
                _ => {}
            }
            key = end + draw(2);
        }
        if coin() {
            owner.release_all();
            assert_eq!(owner.held().count(), 0);
        }
    });
    check(site!(), run);
}

type Task<'a, const SHARDS: usize, const SLOTS: usize> = Pin<Box<LockFuture<'a, u64, SHARDS, SLOTS>>>;

/// Two tasks in each thread are polled whenever one was woken, and now and then one is dropped
/// instead.
#[test]
fn tasks_wait_and_are_cancelled() {
    let run = all_do::<4, 1>(|guarded, number| {
        if number == 0 {
            return guarded.take_turns();
        }
        let flag = Flag::new();
        let waker = Waker::from(std::sync::Arc::clone(&flag));
        let mut context = Context::from_waker(&waker);
        let mut begun = 0;
        let mut tasks: Vec<Task<'_, 4, 1>> = Vec::new();
        loop {
            while tasks.len() < 2 && begun < ROUNDS {
                begun += 1;
                tasks.push(Box::pin(guarded.lock.lock_async(span(), access())));
            }
            if tasks.is_empty() {
                return;
            }
            let before = tasks.len();
            tasks.retain_mut(|task| match task.as_mut().poll(&mut context) {
                Poll::Ready(guard) => {
                    guarded.use_up(guard.expect("nothing but time is in the way"));
                    false
                }
                Poll::Pending => draw(4) != 0,
            });
            if tasks.len() == before {
                flag.wait();
            }
        }
    });
    check(site!(), run);
}

/// A future that is given up if it is not done by the first poll, or, as chance has it, at all.
async fn perhaps<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let gives_up = draw(3) == 0;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if gives_up => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Tasks and owners lock ascending keys without a thread, and give up some of their waits; others
/// want ranges that overlap several of theirs, or two that lie apart. No task queues behind a
/// waiter that waits for it, so the order of keys is enough.
#[test]
fn tasks_lock_in_the_order_of_keys() {
    let run = all_do::<4, 1>(|guarded, number| {
        if number == 0 {
            for _ in 0..ROUNDS {
                guarded.take().into_iter().for_each(|guard| guarded.use_up(guard));
                let set = SpanSet::merged([Span::point(draw(KEYS)), Span::point(draw(KEYS))]).unwrap();
                drop(guarded.lock.lock_many(set).expect("both of them, in the end"));
            }
            return;
        }
        block_on(task(async {
            let mut owner = coin().then(|| guarded.lock.owner());
            let mut guards = Vec::new();
            let mut key = draw(3);
            while key < KEYS {
                let end = (key + 1 + draw(3)).min(KEYS);
                let span = Span::new(key, end).unwrap();
                let answer = match &mut owner {
                    Some(owner) => perhaps(owner.lock_as_async(span.clone(), Exclusive)).await,
                    None => perhaps(guarded.lock.lock_async(span.clone(), Exclusive))
                        .await
                        .map(|answer| answer.map(|guard| guards.push(guard))),
                };
                if let Some(answer) = answer {
                    answer.expect("nobody locks downwards");
                    guarded.work(&span, Exclusive);
                }
                key = end + draw(2);
            }
        }));
    });
    check(site!(), run);
}

/// Few may be held. A refused thread is told so, and no waiter is forgotten.
#[test]
fn there_is_room_for_few() {
    check(site!(), || {
        let guarded = Guarded::<2, 1>::with(Options::new().spill_max(8));
        together(THREADS, &guarded, |guarded, _| {
            let mut held = Vec::new();
            for _ in 0..ROUNDS {
                match guarded.lock.try_lock_as(span(), access()) {
                    Ok(guard) => held.push(guard),
                    Err(error) => assert!(
                        matches!(error, LockError::WouldBlock | LockError::TooMany { limit: 8 }),
                        "{error}"
                    ),
                }
            }
            held.into_iter().for_each(|guard| guarded.use_up(guard));
            match guarded.lock.lock_as(span(), access()) {
                Ok(guard) => guarded.use_up(guard),
                Err(error) => assert_eq!(error, LockError::TooMany { limit: 8 }),
            }
        });
        guarded.assert_done();
        let statistics = guarded.lock.statistics();
        assert!(statistics.spilled <= 8, "{statistics}");
    });
}

/// Shuttle finds what these tests look for: two with the same keys.
#[test]
#[should_panic]
fn two_holders_would_be_found() {
    check(site!(), || {
        let guarded = Guarded::<1, 1>::new();
        together(2, &guarded, |guarded, _| {
            let guard = guarded.lock.lock_shared(2..4).unwrap();
            // A thread that only shares writes.
            guarded.work(guard.span(), Exclusive);
        });
    });
}
