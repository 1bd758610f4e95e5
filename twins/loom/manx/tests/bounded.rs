//! The default lock under loom: exclusion, no lost wake-up, and no thread overtakes a starving
//! waiter.
//!
//! Most waiters here are *trusting*, as those of Rust's mutexes are: they never wake up to look for
//! themselves, which would hide a lost wake-up. Those of a program's mutexes under `manx run` do
//! wake up, and differ in nothing else: [`UNTRUSTING`]. The data that the lock protects is loom's
//! own cell, so orderings that are too weak are reported as well.
//!
//! A thread that cannot wait joins a hand-off once it has polled for a window
//! (`bounded::try_join_hand_off`). Here it may join at any step, since a time is no order of steps:
//! that is more than `manx run` allows. It tries twice, beside two threads with two preemptions, or
//! three with one.

// The tests of both checkers call the twin of manx by one name.
extern crate manx_loom as manx;

#[path = "common/bounded.rs"]
mod by_words;
mod common;

use by_words::{BARGING, Lock, STARVING};
use common::{check, join, spawn};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;
use manx::lock::bounded::{self, HANDED_OFF, MARKED, STARVING_ONE, Thread, UNBOUNDED_NS, Wait};
use platform::futex::{Clock, Deadline};

/// As under `manx run`: a turn for each waiter that sleeps, and a look from time to time.
const UNTRUSTING: Wait = Wait { window_ns: Some(1), turns: None, deadline: None, trusting: false };

/// Each of these waits takes the lock once, in a thread of its own but for the first.
fn take_turns(preemptions: usize, waits: &'static [Wait]) {
    check(preemptions, move || {
        let lock = Lock::new();
        let others: Vec<_> =
            waits[1..].iter().map(|wait| spawn(&lock, move |lock| assert!(lock.with_lock(wait)))).collect();
        assert!(lock.with_lock(&waits[0]));
        join(others);
        lock.assert_left(waits.len() as u32);
    });
}

#[test]
fn three_that_barge_take_turns() {
    take_turns(2, &[BARGING, BARGING, BARGING]);
}

#[test]
fn two_starving_waiters_take_turns() {
    take_turns(3, &[STARVING, STARVING]);
}

#[test]
fn three_starving_waiters_take_turns() {
    take_turns(2, &[STARVING, STARVING, STARVING]);
}

#[test]
fn starving_and_barging_waiters_take_turns() {
    take_turns(2, &[BARGING, STARVING, BARGING]);
    take_turns(2, &[STARVING, BARGING, STARVING]);
}

#[test]
fn waiters_that_trust_and_waiters_that_do_not_take_turns() {
    take_turns(2, &[UNTRUSTING, UNTRUSTING]);
    take_turns(2, &[STARVING, UNTRUSTING, BARGING]);
}

#[test]
fn waiters_that_stood_in_line_take_turns() {
    for windows in [[UNBOUNDED_NS, UNBOUNDED_NS], [0, UNBOUNDED_NS], [0, 0]] {
        check(2, move || {
            let lock = Lock::new();
            let others: Vec<_> = windows
                .into_iter()
                .map(|window_ns| spawn(&lock, move |lock| lock.with_lock_in_line(window_ns)))
                .collect();
            lock.with_lock_in_line(UNBOUNDED_NS);
            join(others);
            lock.assert_left(3);
        });
    }
}

/// Two threads wait, while a third takes the lock again and again, so a woken one is woken in vain.
/// (A wait with a timeout is never woken here: threads that poll and give up are
/// `manx-shuttle`'s.)
#[test]
fn a_thread_that_polls_forgets_no_sleeper() {
    check(2, || {
        let lock = Lock::with(0, bounded::about_to_poll());
        let others: Vec<_> =
            (0..2).map(|_| spawn(&lock, move |lock| assert!(lock.with_lock(&BARGING)))).collect();
        (0..2).for_each(|_| assert!(lock.with_lock(&BARGING)));
        join(others);
        lock.assert_left(4);
    });
}

#[test]
fn the_lock_is_taken_again_and_again() {
    check(2, || {
        let lock = Lock::new();
        let other = spawn(&lock, move |lock| (0..2).for_each(|_| assert!(lock.with_lock(&STARVING))));
        (0..2).for_each(|_| assert!(lock.with_lock(&BARGING)));
        other.join().unwrap();
        lock.assert_left(4);
    });
}

/// A timeout that ends at some point while others hold, hand off and release.
fn limited(window_ns: u64) -> Wait<'static> {
    let deadline = Some(Deadline { clock: Clock::Monotonic, ns: platform::clock::now_ns() + 50 });
    Wait { window_ns: Some(window_ns), turns: None, deadline, trusting: true }
}

#[test]
fn a_timeout_races_with_a_hand_off_and_nothing_is_left_behind() {
    for window_ns in [0, UNBOUNDED_NS] {
        check(2, move || {
            let lock = Lock::new();
            let others: Vec<_> = [limited(window_ns), STARVING]
                .into_iter()
                .map(|wait| spawn(&lock, move |lock| lock.with_lock(&wait)))
                .collect();
            assert!(lock.with_lock(&BARGING));
            let passed: u32 = others.into_iter().map(|other| u32::from(other.join().unwrap())).sum();
            assert!(passed >= 1, "who has no timeout passes");
            lock.assert_left(1 + passed);
        });
    }
}

#[test]
fn no_thread_overtakes_a_starving_waiter() {
    check(3, || {
        let lock = Lock::new();
        let served = Arc::new(AtomicBool::new(false));
        assert!(lock.acquire(&Thread::new(), &BARGING).is_ok());
        let waiter = thread::spawn({
            let (lock, served) = (Arc::clone(&lock), Arc::clone(&served));
            move || {
                let acquired = lock.acquire(&Thread::new(), &STARVING).unwrap();
                served.store(true, Ordering::Relaxed);
                lock.pass();
                lock.release(&Thread::new());
                acquired
            }
        });
        // Acquire: so the count, which came before the mark, is seen by the release.
        let waits = lock.word.load(Ordering::Acquire) & MARKED != 0;
        lock.pass();
        lock.release(&Thread::new());
        if bounded::try_acquire(&lock.word) {
            assert!(!waits || served.load(Ordering::Relaxed), "it was starving, and was overtaken");
            lock.release(&Thread::new());
        }
        let acquired = waiter.join().unwrap();
        assert!(!waits || acquired.handed_off);
        lock.assert_left(2);
    });
}

/// A waiter in the child of a fork.
const IN_CHILD: Wait = Wait { window_ns: Some(20), turns: None, deadline: None, trusting: false };

#[test]
fn a_hand_off_to_a_ghost_is_joined_or_taken_back() {
    check(1, || {
        platform::fork::become_child();
        let lock = Lock::with(MARKED | 2, STARVING_ONE);
        let waiter = spawn(&lock, |lock| assert!(lock.with_lock(&IN_CHILD)));
        let late = spawn(&lock, |lock| u32::from(lock.try_with_lock().is_some()));
        lock.pass();
        lock.release(&Thread::new());
        waiter.join().unwrap();
        let passed = 2 + late.join().unwrap();
        // Exclusion and progress only: the ghost may be counted still.
        assert!(lock.try_with_lock().is_some(), "free, or handed off to the ghost");
        assert_eq!(lock.passed(), passed + 1);
    });
}

#[test]
fn a_hand_off_to_a_ghost_is_taken_back() {
    check(2, || {
        // As a forked child finds it: a waiter is counted that is not there.
        platform::fork::become_child();
        let lock = Lock::with(MARKED | 2, STARVING_ONE);
        let waiter = thread::spawn({
            let lock = Arc::clone(&lock);
            let wait = Wait { window_ns: Some(20), turns: None, deadline: None, trusting: false };
            move || assert!(lock.with_lock(&wait))
        });
        lock.pass();
        lock.release(&Thread::new());
        waiter.join().unwrap();
        // The ghost may have been taken for the waiter itself; then one more hand-off rids the lock
        // of it.
        while lock.side.load(Ordering::Relaxed) & 0xffff != 0 {
            if lock
                .acquire(
                    &Thread::new(),
                    &Wait { window_ns: Some(20), turns: None, deadline: None, trusting: false },
                )
                .is_ok()
            {
                lock.release(&Thread::new());
            }
        }
        lock.assert_left(2);
    });
}

/// Some wait in these ways, and `late` threads join hand-offs, while the lock is released once by
/// its first holder. Some order of steps has a thread that joins.
fn late_comers(preemptions: usize, late: usize, waits: &'static [fn() -> Wait<'static>]) {
    let joined = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let has_joined = std::sync::Arc::clone(&joined);
    check(preemptions, move || {
        let lock = Lock::new();
        assert!(lock.acquire(&Thread::new(), &BARGING).is_ok());
        let waiters: Vec<_> =
            waits.iter().map(|wait| spawn(&lock, move |lock| u32::from(lock.with_lock(&wait())))).collect();
        let late: Vec<_> =
            (0..late).map(|_| spawn(&lock, |lock| [lock.try_with_lock(), lock.try_with_lock()])).collect();
        lock.pass();
        lock.release(&Thread::new());
        let mut passed = 1;
        for waiter in waiters {
            passed += waiter.join().unwrap();
        }
        for tried in late.into_iter().flat_map(|late| late.join().unwrap()).flatten() {
            passed += 1;
            if tried {
                has_joined.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        lock.assert_left(passed);
    });
    assert!(joined.load(std::sync::atomic::Ordering::Relaxed), "no thread joined in any order");
}

#[test]
fn a_late_comer_joins_a_hand_off_and_the_waiter_is_served_all_the_same() {
    late_comers(2, 1, &[|| STARVING]);
}

#[test]
fn two_late_comers_join_one_after_the_other() {
    late_comers(1, 2, &[|| STARVING]);
}

#[test]
fn a_late_comer_joins_beside_two_starving_waiters() {
    late_comers(1, 1, &[|| STARVING, || STARVING]);
}

#[test]
fn a_late_comer_joins_beside_a_waiter_that_gives_up() {
    late_comers(2, 1, &[|| limited(0)]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_finds_a_wake_up_that_is_lost() {
    check(2, || {
        // The standard library's: loom's own cannot be dropped once an execution has failed.
        let words = std::sync::Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let waiter = thread::spawn({
            let words = std::sync::Arc::clone(&words);
            move || {
                if !bounded::try_acquire(&words.0) {
                    let _ = bounded::acquire_slow(&words.0, &words.1, &Thread::new(), &STARVING);
                }
            }
        });
        if bounded::try_acquire(&words.0) {
            // A release without a hand-off, a wake-up and a look at the mark.
            words.0.store(0, Ordering::Release);
        }
        waiter.join().unwrap();
    });
}

#[test]
fn a_hand_off_is_not_free() {
    check(1, || {
        let lock = Lock::with(MARKED | 2, STARVING_ONE | HANDED_OFF);
        assert!(!bounded::try_acquire(&lock.word));
        assert!(!bounded::try_release(&lock.word));
        assert!(lock.acquire(&Thread::new(), &STARVING).unwrap().handed_off);
        lock.release(&Thread::new());
    });
}
