//! `pthread_cond_wait` and its kin, for variables that are private to the process.
//!
//! The C library's condition variables unlock and lock the C library's mutex, so LiTL lets each
//! holder of its lock hold that mutex as well. Here the variable is a `RawCondvar` instead, eight
//! bytes in the program's own object, which knows nothing of the mutex: a waiter enters, unlocks
//! whatever the mutex is, sleeps on a futex, and locks again. The protocol is the one of the
//! preload library, and the lock under test is the only lock. The C library's functions never see
//! such a variable but in its initialisation.
//!
//! Invariants:
//! 1. A thread that was woken touches the variable no more: the program may have destroyed it.
//! 2. A thread whose wait has a deadline may touch it again. It is counted in `limited` until it is
//!    done, and [`destroy`] waits for that.

use crate::mutex::{self, deadline_of};
use crate::object::{Cond, Mutex};
use crate::real;
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use libc::{ETIMEDOUT, clockid_t, timespec};
use manx::lock::condvar::Outcome;
use platform::futex::Deadline;

/// Waits to be signalled.
pub fn wait(cond: &Cond, mutex: &Mutex) -> c_int {
    if cond.is_shared() {
        // SAFETY: the caller's objects.
        return unsafe { real::pthread_cond_wait()(cond, mutex) };
    }
    wait_within(cond, mutex, None)
}

/// Waits to be signalled, until a time by the variable's own clock.
///
/// # Safety
/// The time may be read.
pub unsafe fn wait_until(cond: &Cond, mutex: &Mutex, time: *const timespec) -> c_int {
    if cond.is_shared() {
        // SAFETY: the caller's objects.
        return unsafe { real::pthread_cond_timedwait()(cond, mutex, time) };
    }
    let clock = if cond.is_monotonic() { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME };
    // SAFETY: the caller's promise.
    match unsafe { deadline_of(clock, time) } {
        Ok(deadline) => wait_within(cond, mutex, Some(deadline)),
        Err(error) => error,
    }
}

/// Waits to be signalled, until a time by that clock.
///
/// # Safety
/// The time may be read.
pub unsafe fn wait_until_by(cond: &Cond, mutex: &Mutex, clock: clockid_t, time: *const timespec) -> c_int {
    if cond.is_shared() {
        // SAFETY: the caller's objects.
        return unsafe { real::pthread_cond_clockwait()(cond, mutex, clock, time) };
    }
    // SAFETY: the caller's promise.
    match unsafe { deadline_of(clock, time) } {
        Ok(deadline) => wait_within(cond, mutex, Some(deadline)),
        Err(error) => error,
    }
}

fn wait_within(cond: &Cond, mutex: &Mutex, deadline: Option<Deadline>) -> c_int {
    if deadline.is_some() {
        // Relaxed: the mutex is held, and a thread that destroys the variable has held it since.
        cond.limited.fetch_add(1, Ordering::Relaxed);
    }
    let ticket = cond.condvar.enter();
    let error = mutex::unlock(mutex);
    let outcome = if error == 0 { cond.condvar.sleep(&ticket, deadline) } else { Outcome::TimedOut };
    // By Invariant 1 a woken thread leaves without a touch.
    cond.condvar.leave(ticket, outcome);
    if deadline.is_some() {
        // Release pairs with the acquire in `destroy`: by Invariant 2 this is the last touch.
        cond.limited.fetch_sub(1, Ordering::Release);
    }
    if error != 0 {
        return error;
    }
    match mutex::lock(mutex) {
        0 if outcome == Outcome::TimedOut => ETIMEDOUT,
        result => result,
    }
}

/// Wakes one waiter.
pub fn signal(cond: &Cond) -> c_int {
    if cond.is_shared() {
        // SAFETY: the caller's variable.
        return unsafe { real::pthread_cond_signal()(cond) };
    }
    cond.condvar.signal();
    0
}

/// Wakes all waiters.
pub fn broadcast(cond: &Cond) -> c_int {
    if cond.is_shared() {
        // SAFETY: the caller's variable.
        return unsafe { real::pthread_cond_broadcast()(cond) };
    }
    cond.condvar.broadcast();
    0
}

/// Destroys a variable for which no thread waits; some threads may be on their way out.
pub fn destroy(cond: &Cond) -> c_int {
    if cond.is_shared() {
        // SAFETY: the caller's variable.
        return unsafe { real::pthread_cond_destroy()(cond) };
    }
    while cond.limited.load(Ordering::Acquire) != 0 {
        std::thread::yield_now();
    }
    0
}
