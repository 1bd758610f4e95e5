//! What fails can be seen again: a recorded order of steps fails alike, every time.

use platform_shuttle::atomic::{AtomicU32, Ordering};
use platform_shuttle::explore::{record, replay};
use platform_shuttle::{site, thread};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::Arc;
use std::any::Any;
use std::panic::catch_unwind;

/// Two threads add one each, in two steps, and time passes: fails if an addition is lost.
fn lossy() {
    let sum = Arc::new(AtomicU32::new(0));
    let adders: Vec<_> = (0..2)
        .map(|_| {
            let sum = Arc::clone(&sum);
            thread::spawn(move || {
                let before = sum.load(Ordering::SeqCst);
                thread::sleep_ns(platform_shuttle::clock::now_ns() % 7);
                sum.store(before + 1, Ordering::SeqCst);
            })
        })
        .collect();
    adders.into_iter().for_each(|adder| adder.join().unwrap());
    let at_ns = platform_shuttle::clock::now_ns();
    assert_eq!(sum.load(Ordering::SeqCst), 2, "lost at {at_ns}");
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<String>().map_or("", String::as_str)
}

fn fails_alike(scheduler: impl Scheduler + 'static) {
    let (word, panic) = record(scheduler, lossy).expect_err("an addition is lost in some order");
    assert!(message(&*panic).contains("lost at"));
    for _ in 0..3 {
        let again = catch_unwind(|| replay(&word, lossy)).expect_err("the same order");
        // The virtual time is in the message, so the same numbers were drawn too.
        assert_eq!(message(&*again), message(&*panic));
    }
}

#[test]
fn a_failure_of_the_random_scheduler_is_found_again() {
    fails_alike(RandomScheduler::new(10_000));
}

#[test]
fn a_failure_of_the_scheduler_with_priorities_is_found_again() {
    fails_alike(PctScheduler::new(3, 10_000));
}

#[test]
fn a_test_that_never_fails_has_nothing_to_replay() {
    assert!(record(RandomScheduler::new(10), thread::yield_now).is_ok());
}

#[test]
fn a_word_that_was_not_recorded_is_refused() {
    for word in ["", "0", "7-", "x-0", "7-0!"] {
        let panic = catch_unwind(|| replay(word, lossy)).expect_err("no such word");
        assert!(message(&*panic).contains("MANX_SCHEDULE"), "{word}");
    }
}

#[test]
fn the_command_names_this_test_and_no_other() {
    let command = site!().command("7-0");
    assert_eq!(
        command,
        "MANX_SCHEDULE='7-0' cargo test -p platform-shuttle --test replay -- --exact \
         the_command_names_this_test_and_no_other"
    );
}
