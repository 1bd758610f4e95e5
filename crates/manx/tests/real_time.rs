//! Under a real-time class yields let no ordinary thread run, so a waiter goes straight to sleep.
//!
//! A thread needs root, `CAP_SYS_NICE` or an `RLIMIT_RTPRIO` for such a class. Where it may not
//! have one, these tests say so, and check nothing.

use manx::wait::{Action, Adaptive, Policy, Yield};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Gives the calling thread a scheduling class, or says why not.
fn become_real_time(policy: libc::c_int) -> bool {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: changes the calling thread only, with a valid parameter.
    if unsafe { libc::sched_setscheduler(0, policy, &parameter) } == 0 {
        return true;
    }
    println!("not checked: no real-time class for this process: {}", std::io::Error::last_os_error());
    false
}

/// Runs in a thread of its own, because a class is a thread's.
fn in_real_time(policy: libc::c_int, check: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(move || {
        if become_real_time(policy) {
            check();
        }
    });
    thread.join().expect("checked");
}

#[test]
fn an_adaptive_waiter_sleeps_right_after_spinning() {
    for class in [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK] {
        in_real_time(class, || {
            let mut backoff = Adaptive::DEFAULT.step_ns(1_000).ceiling_ns(2_000).start();
            for _ in 0..Adaptive::DEFAULT.spins + 5 {
                backoff.wait();
            }
            let counts = backoff.counts();
            assert_eq!((counts.spins, counts.yields, counts.sleeps), (10, 0, 5));
        });
    }
}

#[test]
fn its_first_sleep_is_the_shortest() {
    let ordinary = Adaptive::DEFAULT;
    let real_time = ordinary.yields(0);
    assert_eq!(real_time.action(ordinary.spins), Action::Sleep { ns: ordinary.step_ns });
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
        if !become_real_time(libc::SCHED_FIFO) {
            return;
        }
        let ordinary = thread::spawn(|| {
            let normal = libc::sched_param { sched_priority: 0 };
            // SAFETY: changes the calling thread only, back to the ordinary class.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &normal) };
            READY.store(true, Ordering::Release);
        });
        let counts = Adaptive::DEFAULT.until(|| READY.load(Ordering::Acquire));
        assert_eq!(counts.yields, 0);
        ordinary.join().expect("the ordinary thread ran");
    });
    waiter.join().expect("the waiter ended");
}
