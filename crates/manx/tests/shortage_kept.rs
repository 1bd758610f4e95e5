//! While a keeper keeps the word, waiters find out by themselves that the process is short of CPUs.
//! Alone in its file: the word is the whole process'.

use manx::cpu::{ThreadPressure, keep_shortage, short_of_cpus};
use manx::lock::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Threads that compute and take a lock now and then, all on one CPU, until `done` says so.
fn crowd_on_one_cpu(done: impl Fn() -> bool) {
    let (sum, stop) = (Mutex::new(0_u64), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                platform::cpu::restrict(1);
                while !stop.load(Ordering::Relaxed) {
                    let mut sum = sum.lock();
                    for _ in 0..2_000 {
                        *sum += std::hint::black_box(1);
                    }
                }
            });
        }
        while !done() {
            thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_crowd_on_one_cpu_is_noticed_and_the_last_keeper_takes_it_back() {
    if ThreadPressure::of_this_thread().is_none() {
        testing::skip("the kernel does not tell how long a thread waits for a CPU");
        return;
    }
    // No keeper keeps the word, so it does not change.
    let began = Instant::now();
    crowd_on_one_cpu(|| began.elapsed() > Duration::from_millis(100));
    assert!(!short_of_cpus());

    let (first, second) = (keep_shortage(), keep_shortage());
    crowd_on_one_cpu(|| {
        assert!(began.elapsed() < Duration::from_secs(60), "the crowd was not noticed");
        short_of_cpus()
    });
    drop(first);
    assert!(short_of_cpus(), "there is one more keeper");
    drop(second);
    assert!(!short_of_cpus());

    // It can be kept again, from the beginning.
    let again = keep_shortage();
    assert!(!short_of_cpus());
    drop(again);

    // A child of a fork finds out for itself: it waits for no thread and needs nothing of its
    // parent's.
    let _kept = keep_shortage();
    // SAFETY: the only thread of this test; the child does nothing but compute and exit, and its
    // exit code is all it says.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let began = Instant::now();
        crowd_on_one_cpu(|| short_of_cpus() || began.elapsed() > Duration::from_secs(60));
        // SAFETY: ends the child without the parent's destructors.
        unsafe { libc::_exit(if short_of_cpus() { 7 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child, which ends by itself.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "the child ended with {status}");
}
