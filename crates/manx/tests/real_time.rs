//! Under a real-time class yields let no ordinary thread run, so a waiter goes straight to sleep.
//!
//! A thread needs root, `CAP_SYS_NICE` or an `RLIMIT_RTPRIO` for such a class. Where it may not
//! have one, these tests say so, and check nothing.

use manx::wait::{Action, Adaptive, Policy, Yield};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Gives the calling thread a scheduling class.
fn become_real_time(policy: libc::c_int) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: changes the calling thread only, with a valid parameter.
    let result = unsafe { libc::sched_setscheduler(0, policy, &parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits for a thread that checks something in a real-time class; if it got none, the test is
/// skipped.
fn join(thread: thread::JoinHandle<io::Result<()>>) {
    if let Err(error) = thread.join().expect("checked") {
        testing::skip(format_args!("no real-time class for this process: {error}"));
    }
}

/// Runs in a thread of its own, because a class is a thread's.
fn in_real_time(policy: libc::c_int, check: impl FnOnce() + Send + 'static) {
    join(thread::spawn(move || become_real_time(policy).map(|()| check())));
}

#[test]
fn an_adaptive_waiter_sleeps_right_after_spinning() {
    for class in [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK] {
        in_real_time(class, || {
            let [step, ceiling] = [1, 2].map(Duration::from_micros);
            let adaptive = Adaptive::DEFAULT.spins(10).step(step).ceiling(ceiling);
            let mut backoff = adaptive.start();
            for _ in 0..15 {
                backoff.wait();
            }
            let counts = backoff.counts();
            assert_eq!((counts.spins, counts.yields, counts.sleeps), (10, 0, 5));
        });
    }
}

#[test]
fn its_first_sleep_is_the_shortest() {
    let step = Duration::from_micros(100);
    let real_time = Adaptive::DEFAULT.spins(10).yields(0).step(step);
    assert_eq!(real_time.action(10), Action::Sleep(step));
}

#[test]
fn a_yielding_waiter_sleeps() {
    in_real_time(libc::SCHED_FIFO, || {
        let mut backoff = Yield.start();
        for _ in 0..3 {
            backoff.wait();
        }
        assert_eq!((backoff.counts().yields, backoff.counts().sleeps), (0, 3));
    });
}

#[test]
fn the_one_waited_for_runs_on_the_same_cpu() {
    static READY: AtomicBool = AtomicBool::new(false);
    // SAFETY: zeroes are an empty set, and the sets have the right size.
    let one = unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(platform::cpu::current(), &mut one);
        one
    };
    let waiter = thread::spawn(move || {
        // SAFETY: changes where the calling thread and the threads that it starts run; a CPU that
        // was taken away is an error without harm.
        unsafe { libc::sched_setaffinity(0, size_of_val(&one), &one) };
        become_real_time(libc::SCHED_FIFO)?;
        let ordinary = thread::spawn(|| {
            let normal = libc::sched_param { sched_priority: 0 };
            // SAFETY: changes the calling thread only, back to the ordinary class.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &normal) };
            READY.store(true, Ordering::Release);
        });
        let counts = Adaptive::DEFAULT.until(|| READY.load(Ordering::Acquire));
        assert_eq!(counts.yields, 0);
        ordinary.join().expect("the ordinary thread ran");
        Ok(())
    });
    join(waiter);
}
