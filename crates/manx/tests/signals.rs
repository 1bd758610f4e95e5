//! Parking loses no wake-up, and the mutable policy keeps its count of spinners, under real
//! threads.
//!
//! A lost wake-up would leave a thread asleep for ever. Each test therefore runs beside a watch
//! that fails it after a time that no working run comes near.

use manx::wait::{Event, Mutable, Policy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use testing::until;

/// Runs `test`, and fails if it has not ended in two minutes.
fn watched(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match ended.recv_timeout(Duration::from_secs(120)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a thread sleeps for ever: a wake-up was lost"),
        _ => thread.join().expect("the test itself"),
    }
}

/// A lock that waits by a policy, and what it protects.
struct Lock<P> {
    taken: AtomicBool,
    freed: P,
    inside: AtomicU64,
    total: AtomicU64,
}

impl<P: Policy> Lock<P> {
    fn new(freed: P) -> Arc<Self> {
        let (inside, total) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Lock { taken: AtomicBool::new(false), freed, inside, total })
    }

    fn try_lock(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }

    fn work_and_unlock(&self, signal: impl Fn(&P)) {
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0);
        self.total.fetch_add(1, Ordering::Relaxed);
        self.inside.fetch_sub(1, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
        signal(&self.freed);
    }
}

const THREADS: u64 = 6;
const TURNS: u64 = 3_000;

/// All take turns; every third of them does not wait for long and comes back later.
fn take_turns<P: Policy + Send + Sync + 'static>(lock: &Arc<Lock<P>>, signal: fn(&P)) {
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let lock = Arc::clone(lock);
            thread::spawn(move || {
                for _ in 0..TURNS {
                    if number % 3 == 0 {
                        while !lock.freed.until_for(Duration::from_micros(20), || lock.try_lock()) {}
                    } else {
                        lock.freed.until(|| lock.try_lock());
                    }
                    lock.work_and_unlock(signal);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("all turns");
    }
    assert_eq!(lock.total.load(Ordering::Relaxed), THREADS * TURNS);
}

#[test]
fn a_signal_to_one_is_never_lost() {
    watched(|| {
        let lock = Lock::new(Event::new());
        take_turns(&lock, Event::signal_one);
        assert_eq!(lock.freed.parked(), 0);
    });
}

#[test]
fn a_signal_to_all_is_never_lost() {
    watched(|| {
        let lock = Lock::new(Event::new());
        take_turns(&lock, Event::signal_all);
        assert_eq!(lock.freed.parked(), 0);
    });
}

#[test]
fn a_mutable_wait_is_never_lost_and_leaks_no_spinner() {
    watched(|| {
        let lock = Lock::new(Mutable::new());
        take_turns(&lock, Mutable::signal_one);
        assert_eq!((lock.freed.parked(), lock.freed.spinners()), (0, 0));
        let cpus = u32::try_from(platform::cpu::count()).unwrap_or(u32::MAX);
        assert!(lock.freed.window() <= cpus.saturating_sub(1).max(1));
    });
}

#[test]
fn a_token_goes_back_and_forth() {
    fn rally<P: Policy + Send + Sync + 'static>(policy: P, signal: fn(&P)) {
        let shared = Arc::new((AtomicU64::new(0), policy));
        let side = |first: u64| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for turn in 0..2_000 {
                    shared.1.until(|| shared.0.load(Ordering::Acquire) == 2 * turn + first);
                    shared.0.fetch_add(1, Ordering::Release);
                    signal(&shared.1);
                }
            })
        };
        let sides = [side(0), side(1)];
        for side in sides {
            side.join().expect("every turn");
        }
        assert_eq!(shared.0.load(Ordering::Relaxed), 4_000);
    }
    watched(|| {
        rally(Event::new(), Event::signal_all);
        rally(Mutable::new(), Mutable::signal_all);
        rally(Mutable::new(), Mutable::signal_one);
    });
}

#[test]
fn spinning_in_vain_closes_the_window_and_late_sleepers_open_it() {
    watched(|| {
        let never = Mutable::new();
        // Two millisecond-long waits: a spinner gives up long before.
        for _ in 0..2 {
            assert!(!never.until_for(Duration::from_millis(2), || false));
        }
        assert_eq!(never.window(), 0);
        // A waiter that parks because none may spin, and is signalled at once, was late. How soon
        // it is signalled is the scheduler's to say, so this is tried until it was soon enough.
        let shared = Arc::new((AtomicU64::new(0), never));
        let other = Arc::clone(&shared);
        let waiter = thread::spawn(move || {
            let mut turn = 1;
            while other.1.window() == 0 {
                other.1.until(|| other.0.load(Ordering::Acquire) >= turn);
                turn += 1;
            }
            turn
        });
        while !waiter.is_finished() {
            if shared.1.parked() > 0 {
                shared.0.fetch_add(1, Ordering::Release);
                shared.1.signal_all();
            }
            thread::yield_now();
        }
        waiter.join().expect("late at last");
        assert_eq!(shared.1.window(), 1);
    });
}

#[test]
fn a_waiter_that_panics_hands_its_wake_up_on() {
    watched(|| {
        let lock = Lock::new(Event::new());
        assert!(lock.try_lock());
        let waiters: Vec<_> = (0..2)
            .map(|number| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || {
                    let mut looks = 0;
                    lock.freed.until(|| {
                        looks += 1;
                        // The first waiter fails as soon as it may have been woken.
                        assert!(number == 1 || lock.taken.load(Ordering::Relaxed), "as planned");
                        number == 1 && lock.try_lock()
                    });
                    lock.work_and_unlock(Event::signal_one);
                })
            })
            .collect();
        until("two sleepers", || lock.freed.parked() == 2);
        lock.taken.store(false, Ordering::Release);
        lock.freed.signal_one();
        let mut results = waiters.into_iter().map(thread::JoinHandle::join);
        // Whichever of the two was woken first, the second one gets the lock; the first one is
        // woken by its signal if not before, and fails then.
        assert!(results.next().expect("two").is_err());
        assert!(results.next().expect("two").is_ok());
    });
}
