//! The parts that chance plays: each of them comes about in some executions, and never breaks what
//! a futex promises.

use platform_shuttle::atomic::{AtomicU32, Ordering};
use platform_shuttle::cell::UnsafeCell;
use platform_shuttle::explore::check;
use platform_shuttle::futex::{self, Outcome};
use platform_shuttle::{clock, site, thread};
use shuttle::sync::Arc;
use std::sync::Mutex;

/// What was seen in any execution: the standard library's lock, which is no step.
struct Seen<T>(Arc<Mutex<Vec<T>>>);

impl<T: PartialEq + Send + std::fmt::Debug> Seen<T> {
    fn new() -> (Self, impl Fn(T) + Clone + Send + Sync) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&seen);
        let add = move |what| {
            let mut seen = note.lock().unwrap();
            if !seen.contains(&what) {
                seen.push(what);
            }
        };
        (Seen(seen), add)
    }

    fn assert_all(&self, all: &[T]) {
        let seen = self.0.lock().unwrap();
        assert!(all.iter().all(|what| seen.contains(what)), "only {seen:?}");
    }
}

/// A word that another thread changes and wakes while this one waits by `wait`; what both saw.
fn race(wait: impl Fn(&AtomicU32) -> Outcome) -> (Outcome, usize) {
    let word = Arc::new(AtomicU32::new(0));
    let waker = thread::spawn({
        let word = Arc::clone(&word);
        move || {
            word.store(1, Ordering::SeqCst);
            futex::wake_all(&*word)
        }
    });
    let outcome = wait(&word);
    (outcome, waker.join().unwrap())
}

#[test]
fn a_wait_sees_the_change_or_is_woken_or_interrupted() {
    let (seen, note) = Seen::new();
    check(site!(), move || {
        let (outcome, woken) = race(|word| futex::wait(word, 0));
        assert_eq!(outcome == Outcome::Woken, woken == 1, "{outcome:?}");
        note(outcome);
    });
    seen.assert_all(&[Outcome::Woken, Outcome::Changed, Outcome::Interrupted]);
}

#[test]
fn a_timeout_ends_before_a_wake_up_or_after_it_and_takes_the_clock_along() {
    let (seen, note) = Seen::new();
    check(site!(), move || {
        let deadline_ns = clock::now_ns() + clock::SECOND_NS;
        let (outcome, woken) = race(|word| futex::wait_until(word, 0, deadline_ns));
        assert_eq!(outcome == Outcome::Woken, woken == 1, "{outcome:?}");
        assert_eq!(outcome == Outcome::TimedOut, clock::now_ns() >= deadline_ns);
        note(outcome);
    });
    seen.assert_all(&[Outcome::Woken, Outcome::Changed, Outcome::Interrupted, Outcome::TimedOut]);
}

#[test]
fn any_waiter_is_woken_and_no_more_than_were_asked_for() {
    let (seen, note) = Seen::new();
    check(site!(), move || {
        let word = Arc::new(AtomicU32::new(0));
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let word = Arc::clone(&word);
                thread::spawn(move || futex::wait_for(&word, 0, 1_000) == Outcome::Woken)
            })
            .collect();
        let woken = futex::wake(&*word, 1);
        assert!(woken <= 1);
        let which: Vec<bool> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        assert_eq!(which.iter().filter(|woken| **woken).count(), woken);
        note(which.iter().position(|woken| *woken));
    });
    seen.assert_all(&[None, Some(0), Some(1), Some(2)]);
}

#[test]
fn a_sleeper_sees_that_its_time_has_passed() {
    check(site!(), || {
        let sleepers: Vec<_> = (1..4)
            .map(|number| {
                thread::spawn(move || {
                    let began_ns = clock::now_ns();
                    thread::sleep_ns(number * 1_000);
                    assert!(clock::now_ns() - began_ns >= number * 1_000);
                })
            })
            .collect();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wait_that_nobody_wakes_is_a_deadlock() {
    check(site!(), || assert_eq!(futex::wait(&AtomicU32::new(0), 0), Outcome::Interrupted));
}

/// A cell that two threads use, of which one or both write.
struct Shared(UnsafeCell<u32>);

// SAFETY: none of the tests touches the value; the cell's own bookkeeping is atomic.
unsafe impl Sync for Shared {}

fn overlap(first: fn(&Shared)) {
    let cell = Arc::new(Shared(UnsafeCell::new(0)));
    let other = thread::spawn({
        let cell = Arc::clone(&cell);
        move || first(&cell)
    });
    cell.0.with(|_| ());
    other.join().unwrap();
}

#[test]
fn readers_of_a_cell_may_overlap() {
    check(site!(), || overlap(|cell| cell.0.with(|_| ())));
}

#[test]
#[should_panic(expected = "another thread")]
fn a_reader_and_a_writer_of_a_cell_may_not() {
    check(site!(), || overlap(|cell| cell.0.with_mut(|_| ())));
}

#[test]
fn an_advance_wakes_one_earlier_waiter_and_none_that_came_for_the_new_value() {
    let (seen, note) = Seen::new();
    check(site!(), move || {
        let word = Arc::new(AtomicU32::new(7));
        let early = thread::spawn({
            let word = Arc::clone(&word);
            move || {
                while futex::wait(&word, 7) == Outcome::Interrupted {}
            }
        });
        let late = thread::spawn({
            let word = Arc::clone(&word);
            move || {
                while word.load(Ordering::SeqCst) == 7 {
                    thread::yield_now();
                }
                while futex::wait(&word, 8) == Outcome::Interrupted {}
                assert_ne!(
                    word.load(Ordering::SeqCst),
                    8,
                    "woken by an advance that was made before it came"
                );
            }
        });
        let woken = futex::advance(&word, 1);
        assert!(woken <= 1);
        note(woken);
        // If the early one slept, it was woken; if it did not, it saw the change. The late one
        // still waits.
        early.join().unwrap();
        futex::advance(&word, u32::MAX);
        late.join().unwrap();
    });
    seen.assert_all(&[0, 1]);
}
