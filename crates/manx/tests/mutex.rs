//! The default mutex on the machine: what its users may rely on.

use manx::lock::bounded::{self, MARKED, POLLING, STARVING_ONE, Thread, UNBOUNDED_NS, WINDOW_NS, Wait};
use manx::lock::turns::TURN_NS;
use manx::lock::{Mutex, RawMutex};
use manx::slo;
use platform::atomic::AtomicU32;
use platform::clock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testing::{Stop, until};

#[test]
fn all_zero_is_free() {
    // SAFETY: two numbers, for which zero is a value.
    let mutex: RawMutex = unsafe { core::mem::zeroed() };
    assert!(mutex.try_acquire());
    assert!(!mutex.try_acquire());
    // SAFETY: acquired above.
    unsafe { mutex.release() };
    assert!(!mutex.is_acquired());
}

#[test]
fn a_static_counts() {
    static COUNT: Mutex<u64> = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20_000).for_each(|_| *COUNT.lock() += 1));
        }
    });
    assert_eq!(*COUNT.lock(), 160_000);
}

#[test]
fn a_panic_inside_releases_the_mutex() {
    let mutex = Mutex::new(0);
    for round in 1..=3 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = mutex.lock();
            *guard = round;
            panic!("in the critical section");
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.try_lock().expect("free, and not poisoned"), round);
    }
}

#[test]
fn a_limit_is_kept_and_a_mutex_that_comes_free_within_it_is_had() {
    let mutex = Mutex::new(0);
    let guard = mutex.lock();
    thread::scope(|scope| {
        scope
            .spawn(|| {
                let began = Instant::now();
                assert!(mutex.try_lock_for(Duration::from_millis(20)).is_none());
                assert!(began.elapsed() >= Duration::from_millis(20), "not before the limit");
                assert!(mutex.try_lock_until(Instant::now()).is_none());
                assert!(mutex.try_lock().is_none());
            })
            .join()
            .expect("timed out");
        let waiter = scope.spawn(|| mutex.try_lock_for(Duration::from_secs(600)).map(|mut held| *held += 1));
        thread::sleep(Duration::from_millis(20));
        drop(guard);
        assert_eq!(waiter.join().expect("no panic"), Some(()));
    });
    assert_eq!(*mutex.lock(), 1);
}

/// Threads with limits of every length, so that some end just as the lock is handed over.
#[test]
fn limits_race_with_hand_over() {
    let mutex = Mutex::from_raw(RawMutex::with_window(Duration::from_nanos(5)), 0_u64);
    let passed = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..12_u64 {
            let (mutex, passed) = (&mutex, &passed);
            scope.spawn(move || {
                for round in 0..400_u64 {
                    let limit = Duration::from_nanos((number * 7919 + round * 104_729) % 150_000);
                    if let Some(mut guard) = mutex.try_lock_for(limit) {
                        let before = *guard;
                        let end_ns = clock::now_ns() + 2_000;
                        while clock::now_ns() < end_ns {}
                        *guard = before + 1;
                        passed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(mutex.try_lock().is_some(), "nobody was left holding it");
    assert_eq!(*mutex.lock(), passed.load(Ordering::Relaxed));
    assert!(passed.load(Ordering::Relaxed) > 0);
}

#[test]
fn five_thousand_threads_pass() {
    static COUNT: Mutex<u32> = Mutex::new(0);
    let guard = COUNT.lock();
    let threads: Vec<_> = (0..5_000)
        .map(|_| {
            let small = thread::Builder::new().stack_size(64 << 10);
            small.spawn(|| *COUNT.lock() += 1).expect("a thread")
        })
        .collect();
    drop(guard);
    threads.into_iter().for_each(|thread| thread.join().expect("passes"));
    assert_eq!(*COUNT.lock(), 5_000);
}

#[test]
fn a_fair_release_lets_the_other_in() {
    let mutex = Mutex::new(());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                lock_api::MutexGuard::unlock_fair(mutex.lock());
            }
        });
        (0..100).for_each(|_| drop(mutex.lock()));
        stop.store(true, Ordering::Relaxed);
    });
}

/// What holders leave for each other, protected by the lock under test.
#[derive(Default)]
struct Left {
    /// A waiter was starving when the lock was released.
    starving: bool,
    released_ns: u64,
}

struct Watched {
    word: AtomicU32,
    side: AtomicU32,
    left: platform::cell::UnsafeCell<Left>,
    passed: AtomicU64,
    /// The longest time from a release to the next one while a thread waited.
    turn_ns_max: AtomicU64,
}

// SAFETY: what is left is used by the lock's holder only, which is what these tests rely on.
unsafe impl Sync for Watched {}

impl Watched {
    fn pass(&self, thread: &Thread, hold_ns: u64) {
        let began_ns = clock::now_ns();
        let acquired = if bounded::try_acquire(&self.word) {
            bounded::Acquired::default()
        } else {
            bounded::acquire_slow(&self.word, &self.side, thread, &Wait::default()).expect("no limit")
        };
        self.left.with_mut(|left| {
            // SAFETY: the lock is held.
            let left = unsafe { &mut *left };
            assert!(!left.starving || acquired.handed_off, "who was starving has been overtaken");
            let end_ns = clock::now_ns() + hold_ns;
            while clock::now_ns() < end_ns {}
            self.passed.fetch_add(1, Ordering::Relaxed);
            let now_ns = clock::now_ns();
            self.turn_ns_max.fetch_max(now_ns - left.released_ns.max(began_ns), Ordering::Relaxed);
            left.released_ns = now_ns;
            // Marked first, so that the count is what the release will see, or one more.
            let marked = self.word.load(Ordering::Acquire) & MARKED != 0;
            left.starving = marked && self.side.load(Ordering::Relaxed) & 0x7fff >= STARVING_ONE;
        });
        if !bounded::try_release(&self.word) {
            bounded::release_slow(&self.word, &self.side, thread);
        }
    }
}

/// How long the calling thread has waited in run queues, in nanoseconds; `None` where the kernel
/// does not tell.
fn run_queue_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// No thread waits for longer than: the window, its own time in run queues, and as many turns as
/// there are threads.
#[test]
fn the_bound_holds() {
    const THREADS: u64 = 12;
    if run_queue_ns().is_none() {
        testing::skip("the kernel does not tell run queue waits (/proc/thread-self/schedstat)");
        return;
    }
    let watched = Watched {
        word: AtomicU32::new(0),
        side: AtomicU32::new(0),
        left: platform::cell::UnsafeCell::new(Left::default()),
        passed: AtomicU64::new(0),
        turn_ns_max: AtomicU64::new(0),
    };
    let beyond_window_ns = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (watched, beyond_window_ns, stop) = (&watched, &beyond_window_ns, &stop);
            scope.spawn(move || {
                let thread = Thread::new();
                while !stop.load(Ordering::Relaxed) {
                    let queued_ns = run_queue_ns().expect("as before");
                    let began_ns = clock::now_ns();
                    // Holds of up to 20 µs: long enough that the lock is nearly always wanted.
                    watched.pass(&thread, number % 3 * 10_000);
                    let waited_ns = clock::now_ns() - began_ns;
                    let queued_ns = run_queue_ns().expect("as before") - queued_ns;
                    let beyond_ns = waited_ns.saturating_sub(queued_ns + WINDOW_NS);
                    beyond_window_ns.fetch_max(beyond_ns, Ordering::Relaxed);
                }
            });
        }
        let _stop = Stop(&stop);
        thread::sleep(Duration::from_millis(1_500));
        until("the lock is used", || watched.passed.load(Ordering::Relaxed) > 1_000);
    });
    let turn_ns = watched.turn_ns_max.load(Ordering::Relaxed);
    let beyond_ns = beyond_window_ns.load(Ordering::Relaxed);
    assert!(
        beyond_ns <= (THREADS + 1) * turn_ns,
        "{beyond_ns} ns beyond window and run queue; the longest turn took {turn_ns} ns"
    );
}

#[test]
fn an_epoch_lends_a_mutex_its_window() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    slo::set_window_max(Duration::from_nanos(HOUR_NS));
    let starving = |in_epoch: bool, held_ns: u64| {
        let mutex = RawMutex::new();
        assert!(mutex.try_acquire());
        let waits = AtomicBool::new(false);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                for _ in 0..8 {
                    slo::start(1);
                    slo::end(1, u64::MAX);
                }
                if in_epoch {
                    slo::start(1);
                    waits.store(slo::window_ns().is_none_or(|ns| ns < HOUR_NS / 2), Ordering::Relaxed);
                    assert!(!waits.load(Ordering::Relaxed), "the window is long");
                }
                waits.store(true, Ordering::Relaxed);
                let acquired = mutex.acquire_slow(&Wait::default()).expect("no limit");
                // SAFETY: acquired above.
                unsafe { mutex.release() };
                acquired.starving
            });
            until("a waiter", || waits.load(Ordering::Relaxed));
            thread::sleep(Duration::from_nanos(held_ns));
            // SAFETY: acquired at the top.
            unsafe { mutex.release() };
            waiter.join().unwrap()
        })
    };
    // Held for long enough a waiter with the default window is starving; none is with one of an
    // hour.
    let held_ns = (1..20).map(|power| WINDOW_NS << power).find(|&held_ns| starving(false, held_ns));
    assert!(!starving(true, held_ns.expect("starving at last")));
}

/// A mutex with many waiters is handed over as seldom as a mutex with few.
#[test]
fn waiters_that_sleep_book_turns_and_give_them_back() {
    const WAITERS: u64 = 4;
    let an_hour_hence_ns = platform::clock::now_ns() + 3_600_000_000_000;
    let (word, side, turns) = (AtomicU32::new(1), AtomicU32::new(0), AtomicU64::new(an_hour_hence_ns & !1));
    let booked = || turns.load(Ordering::Relaxed) - (an_hour_hence_ns & !1);
    thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let wait = Wait { window_ns: Some(1), turns: Some(&turns), ..Wait::default() };
                let acquired =
                    bounded::acquire_slow(&word, &side, &Thread::new(), &wait).expect("no deadline");
                assert!(!acquired.starving, "before its turn");
                bounded::release_slow(&word, &side, &Thread::new());
            });
        }
        until("all waiters", || booked() == WAITERS * TURN_NS);
        bounded::release_slow(&word, &side, &Thread::new());
    });
    assert_eq!(booked(), 0, "all turns were given back");
}

/// Also where threads outnumber CPUs, so that threads are preempted in the line.
#[test]
fn waiters_that_stand_in_line_take_turns() {
    const ROUNDS: u32 = 20_000;
    let (word, side, inside) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let take_turns = &|window_ns| {
        let thread = Thread::new();
        for _ in 0..ROUNDS {
            if !bounded::try_acquire(&word)
                && let Err(side_seen) = bounded::spin_in_line(&word, &side, &thread, |_| window_ns)
            {
                let wait = Wait { window_ns: Some(window_ns), trusting: true, ..Wait::default() };
                bounded::sleep(&word, &side, &thread, &wait, side_seen).expect("no deadline");
            }
            assert_eq!(inside.swap(1, Ordering::Relaxed), 0, "two hold it");
            inside.store(0, Ordering::Relaxed);
            if !bounded::try_release(&word) {
                bounded::release_slow(&word, &side, &thread);
            }
        }
    };
    thread::scope(|scope| {
        let windows = [0, WINDOW_NS, WINDOW_NS, UNBOUNDED_NS, 0, WINDOW_NS, UNBOUNDED_NS, WINDOW_NS];
        windows.into_iter().for_each(|window_ns| drop(scope.spawn(move || take_turns(window_ns))));
    });
    assert_eq!(word.load(Ordering::Relaxed), 0, "free");
    assert_eq!(side.load(Ordering::Relaxed) & 0xffff, 0, "no waiter is counted, nothing is handed off");
}

/// In the parent a thread polls, so that releases wake no thread. It is not in the child.
#[test]
fn a_release_in_a_forked_child_wakes_sleepers() {
    static WORD: AtomicU32 = AtomicU32::new(2);
    static SIDE: AtomicU32 = AtomicU32::new(POLLING);
    // As the thread that polls did when it began to wait.
    assert!(!platform::fork::is_child());
    // SAFETY: the child goes on in this function, and ends below.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a child that sleeps for ever ends by a signal.
        unsafe { libc::alarm(20) };
        let waiter = thread::spawn(|| {
            let wait = Wait { window_ns: Some(UNBOUNDED_NS), turns: None, deadline: None, trusting: true };
            bounded::acquire_slow(&WORD, &SIDE, &Thread::new(), &wait).is_ok()
        });
        thread::sleep(Duration::from_millis(100));
        bounded::release_slow(&WORD, &SIDE, &Thread::new());
        platform::memory::exit_now(i32::from(!waiter.join().unwrap_or(false)));
    }
    let mut status = -1;
    // SAFETY: waits for the child of a moment ago.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child's waiter was not woken");
}
