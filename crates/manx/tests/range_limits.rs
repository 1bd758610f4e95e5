//! Waits with a limit: they end, they take nothing away, and they are as good as any other wait
//! until then.
//!
//! Nothing here depends on how fast a thread is. A limit that is to end is on what is never
//! released before. A limit that is not to end is ten minutes away, with the lock's dump to tell
//! that a thread waits.

#[path = "common/free.rs"]
mod free;

use free::assert_free;
use manx::range::{
    Access, InvalidRange, LockError, ManyGuard, Options, Owner, RangeGuard, RangeLock, Span, SpanSet,
};
use platform::futex::Deadline;
use std::thread;
use std::time::{Duration, Instant};
use testing::until;

type Lock = RangeLock<u64, 8, 2>;

/// Keys are blocks, so that there are ranges within one shard, over several, and wide ones.
const SMALL: Options = Options::new().block_log2(0);
/// No waiter may be overtaken, or every one for ever.
const WINDOWS: [Options; 2] = [SMALL.window(Duration::ZERO), SMALL.window(Duration::MAX)];
/// Within a block, over several, and wide.
const WIDTHS: [u64; 3] = [1, 4, 50];

const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(600);

/// What is held, in whatever way it was asked for.
#[derive(Debug)]
enum Got<'a> {
    One(#[expect(dead_code, reason = "held")] RangeGuard<'a, u64, 8, 2>),
    Many(#[expect(dead_code, reason = "held")] ManyGuard<'a, u64, 8, 2>),
    Owned(#[expect(dead_code, reason = "held")] Owner<'a, u64, 8, 2>),
}

type Ask = for<'a> fn(&'a Lock, Span<u64>, Duration) -> Result<Got<'a>, LockError>;

fn set(span: Span<u64>) -> SpanSet<u64> {
    // And a range that no holder is in the way of.
    SpanSet::disjoint([span, Span::point(1000)]).unwrap()
}

fn owned<'a>(
    lock: &'a Lock,
    ask: impl FnOnce(&mut Owner<'a, u64, 8, 2>) -> Result<(), LockError>,
) -> Result<Got<'a>, LockError> {
    let mut owner = lock.owner();
    owner.lock(2000..2001)?;
    let answer = ask(&mut owner);
    assert_eq!(owner.held().count(), 1 + usize::from(answer.is_ok()), "it has what it had");
    answer.map(|()| Got::Owned(owner))
}

/// All ways to ask for a range alone.
const ALONE: [Ask; 8] = [
    |lock, span, limit| lock.lock_timeout(span, limit).map(Got::One),
    |lock, span, limit| lock.lock_until(span, Instant::now() + limit).map(Got::One),
    |lock, span, limit| {
        lock.lock_by_deadline(span, Access::Exclusive, Some(Deadline::after(limit))).map(Got::One)
    },
    |lock, span, limit| lock.lock_many_timeout(set(span), Access::Exclusive, limit).map(Got::Many),
    |lock, span, limit| {
        lock.lock_many_until(set(span), Access::Exclusive, Instant::now() + limit).map(Got::Many)
    },
    |lock, span, limit| owned(lock, |owner| owner.lock_timeout(span, limit)),
    |lock, span, limit| owned(lock, |owner| owner.lock_until(span, Instant::now() + limit)),
    // And has alone what it shared before.
    |lock, span, limit| {
        let mut owner = lock.owner();
        owner.lock_shared(Span::point(3000))?;
        owner.lock_timeout(span, limit)?;
        owner.lock_timeout(3000..3001, limit)?;
        Ok(Got::Owned(owner))
    },
];

/// All ways to share one.
const SHARED: [Ask; 6] = [
    |lock, span, limit| lock.lock_shared_timeout(span, limit).map(Got::One),
    |lock, span, limit| lock.lock_shared_until(span, Instant::now() + limit).map(Got::One),
    |lock, span, limit| lock.lock_many_timeout(set(span), Access::Shared, limit).map(Got::Many),
    |lock, span, limit| {
        lock.lock_many_until(set(span), Access::Shared, Instant::now() + limit).map(Got::Many)
    },
    |lock, span, limit| owned(lock, |owner| owner.lock_shared_timeout(span, limit)),
    |lock, span, limit| owned(lock, |owner| owner.lock_shared_until(span, Instant::now() + limit)),
];

fn each(mut test: impl FnMut(Ask, Access, &Lock, Span<u64>)) {
    let asks = ALONE.map(|ask| (ask, Access::Exclusive)).into_iter();
    for (ask, access) in asks.chain(SHARED.map(|ask| (ask, Access::Shared))) {
        for options in WINDOWS {
            for width in WIDTHS {
                test(ask, access, &Lock::with(options), Span::new(3, 3 + width).unwrap());
            }
        }
    }
}

fn until_waiting(lock: &Lock, count: usize) {
    until("waiters", || lock.dump().waiting.len() == count);
}

#[test]
fn a_limit_ends_a_wait_and_not_before() {
    each(|ask, _, lock, span| {
        let held = lock.lock(3..4).unwrap();
        let began = Instant::now();
        assert_eq!(ask(lock, span, SHORT).map(|_| ()), Err(LockError::TimedOut));
        assert!(began.elapsed() >= SHORT, "it gave up early");
        let left = lock.dump();
        assert!(left.held.len() == 1 && left.waiting.is_empty(), "{left}");
        drop(held);
        assert_free(lock);
    });
}

#[test]
fn a_waiter_within_its_limit_is_served() {
    each(|ask, _, lock, span| {
        let held = lock.lock(3..4).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| assert!(ask(lock, span, LONG).is_ok()));
            until_waiting(lock, 1);
            drop(held);
        });
        assert_eq!(lock.statistics().given_up, 0);
        assert_free(lock);
    });
}

/// No time is enough for what is free; for what is not, it is too little.
#[test]
fn without_time_what_is_free_is_had() {
    each(|ask, access, lock, span| {
        drop(ask(lock, span.clone(), Duration::ZERO).expect("it is free"));
        let reader = lock.lock_shared(3..4).unwrap();
        let beside = ask(lock, span.clone(), Duration::ZERO);
        assert_eq!(beside.is_ok(), access == Access::Shared, "{beside:?}");
        drop((beside, reader));
        let held = lock.lock(3..4).unwrap();
        assert_eq!(ask(lock, span.clone(), Duration::ZERO).map(|_| ()), Err(LockError::TimedOut));
        drop(held);
        assert_free(lock);
    });
}

/// A point in time that is over is as no time at all.
#[test]
fn a_point_in_the_past_is_no_time() {
    let lock = Lock::with(SMALL);
    let past = Instant::now();
    while Instant::now() == past {}
    let reader = lock.lock_shared_until(0..9, past).unwrap();
    assert_eq!(lock.lock_until(5..6, past).err(), Some(LockError::TimedOut));
    let reader = reader.upgrade_until(past).unwrap();
    assert_eq!(lock.lock_shared_until(5..6, past).err(), Some(LockError::TimedOut));
    assert_eq!(lock.owner().lock_until(5..6, past), Err(LockError::TimedOut));
    let none = Some(Deadline::after(Duration::ZERO));
    assert_eq!(lock.lock_by_deadline(Span::all(), Access::Shared, none).err(), Some(LockError::TimedOut));
    drop(reader);
    assert_free(&lock);
}

/// Limits that no clock reaches are none.
#[test]
fn a_limit_beyond_all_clocks_is_as_none() {
    let far = {
        let (mut far, mut step) = (Instant::now(), Duration::MAX);
        // As far as such points go.
        while step > Duration::from_secs(1) {
            match far.checked_add(step) {
                Some(farther) => far = farther,
                None => step /= 2,
            }
        }
        far
    };
    let asks: [Ask; 4] = [
        |lock, span, limit| lock.lock_timeout(span, limit).map(Got::One),
        |lock, span, limit| lock.lock_shared_timeout(span, limit).map(Got::One),
        |lock, span, limit| lock.lock_many_timeout(set(span), Access::Shared, limit).map(Got::Many),
        |lock, span, limit| owned(lock, |owner| owner.lock_timeout(span, limit)),
    ];
    for options in WINDOWS {
        let lock = &Lock::with(options);
        for limit in [Duration::MAX, Duration::from_nanos(u64::MAX), Duration::from_secs(i64::MAX as u64)] {
            for ask in asks {
                let held = lock.lock(3..4).unwrap();
                thread::scope(|scope| {
                    scope.spawn(move || assert!(ask(lock, Span::to(9), limit).is_ok()));
                    until_waiting(lock, 1);
                    drop(held);
                });
            }
        }
        let held = lock.lock(3..4).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| lock.lock_until(..9, far).map(drop).unwrap());
            scope.spawn(|| lock.owner().lock_shared_until(..9, far).unwrap());
            scope.spawn(|| lock.lock_many_until(set(Span::to(9)), Access::Exclusive, far).map(drop).unwrap());
            until_waiting(lock, 3);
            drop(held);
        });
        assert_eq!(lock.statistics().given_up, 0);
        assert_free(lock);
    }
}

#[test]
fn an_upgrade_that_takes_too_long_leaves_what_was_shared() {
    for options in WINDOWS {
        for width in WIDTHS {
            let lock = Lock::with(options);
            let mut mine = lock.lock_shared(3..3 + width).unwrap();
            let other = lock.lock_shared(3..4).unwrap();
            for limit in [Duration::ZERO, SHORT] {
                let began = Instant::now();
                let late = mine.upgrade_timeout(limit).unwrap_err();
                assert_eq!(late.error, LockError::TimedOut);
                assert!(began.elapsed() >= limit, "it gave up early");
                let late = late.guard.upgrade_until(Instant::now() + limit).unwrap_err();
                assert_eq!(late.error, LockError::TimedOut);
                mine = late.guard;
                assert_eq!(mine.access(), Access::Shared);
                assert!(lock.try_lock_shared(3..4).is_ok(), "nothing is closed");
                assert_eq!(lock.try_lock(3..4).err(), Some(LockError::WouldBlock));
            }
            drop(other);
            let mine = mine.upgrade_timeout(Duration::ZERO).unwrap();
            assert_eq!(mine.access(), Access::Exclusive);
            assert_eq!(lock.try_lock_shared(3..4).err(), Some(LockError::WouldBlock));
            drop(mine);
            assert_free(&lock);
        }
    }
}

/// Of two that share a range and want it alone, the second gets an error, whether it has time or
/// none.
#[test]
fn the_deadlock_of_upgrades_is_reported_before_the_limit() {
    for limit in [Duration::ZERO, LONG] {
        let lock = Lock::with(SMALL);
        let (one, other) = (lock.lock_shared(0..9).unwrap(), lock.lock_shared(5..20).unwrap());
        thread::scope(|scope| {
            let waits = scope.spawn(|| one.upgrade_timeout(LONG).map(drop).unwrap());
            until_waiting(&lock, 1);
            let stuck = other.upgrade_timeout(limit).unwrap_err();
            assert_eq!(stuck.error, LockError::UpgradeDeadlock);
            drop(stuck);
            waits.join().unwrap();
        });
        assert_free(&lock);
    }
}

/// An invalid range is reported at once; so is a circle, if the lock looks for circles.
#[test]
fn other_errors_come_before_the_limit() {
    let lock = Lock::with(SMALL.detecting_deadlocks());
    let held = lock.lock(3..4).unwrap();
    let inverted = Some(LockError::InvalidRange(InvalidRange::Inverted));
    let (start, end) = (5, 2);
    assert_eq!(lock.lock_timeout(start..end, LONG).err(), inverted);
    assert_eq!(lock.lock_shared_until(start..end, Instant::now()).err(), inverted);
    assert_eq!(lock.owner().lock_timeout(4..4, LONG), Err(LockError::InvalidRange(InvalidRange::Empty)));
    assert!(matches!(lock.lock_timeout(..9, LONG), Err(LockError::Deadlock(_))));
    drop(held);
    assert_free(&lock);
}

/// A waiter that gives up lets the waiters go on that only it was in the way of. Of the waiters
/// behind the others none is lost.
#[test]
fn many_limits_that_end_leave_no_waiter_behind() {
    for options in [SMALL, WINDOWS[0], WINDOWS[1]] {
        let lock = &Lock::with(options);
        thread::scope(|scope| {
            for thread in 0..6_u64 {
                scope.spawn(move || {
                    for turn in 0..300 {
                        let first = (thread * 7 + turn * 3) % 20;
                        let span = Span::new(first, first + 1 + turn % 9).unwrap();
                        // Most of these end in the middle of something.
                        let limit = Duration::from_micros(thread * turn % 90);
                        let asks = if turn % 3 == 0 { &SHARED[..] } else { &ALONE[..2] };
                        match asks[(turn + thread) as usize % asks.len()](lock, span, limit) {
                            Ok(_) => thread::yield_now(),
                            Err(error) => assert_eq!(error, LockError::TimedOut),
                        }
                        if turn % 25 == 0 {
                            drop(lock.lock(first..first + 3).unwrap());
                        }
                    }
                });
            }
        });
        assert_free(lock);
    }
}
