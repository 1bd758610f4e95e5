//! Futures of ranges: polled, forgotten about, and dropped at any time.
//!
//! Whatever becomes of a future, nothing of it stays: no range, no waiter, no closed shard.

use manx::range::{Access, LockError, LockFuture, Options, RangeLock, Span};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Keys are blocks.
const SMALL: Options = Options::new().block_log2(0);
const KEYS: u64 = 24;

type Lock = RangeLock<u64, 8, 1>;

fn span(first: u64, end: u64) -> Span<u64> {
    Span::new(first, end).expect("it has a key")
}

/// Nothing is held, nobody waits, and nothing is closed.
fn assert_free(lock: &Lock) {
    let dump = lock.dump();
    assert!(dump.held.is_empty() && dump.waiting.is_empty(), "{dump}");
    for key in 0..KEYS {
        assert!(lock.try_lock(key..key + 1).is_ok(), "{key} is closed");
    }
    assert!(lock.try_lock(..).is_ok());
}

/// Wakes a thread, and counts.
struct Caller {
    thread: Thread,
    called: AtomicUsize,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.called.fetch_add(1, Ordering::Relaxed);
        self.thread.unpark();
    }
}

fn caller() -> (Arc<Caller>, Waker) {
    let caller = Arc::new(Caller { thread: thread::current(), called: AtomicUsize::new(0) });
    (Arc::clone(&caller), Waker::from(caller))
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let (_, waker) = caller();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

struct Draw(u64);

impl Draw {
    /// By Marsaglia, "Xorshift RNGs", 2003.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }

    fn span(&mut self) -> Span<u64> {
        let (one, other) = (self.below(KEYS), self.below(KEYS));
        match self.below(10) {
            0 => Span::all(),
            1..4 => Span::point(one),
            _ => span(one.min(other), one.max(other) + 1),
        }
    }

    fn access(&mut self) -> Access {
        if self.below(2) == 0 { Access::Exclusive } else { Access::Shared }
    }
}

/// Thousands of futures are made, polled and dropped in any order, by several threads, while others take ranges and wait.
#[test]
fn a_storm_of_cancellations_leaves_nothing_behind() {
    let rounds = if std::env::var_os("MANX_FULL").is_some() { 2_000_000 } else { 20_000 };
    for options in [SMALL.window_ns(0), SMALL, SMALL.window_ns(u64::MAX)] {
        let lock = &Lock::with(options);
        thread::scope(|scope| {
            for me in 1..=3 {
                scope.spawn(move || {
                    let mut draw = Draw(me * 0x9E37_79B9);
                    let mut futures: Vec<Pin<Box<LockFuture<'_, u64, 8, 1>>>> = Vec::new();
                    let mut guards = Vec::new();
                    let mut context = Context::from_waker(Waker::noop());
                    for _ in 0..rounds {
                        if futures.len() < 8 {
                            futures.push(Box::pin(lock.lock_async(draw.span(), draw.access())));
                        }
                        let at = draw.below(futures.len() as u64) as usize;
                        match draw.below(4) {
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
                let mut draw = Draw(77);
                for _ in 0..rounds / 4 {
                    drop(lock.try_lock_as(draw.span(), draw.access()));
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
    for options in [SMALL.window_ns(0), SMALL, SMALL.window_ns(u64::MAX)] {
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
                            _ => lock.lock_as(wanted, Access::Exclusive, None),
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

/// The last waker that was given is the one that is called, once.
#[test]
fn the_last_waker_is_called() {
    for window_ns in [0, u64::MAX] {
        let lock = Lock::with(SMALL.window_ns(window_ns));
        let held = lock.lock(3..5).unwrap();
        let ((first, first_waker), (second, second_waker)) = (caller(), caller());
        let mut future = pin!(lock.lock_async(span(4, 9), Access::Shared));
        assert!(future.as_mut().poll(&mut Context::from_waker(&first_waker)).is_pending());
        assert!(future.as_mut().poll(&mut Context::from_waker(&second_waker)).is_pending());
        drop(held);
        let called = [first, second].map(|caller| caller.called.load(Ordering::Relaxed));
        assert_eq!(called, [0, 1]);
        let guard = future.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(guard, Poll::Ready(Ok(_))));
        drop(guard);
        assert_free(&lock);
    }
}

/// A range that was handed to a future is given back by dropping that, and goes to the next one.
#[test]
fn what_was_handed_to_a_dropped_future_goes_on() {
    let lock = Lock::with(SMALL.window_ns(0));
    let held = lock.lock(0..4).unwrap();
    let (caller, waker) = caller();
    let mut context = Context::from_waker(&waker);
    let mut first = Box::pin(lock.lock_async(span(0, 8), Access::Exclusive));
    // By the second time its window is found to be over.
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(first.as_mut().poll(&mut context).is_pending());
    let mut second = Box::pin(lock.lock_async(span(6, 9), Access::Exclusive));
    assert!(second.as_mut().poll(&mut context).is_pending(), "behind the first, which is overdue");
    drop(held);
    assert_eq!(lock.dump().held.len(), 1, "handed to the first one: {}", lock.dump());
    drop(first);
    assert_eq!(caller.called.load(Ordering::Relaxed), 2);
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
    for window_ns in [0, u64::MAX] {
        let lock = Arc::new(Lock::with(SMALL.window_ns(window_ns)));
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
    let lock = &Lock::with(SMALL.window_ns(0));
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
        while !polled.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        drop(held);
    });
    assert_free(lock);
}

#[test]
fn a_future_is_told_that_there_is_no_room() {
    let lock = RangeLock::<u64, 1, 1>::with(SMALL.spill_max(0));
    let held = lock.lock(0..1).unwrap();
    let full = block_on(lock.lock_async(span(1, 2), Access::Shared));
    assert_eq!(full.err(), Some(LockError::TooMany { limit: 0 }));
    drop(held);
    assert!(block_on(lock.lock_async(span(1, 2), Access::Shared)).is_ok());
    assert!(lock.try_lock(..).is_ok());
}
