//! No thread uses a key that another one has, by whatever way the default range lock was asked for
//! it; also while a thread that cannot be outranked takes the CPUs away from holders and waiters.
//!
//! Each key has a word that tells how it is used, and a number that nothing but the lock protects.
//! Threads take ranges of all kinds in all ways, change what they hold, use it, and give it back.
//! How long that goes on decides how much is tried, and nothing else.

#[path = "common/hog.rs"]
mod hog;

use fastrand::Rng;
use hog::beside_a_hog;
use manx::range::{Access, LockError, ManyGuard, Options, RangeGuard, RangeLock, Span, SpanSet, task};
use platform::cell::UnsafeCell;
use platform::futex::Deadline;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testing::full;
use testing::future::block_on;

const KEYS: u64 = 64;

/// A key: how many read it, or -1 if a thread writes it, and how often it was written.
struct Key {
    users: AtomicI64,
    written: UnsafeCell<u64>,
}

struct Guarded<const SHARDS: usize, const SLOTS: usize> {
    lock: RangeLock<u64, SHARDS, SLOTS>,
    keys: Vec<Key>,
    /// Some hold ranges while they wait for others. Then sets are not waited for without an end: a
    /// thread that waits for ranges that lie apart, and for both at once, can be part of a circle
    /// though all lock in the order of keys.
    owners: bool,
}

// SAFETY: that a key is used by its holders only is what this is about; it has plain numbers only,
// so that a lock that fails makes them wrong and nothing else.
unsafe impl<const SHARDS: usize, const SLOTS: usize> Sync for Guarded<SHARDS, SLOTS> {}

/// Random, adjacent, touching, open, single keys, and now and then all of them.
fn draw_span(draw: &mut Rng) -> Span<u64> {
    let key = draw.u64(..KEYS);
    let few = |first: u64, end: u64| Span::new(first, end).expect("it has a key");
    match draw.u64(..32) {
        0 => Span::all(),
        1 => Span::from(key),
        2 => Span::to(key + 1),
        3..8 => Span::point(key),
        8..14 => few(key / 8 * 8, key / 8 * 8 + 8),
        14..18 => few(key / 8 * 8 + 7, key / 8 * 8 + 9),
        _ => few(key, key + 1 + draw.u64(..6)),
    }
}

fn draw_access(draw: &mut Rng) -> Access {
    if draw.u64(..3) == 0 { Access::Shared } else { Access::Exclusive }
}

type Guard<'a, const SHARDS: usize, const SLOTS: usize> = RangeGuard<'a, u64, SHARDS, SLOTS>;

impl<const SHARDS: usize, const SLOTS: usize> Guarded<SHARDS, SLOTS> {
    /// Uses keys that are held, for some `rounds`; returns how many were written.
    fn work(&self, span: &Span<u64>, access: Access, rounds: u64) -> u64 {
        let keys = || self.keys.iter().zip(0..).filter(|(_, key)| span.contains(key));
        let mut written = 0;
        for (key, number) in keys() {
            // Relaxed, here and below: an order of memory is what the lock has to bring.
            match access {
                Access::Exclusive => {
                    assert_eq!(
                        key.users.swap(-1, Ordering::Relaxed),
                        0,
                        "{number} in {span} has another user"
                    );
                    // SAFETY: the caller holds the key.
                    key.written.with_mut(|written| unsafe { *written += 1 });
                    written += 1;
                }
                Access::Shared => {
                    assert!(key.users.fetch_add(1, Ordering::Relaxed) >= 0, "{number} in {span} is written");
                }
            }
        }
        (0..rounds).for_each(|_| platform::cpu::pause());
        for (key, number) in keys() {
            let before = match access {
                Access::Exclusive => key.users.swap(0, Ordering::Relaxed) == -1,
                Access::Shared => key.users.fetch_sub(1, Ordering::Relaxed) > 0,
            };
            assert!(before, "{number} in {span} was taken away");
        }
        written
    }

    fn use_guard(&self, guard: &Guard<'_, SHARDS, SLOTS>, draw: &mut Rng) -> u64 {
        self.work(guard.span(), guard.access(), draw.u64(..40))
    }

    fn use_set(&self, guard: &ManyGuard<'_, u64, SHARDS, SLOTS>, access: Access) -> u64 {
        guard.spans().iter().map(|span| self.work(span, access, 5)).sum()
    }

    /// One range, in one of the ways to have one.
    fn take(&self, draw: &mut Rng) -> Option<Guard<'_, SHARDS, SLOTS>> {
        let (span, access) = (draw_span(draw), draw_access(draw));
        match draw.u64(..8) {
            0 => self.lock.try_lock_as(span, access).ok(),
            1 => {
                let deadline = Deadline::after(Duration::from_micros(draw.u64(..200)));
                let answer = self.lock.lock_by_deadline(span, access, Some(deadline));
                assert!(answer.is_ok() || matches!(answer, Err(LockError::TimedOut)));
                answer.ok()
            }
            2 => Some(block_on(self.lock.lock_async(span, access)).expect("in the end")),
            _ => Some(self.lock.lock_as(span, access).expect("in the end")),
        }
    }

    /// Takes something, changes it, uses it, and gives it back; returns how many keys were written.
    fn turn(&self, draw: &mut Rng) -> u64 {
        match draw.u64(..8) {
            0 => {
                let set =
                    SpanSet::merged((0..1 + draw.u64(..4)).map(|_| draw_span(draw))).expect("it has members");
                let access = draw_access(draw);
                let guard = self.lock.lock_many_as(set, access).expect("there is no deadline");
                self.use_set(&guard, access)
            }
            1 if self.owners && draw.u64(..3) == 0 => self.as_task(draw),
            1 if self.owners => self.as_owner(draw),
            2..5 => {
                let Some(guard) = self.take(draw) else { return 0 };
                let written = self.use_guard(&guard, draw);
                written + self.changed(guard, draw)
            }
            _ => self.take(draw).map_or(0, |guard| self.use_guard(&guard, draw)),
        }
    }

    fn changed(&self, guard: Guard<'_, SHARDS, SLOTS>, draw: &mut Rng) -> u64 {
        let changed = match draw.u64(..4) {
            0 => match guard.split_at(draw.u64(..KEYS)) {
                Ok((low, high)) => {
                    let written = self.use_guard(&low, draw);
                    drop(low);
                    return written + self.use_guard(&high, draw);
                }
                Err(unchanged) => Err(unchanged),
            },
            1 => guard.shrink(draw_span(draw)),
            2 => guard.downgrade(),
            _ => guard.upgrade(),
        };
        let guard = changed.unwrap_or_else(|unchanged| unchanged.guard);
        self.use_guard(&guard, draw)
    }

    /// Locks in the order of keys, as a task; alone, or it could share keys with another holder
    /// that upgrades a range with the next ones.
    fn as_task(&self, draw: &mut Rng) -> u64 {
        block_on(task(async {
            let (mut written, mut held) = (0, Vec::new());
            let mut key = draw.u64(..KEYS);
            for _ in 0..1 + draw.u64(..4) {
                let span = Span::new(key, key + 1 + draw.u64(..4)).expect("it has a key");
                key += 5 + draw.u64(..3);
                let guard = self.lock.lock_async(span, Access::Exclusive).await.expect("in the end");
                written += self.use_guard(&guard, draw);
                held.push(guard);
            }
            written
        }))
    }

    /// Locks in the order of keys, gives parts back, and tries some more.
    fn as_owner(&self, draw: &mut Rng) -> u64 {
        let mut owner = self.lock.owner();
        let mut key = draw.u64(..KEYS);
        for _ in 0..1 + draw.u64(..4) {
            let end = key + 1 + draw.u64(..4);
            match draw.u64(..2) {
                0 => owner.lock(key..end).expect("in the end"),
                _ => block_on(owner.lock_async(key..end)).expect("in the end"),
            }
            key = end + draw.u64(..3);
        }
        // Fails often; what is held is held.
        let _ = owner.try_lock_as(draw_span(draw), Access::Exclusive);
        let _ = owner.release(draw_span(draw));
        owner.escalate();
        // Of what it holds twice it uses all at once.
        let set = SpanSet::merged(owner.held().map(|(span, _)| span.clone()));
        set.map_or(0, |set| set.spans().iter().map(|span| self.work(span, Access::Exclusive, 5)).sum())
    }
}

fn holders_are_alone<const SHARDS: usize, const SLOTS: usize>(
    options: Options,
    threads: u64,
    time: Duration,
) {
    for owners in [false, true] {
        holders_are_alone_beside::<SHARDS, SLOTS>(owners, options, threads, time / 2);
    }
}

fn holders_are_alone_beside<const SHARDS: usize, const SLOTS: usize>(
    owners: bool,
    options: Options,
    threads: u64,
    time: Duration,
) {
    let key = || Key { users: AtomicI64::new(0), written: UnsafeCell::new(0) };
    let guarded = Guarded::<SHARDS, SLOTS> {
        lock: RangeLock::with(options),
        keys: (0..KEYS).map(|_| key()).collect(),
        owners,
    };
    let until = Instant::now() + time;
    let written: u64 = thread::scope(|scope| {
        let guarded = &guarded;
        let run = |me: u64| {
            move || {
                let mut draw = Rng::with_seed(me);
                let mut written = 0;
                while Instant::now() < until {
                    written += guarded.turn(&mut draw);
                }
                written
            }
        };
        let running: Vec<_> = (1..=threads).map(|me| scope.spawn(run(me))).collect();
        running.into_iter().map(|thread| thread.join().expect("alone with its keys")).sum()
    });
    // SAFETY: all others have ended.
    let found: u64 = guarded.keys.iter().map(|key| key.written.with(|written| unsafe { *written })).sum();
    assert_eq!(found, written, "a write was lost");
    let dump = guarded.lock.dump();
    assert!(dump.held.is_empty() && dump.waiting.is_empty(), "{dump}");
    for key in 0..KEYS {
        assert!(guarded.lock.try_lock(key..key + 1).is_ok(), "{key} is closed");
    }
    assert!(guarded.lock.try_lock(..).is_ok());
}

/// All sizes and windows, with `threads` threads each.
fn all_locks(threads: u64) {
    let time = if full() { Duration::from_secs(12) } else { Duration::from_millis(250) };
    let small = Options::new().block_log2(1);
    holders_are_alone::<1, 1>(small, threads, time);
    holders_are_alone::<4, 1>(small.window(Duration::ZERO), threads, time);
    holders_are_alone::<16, 2>(small.window(Duration::MAX), threads, time);
    holders_are_alone::<64, 8>(Options::new(), threads, time);
    holders_are_alone::<64, 8>(small.recorded(), threads, time);
}

#[test]
fn eight_threads_are_alone_with_their_keys() {
    all_locks(8);
}

#[test]
fn thirty_two_threads_are_alone_with_their_keys() {
    all_locks(32);
}

#[test]
fn threads_are_alone_with_their_keys_while_cpus_are_taken_away() {
    beside_a_hog(|| all_locks(8));
}
