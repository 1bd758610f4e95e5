//! `pthread_cond_wait` and its kin, for variables that are private to the process.
//!
//! The variable itself is a [`manx::lock::RawCondvar`]; here are the mutex, which may be one of
//! ours or any of the C library's, the clocks, and cancellation, which POSIX wants to be acted upon
//! while a thread waits: with the mutex held again before the program's cleanup handlers run, and
//! no signal lost.
//!
//! A cancelled thread is unwound from inside of the system call ([`super::cancel`]), through this
//! frame, whose [`Waiting`] then does what a return would have done.
//!
//! Invariants:
//! 1. A thread that was woken touches the variable no more: the program may have destroyed it, and
//!    freed its memory.
//! 2. A thread whose wait has a limit may touch the variable again. It is counted in `limited`
//!    until it is done, and [`destroy`] waits for that.

use super::mutex::{self, Timeout, clock_of};
use super::object::{Cond, Mutex};
use super::{cancel, foreign, mode, real};
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use libc::{EINVAL, ENOSYS, ETIMEDOUT, clockid_t, timespec};
use manx::lock::RawCondvar;
use manx::lock::condvar::{Outcome, Ticket};
use platform::futex::{self, Clock, Deadline};
use preload_abi::options::Lock;

/// Whether the variable is ours.
#[inline]
fn is_ours(cond: &Cond) -> bool {
    is_ours_by(mode::get_for_good(), cond)
}

#[inline]
fn is_ours_by(mode: Lock, cond: &Cond) -> bool {
    mode != Lock::Glibc && !cond.is_shared()
}

/// Waits to be signalled.
pub(super) extern "C-unwind" fn wait(cond: &Cond, mutex: &Mutex, caller: usize) -> c_int {
    mode::serve(mode::get_for_good, |mode| {
        if !is_ours_by(mode, cond) {
            return real::wait().map_or(ENOSYS, |real| real(cond, mutex));
        }
        // SAFETY: there is no time to read.
        unsafe { wait_within(cond, mutex, Timeout::NEVER, caller) }
    })
}

/// Waits to be signalled, until a time by the variable's own clock.
///
/// # Safety
/// The time may be read.
pub(super) unsafe extern "C-unwind" fn wait_until(
    cond: &Cond,
    mutex: &Mutex,
    time: *const timespec,
    caller: usize,
) -> c_int {
    mode::serve(mode::get_for_good, |mode| {
        if !is_ours_by(mode, cond) {
            return real::timedwait().map_or(ENOSYS, |real| real(cond, mutex, time));
        }
        let clock = if cond.is_monotonic() { Clock::Monotonic } else { Clock::Realtime };
        // SAFETY: the caller's promise.
        unsafe { wait_within(cond, mutex, Timeout { clock, time }, caller) }
    })
}

/// Waits to be signalled, until a time by that clock.
///
/// # Safety
/// The time may be read.
pub(super) unsafe extern "C-unwind" fn wait_until_by(
    cond: &Cond,
    mutex: &Mutex,
    clock: clockid_t,
    time: *const timespec,
    caller: usize,
) -> c_int {
    mode::serve(mode::get_for_good, |mode| {
        if !is_ours_by(mode, cond) {
            return real::clockwait().map_or(ENOSYS, |real| real(cond, mutex, clock, time));
        }
        match clock_of(clock) {
            // SAFETY: the caller's promise.
            Ok(clock) => unsafe { wait_within(cond, mutex, Timeout { clock, time }, caller) },
            Err(_) => EINVAL,
        }
    })
}

/// A wait in progress. Dropped while the thread is unwound: it was cancelled.
struct Waiting<'a> {
    cond: &'a Cond,
    mutex: &'a Mutex,
    ticket: Ticket,
    limited: bool,
    caller: usize,
    /// The cancellation type to go back to, once it was changed.
    type_before: c_int,
}

impl Waiting<'_> {
    /// What is left to do with the variable, before the mutex is locked again.
    fn leave(&self, outcome: Outcome) {
        if self.limited {
            self.cond.condvar.leave(self.ticket, outcome);
            // Release: what was done to the variable comes before; pairs with the look in
            // `destroy`. By Invariant 2 this is the last touch.
            let place = &raw const self.cond.limited;
            if self.cond.limited.fetch_sub(1, Ordering::Release) == DESTROYING + 1 {
                futex::wake_all(place);
            }
        } else if outcome != Outcome::Woken {
            self.cond.condvar.leave(self.ticket, outcome);
        }
    }
}

impl Drop for Waiting<'_> {
    /// Cancelled. The type of cancellation is of no matter any more to a thread that ends, but its
    /// cleanup handlers may ask for it.
    fn drop(&mut self) {
        cancel::restore(self.type_before);
        self.leave(Outcome::Cancelled);
        mutex::relock(self.mutex, self.caller);
    }
}

/// # Safety
/// The timeout's time may be read.
unsafe fn wait_within(cond: &Cond, mutex: &Mutex, timeout: Timeout, caller: usize) -> c_int {
    // SAFETY: the caller's promise.
    let deadline = match unsafe { timeout.deadline() } {
        Ok(deadline) => deadline,
        Err(error) => return error,
    };
    let limited = deadline.is_some();
    if limited {
        // Relaxed: the mutex is held, and a thread that destroys the variable has held it since.
        cond.limited.fetch_add(1, Ordering::Relaxed);
    }
    let ticket = cond.condvar.enter();
    let mut waiting = Waiting { cond, mutex, ticket, limited, caller, type_before: 0 };
    let error = mutex::unlock_for_a_wait(mutex);
    if error != 0 {
        waiting.leave(Outcome::TimedOut);
        core::mem::forget(waiting);
        return error;
    }
    let outcome = sleep(&mut waiting, deadline);
    waiting.leave(outcome);
    core::mem::forget(waiting);
    match mutex::relock(mutex, caller) {
        0 if outcome == Outcome::TimedOut => ETIMEDOUT,
        result => result,
    }
}

/// Sleeps until a signal or the deadline; unwinds if the thread is cancelled.
fn sleep(waiting: &mut Waiting<'_>, deadline: Option<Deadline>) -> Outcome {
    let (word, expected) = waiting.cond.condvar.futex(&waiting.ticket);
    loop {
        match cancel::wait(word, expected, deadline, &mut waiting.type_before) {
            futex::Outcome::Woken | futex::Outcome::Changed => return Outcome::Woken,
            futex::Outcome::TimedOut => return Outcome::TimedOut,
            futex::Outcome::Interrupted => {}
        }
    }
}

/// Wakes one waiter.
pub(super) fn signal(cond: &Cond) -> c_int {
    wake(cond, real::signal, RawCondvar::signal)
}

/// Wakes all waiters.
pub(super) fn broadcast(cond: &Cond) -> c_int {
    wake(cond, real::broadcast, RawCondvar::broadcast)
}

type Real = extern "C" fn(&Cond) -> c_int;

#[inline(always)]
fn wake<R>(cond: &Cond, real: fn() -> Option<Real>, ours: fn(&RawCondvar) -> R) -> c_int {
    if !is_ours(cond) {
        return real().map_or(ENOSYS, |real| real(cond));
    }
    // Before our waiters are woken: one of them may destroy the variable if no other thread waits
    // for it.
    let foreign = foreign::waiters(cond);
    ours(&cond.condvar);
    if foreign != 0 {
        foreign::wake(cond, foreign);
    }
    0
}

/// In `limited`: a thread waits in [`destroy`].
const DESTROYING: u32 = 1 << 31;

/// Destroys a variable for which no thread waits; some threads may be on their way out.
pub(super) fn destroy(cond: &Cond) -> c_int {
    if is_ours(cond) {
        // Acquire pairs with the release of a thread that leaves.
        while cond.limited.load(Ordering::Acquire) != 0 {
            let seen = cond.limited.fetch_or(DESTROYING, Ordering::Acquire) | DESTROYING;
            if seen == DESTROYING {
                cond.limited.store(0, Ordering::Relaxed);
                break;
            }
            futex::wait(&cond.limited, seen);
        }
    }
    real::destroy().map_or(ENOSYS, |real| real(cond))
}
