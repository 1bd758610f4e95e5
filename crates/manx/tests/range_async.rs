//! Futures of ranges: polled, forgotten about, and dropped at any time.
//!
//! Whatever becomes of a future, nothing of it stays: no range, no waiter, no closed shard.

#[path = "common/free.rs"]
mod free;

use Access::{Exclusive, Shared};
use fastrand::Rng;
use free::assert_free;
use manx::range::{Access, LockError, LockFuture, Options, RangeLock, Span};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;
use testing::future::{Caller, block_on, poll};
use testing::until;

/// Keys are blocks.
const SMALL: Options = Options::new().block_log2(0);
/// No waiter may be overtaken, or every one for ever.
const STRICT: Options = SMALL.window(Duration::ZERO);
const LENIENT: Options = SMALL.window(Duration::MAX);
const KEYS: u64 = 24;

type Lock = RangeLock<u64, 8, 1>;

fn span(first: u64, end: u64) -> Span<u64> {
    Span::new(first, end).expect("it has a key")
}

fn draw_span(draw: &mut Rng) -> Span<u64> {
    let (one, other) = (draw.u64(..KEYS), draw.u64(..KEYS));
    match draw.u64(..10) {
        0 => Span::all(),
        1..4 => Span::point(one),
        _ => span(one.min(other), one.max(other) + 1),
    }
}

fn draw_access(draw: &mut Rng) -> Access {
    if draw.bool() { Exclusive } else { Shared }
}

/// Thousands of futures are made, polled and dropped in any order, by several threads, while others
/// take ranges and wait.
#[test]
fn a_storm_of_cancellations_leaves_nothing_behind() {
    let rounds = if testing::full() { 2_000_000 } else { 20_000 };
    for options in [SMALL.window(Duration::ZERO), SMALL, SMALL.window(Duration::MAX)] {
        let lock = &Lock::with(options);
        thread::scope(|scope| {
            for me in 1..=3 {
                scope.spawn(move || {
                    let mut draw = Rng::with_seed(me);
                    let mut futures: Vec<Pin<Box<LockFuture<'_, u64, 8, 1>>>> = Vec::new();
                    let mut guards = Vec::new();
                    let mut context = Context::from_waker(Waker::noop());
                    for _ in 0..rounds {
                        if futures.len() < 8 {
                            futures.push(Box::pin(
                                lock.lock_async(draw_span(&mut draw), draw_access(&mut draw)),
                            ));
                        }
                        let at = draw.u64(..futures.len() as u64) as usize;
                        match draw.u64(..4) {
                            0 => drop(futures.swap_remove(at)),
                            1 => drop(guards.pop()),
                            _ => {
                                if let Poll::Ready(guard) = futures[at].as_mut().poll(&mut context) {
                                    guards.push(guard.expect("nothing but time is in the way"));
                                    drop(futures.swap_remove(at));
                                }
                            }
                        }
                    }
                });
            }
            scope.spawn(move || {
                let mut draw = Rng::with_seed(77);
                for _ in 0..rounds / 4 {
                    drop(lock.try_lock_as(draw_span(&mut draw), draw_access(&mut draw)));
                }
            });
        });
        assert_free(lock);
        let statistics = lock.statistics();
        assert!(statistics.given_up > 0 && statistics.waiting == 0, "{statistics}");
    }
}

/// Tasks and threads have their ranges in turns.
#[test]
fn tasks_and_threads_take_turns() {
    for options in [SMALL.window(Duration::ZERO), SMALL, SMALL.window(Duration::MAX)] {
        let lock = &Lock::with(options);
        let inside = &AtomicU64::new(0);
        thread::scope(|scope| {
            for me in 0..6 {
                scope.spawn(move || {
                    for turn in 0..300 {
                        // All of them have key 5.
                        let wanted = span((me + turn) % 6, 6 + turn % 10);
                        let guard = match me % 2 {
                            0 => block_on(lock.lock_async(wanted, Access::Exclusive)),
                            _ => lock.lock_as(wanted, Access::Exclusive),
                        };
                        let guard = guard.expect("nothing but time is in the way");
                        assert_eq!(inside.swap(1, Ordering::Relaxed), 0);
                        inside.store(0, Ordering::Relaxed);
                        drop(guard);
                    }
                });
            }
        });
        assert_free(lock);
    }
}

/// The last waker that was given is called, once, and no other.
#[test]
fn the_last_waker_is_called() {
    for window in [Duration::ZERO, Duration::MAX] {
        let lock = Lock::with(SMALL.window(window));
        let held = lock.lock(3..5).unwrap();
        let ((first, first_waker), (second, second_waker)) = (Caller::new(), Caller::new());
        let mut future = pin!(lock.lock_async(span(4, 9), Access::Shared));
        assert!(future.as_mut().poll(&mut Context::from_waker(&first_waker)).is_pending());
        assert!(future.as_mut().poll(&mut Context::from_waker(&second_waker)).is_pending());
        drop(held);
        let called = [first, second].map(|caller| caller.called());
        assert_eq!(called, [0, 1]);
        let guard = future.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(guard, Poll::Ready(Ok(_))));
        drop(guard);
        assert_free(&lock);
    }
}

/// A range that was handed to a future is given back by dropping that, and goes to the next one.
#[test]
fn a_range_that_was_handed_to_a_dropped_future_is_passed_on() {
    let lock = Lock::with(SMALL.window(Duration::ZERO));
    let held = lock.lock(0..4).unwrap();
    let (caller, waker) = Caller::new();
    let mut context = Context::from_waker(&waker);
    let mut first = Box::pin(lock.lock_async(span(0, 8), Access::Exclusive));
    // By the second time its window is found to be over.
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(first.as_mut().poll(&mut context).is_pending());
    let mut second = Box::pin(lock.lock_async(span(6, 9), Access::Exclusive));
    assert!(second.as_mut().poll(&mut context).is_pending(), "behind the first, which is starving");
    drop(held);
    assert_eq!(lock.dump().held.len(), 1, "handed to the first one: {}", lock.dump());
    drop(first);
    assert_eq!(caller.called(), 2);
    let Poll::Ready(Ok(guard)) = second.as_mut().poll(&mut context) else { panic!("the second one's turn") };
    drop(guard);
    assert_free(&lock);
}

/// A waker may do with the lock whatever it likes, also when it is cloned, woken or dropped.
#[test]
fn wakers_may_use_the_lock() {
    struct Nosy(Arc<Lock>);
    impl Wake for Nosy {
        fn wake(self: Arc<Self>) {
            drop(self.0.try_lock(20..21));
        }
    }
    impl Drop for Nosy {
        fn drop(&mut self) {
            let _ = self.0.statistics();
            drop(self.0.try_lock(21..22));
        }
    }
    for window in [Duration::ZERO, Duration::MAX] {
        let lock = Arc::new(Lock::with(SMALL.window(window)));
        let waker = || Waker::from(Arc::new(Nosy(Arc::clone(&lock))));
        let held = lock.lock(0..4).unwrap();
        let mut future = Box::pin(lock.lock_async(span(2, 6), Access::Exclusive));
        for _ in 0..3 {
            // The future has the last reference to the one before.
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        }
        let mut dropped = Box::pin(lock.lock_async(span(3, 7), Access::Exclusive));
        assert!(dropped.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        drop(dropped);
        drop(held);
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker())).is_ready());
        drop(future);
        assert_free(&lock);
    }
}

/// A future may be sent, and finish elsewhere than where it began.
#[test]
fn a_future_is_sent_while_it_waits() {
    let lock = &Lock::with(SMALL.window(Duration::ZERO));
    let held = lock.lock(0..4).unwrap();
    let mut future = Box::pin(lock.lock_async(span(2, 6), Access::Exclusive));
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let polled = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            polled.store(true, Ordering::Relaxed);
            let guard = block_on(future).unwrap();
            assert_eq!(guard.span(), &span(2, 6));
        });
        until("a poll", || polled.load(Ordering::Relaxed));
        drop(held);
    });
    assert_free(lock);
}

#[test]
fn a_future_gets_an_error_if_there_is_no_room() {
    let lock = RangeLock::<u64, 1, 1>::with(SMALL.spill_max(0));
    let held = lock.lock(0..1).unwrap();
    let full = block_on(lock.lock_async(span(1, 2), Access::Shared));
    assert_eq!(full.err(), Some(LockError::TooMany { limit: 0 }));
    drop(held);
    assert!(block_on(lock.lock_async(span(1, 2), Access::Shared)).is_ok());
    assert!(lock.try_lock(..).is_ok());
}

// Owners without a thread.

#[test]
fn an_owner_waits_and_has_all() {
    for options in [STRICT, LENIENT] {
        let lock = Lock::with(options);
        let (mut owner, mut other) = (lock.owner(), lock.owner());
        owner.lock_shared(0..10).unwrap();
        other.lock_shared(5..6).unwrap();
        {
            let mut waits = pin!(async {
                owner.lock_async(2..4).await?; // again, and alone
                owner.lock_shared_async(2..4).await?;
                owner.lock_async(4..12).await?; // waits for the other one
                owner.lock_async(20..20).await
            });
            assert!(poll(waits.as_mut()).is_pending());
            assert!(other.try_lock_shared(20..21).is_ok());
            other.release_all();
            let bad = poll(waits);
            assert!(matches!(bad, Poll::Ready(Err(LockError::InvalidRange(_)))), "{bad:?}");
        }
        let held: Vec<(String, Access)> =
            owner.held().map(|(span, access)| (span.to_string(), access)).collect();
        let of = |span: &str, access| (span.to_owned(), access);
        let all = [of("0..10", Shared), of("2..4", Exclusive), of("2..4", Shared), of("4..12", Exclusive)];
        assert_eq!(held, all);
        let dump = lock.dump();
        assert!(dump.held.iter().all(|held| held.holder == owner.holder()), "{dump}");
        drop((owner, other));
        assert_free(&lock);
    }
}

/// A future that is dropped, before and after it was handed its range, leaves what was held.
#[test]
fn a_cancelled_wait_leaves_what_the_owner_held() {
    for (options, handed) in [(STRICT, false), (STRICT, true), (LENIENT, false), (LENIENT, true)] {
        let lock = Lock::with(options);
        let mut stranger = Some(lock.lock(5..6).unwrap());
        let mut owner = lock.owner();
        owner.lock(0..1).unwrap();
        owner.lock_shared(2..3).unwrap();
        {
            let mut waits = Box::pin(owner.lock_as_async(span(2, 9), Exclusive));
            // Starving by the second time, if it may not be overtaken.
            assert!(poll(waits.as_mut()).is_pending() && poll(waits.as_mut()).is_pending());
            if handed {
                stranger.take();
            }
        }
        assert!(lock.dump().waiting.is_empty());
        assert_eq!(owner.held().count(), 2);
        assert_eq!(owner.unlock(2..9), Err(LockError::NotHeld));
        assert!(lock.try_lock(0..1).is_err() && lock.try_lock(2..3).is_err());
        assert!(lock.try_lock_shared(2..4).is_ok() && lock.try_lock(6..9).is_ok(), "nothing else is held");
        owner.unlock(2..3).unwrap();
        drop((owner, stranger));
        assert_free(&lock);
    }
}

#[test]
fn a_future_that_is_never_polled_does_nothing() {
    let lock = Lock::with(SMALL);
    let mut owner = lock.owner();
    owner.lock(0..1).unwrap();
    std::mem::forget(owner.lock_as_async(span(2, 3), Exclusive));
    drop(owner.lock_as_async(span(2, 3), Exclusive));
    assert_eq!(owner.held().count(), 1);
    drop(owner);
    assert_free(&lock);
}

/// What a forgotten future waits with lives as long as the process: the owner has lost it, and may
/// go on without.
#[test]
fn a_forgotten_wait_takes_along_what_the_owner_held() {
    let lock = Lock::with(LENIENT);
    let stranger = lock.lock(5..6).unwrap();
    let mut owner = lock.owner();
    owner.lock_shared(0..1).unwrap();
    {
        let mut waits = Box::pin(owner.lock_as_async(span(0, 9), Exclusive));
        assert!(poll(waits.as_mut()).is_pending());
        std::mem::forget(waits);
    }
    assert_eq!(owner.held().count(), 0);
    for key in 20..60 {
        owner.lock(key..key + 1).unwrap();
    }
    // Another holder upgrades: then what the forgotten waiter has is looked at.
    let other = lock.lock_shared(0..1).unwrap();
    assert_eq!(other.upgrade().unwrap_err().error, LockError::UpgradeDeadlock);
    drop((owner, stranger));
    let dump = lock.dump();
    assert_eq!((dump.held.len(), dump.waiting.len()), (1, 1), "{dump}");
}

#[test]
fn of_two_owners_that_upgrade_the_second_gets_an_error() {
    for options in [STRICT, LENIENT, STRICT.detecting_deadlocks()] {
        let lock = Lock::with(options);
        let (mut one, mut other) = (lock.owner(), lock.owner());
        one.set_tag(1);
        one.lock_shared(0..4).unwrap();
        other.lock_shared(2..6).unwrap();
        let mut waits = Box::pin(one.lock_async(0..4));
        assert!(poll(waits.as_mut()).is_pending());
        let Poll::Ready(answer) = poll(pin!(other.lock_as_async(span(2, 6), Exclusive))) else {
            panic!("one of the two has to give way")
        };
        match answer {
            Err(LockError::Deadlock(circle)) => {
                assert_eq!((circle.links.len(), circle.links[0].holder_tag), (2, Some(1)));
            }
            answer => assert_eq!(answer, Err(LockError::UpgradeDeadlock)),
        }
        assert_eq!(other.held().count(), 1, "it has what it had");
        drop(other);
        assert_eq!(poll(waits.as_mut()), Poll::Ready(Ok(())));
        drop(waits);
        assert_eq!(one.held().count(), 2);
        drop(one);
        assert_free(&lock);
    }
}

#[test]
fn an_owner_without_a_thread_escalates() {
    let lock = Lock::with(SMALL);
    let mut owner = lock.owner().escalating(2);
    for key in [0, 2, 4] {
        assert_eq!(poll(pin!(owner.lock_async(key..key + 1))), Poll::Ready(Ok(())));
    }
    let held: Vec<String> = owner.held().map(|(span, _)| span.to_string()).collect();
    assert_eq!(held, ["0..5"]);
}
