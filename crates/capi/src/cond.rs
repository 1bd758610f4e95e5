//! The condition variable: `manx::lock::RawCondvar`, for `manx_mutex_t`.

use crate::mutex::{acquire, manx_mutex_t, release, until};
use core::ffi::c_int;
use manx::lock::RawCondvar;
use manx::lock::condvar::Outcome;
use platform::futex::Deadline;

/// A condition variable. All-zero (`MANX_COND_INIT`) is its initial state; nothing has to be
/// destroyed. Its memory may be freed after a broadcast, but not before all waits with a deadline
/// have returned.
#[repr(C)]
#[derive(Debug, Default)]
pub struct manx_cond_t {
    /// Private.
    sequence: u32,
    /// Private.
    waiters: u32,
}

const _: () = assert!(size_of::<manx_cond_t>() == size_of::<RawCondvar>());
const _: () = assert!(align_of::<manx_cond_t>() == align_of::<RawCondvar>());

/// # Safety
/// It points to a `manx_cond_t` that lives until the caller is done with it.
unsafe fn raw<'a>(cond: *mut manx_cond_t) -> &'a RawCondvar {
    // SAFETY: the same size and alignment, checked above; every value of the two words is valid,
    // and all accesses after the initialisation are atomic.
    unsafe { &*cond.cast::<RawCondvar>() }
}

/// # Safety
/// They point to a condition variable and a mutex that the calling thread holds.
unsafe fn wait(cond: *mut manx_cond_t, mutex: *mut manx_mutex_t, deadline: Option<Deadline>) -> c_int {
    // SAFETY: the caller's promise. After a wake-up it is not touched any more.
    let condvar = unsafe { raw(cond) };
    let ticket = condvar.enter();
    // SAFETY: the caller's promise.
    unsafe { release(mutex) };
    let outcome = condvar.sleep(&ticket, deadline);
    condvar.leave(ticket, outcome);
    // SAFETY: the caller's promise: the mutex outlives the wait.
    unsafe { acquire(mutex, None) };
    if outcome == Outcome::TimedOut { libc::ETIMEDOUT } else { 0 }
}

/// Releases the mutex, waits for a signal, and takes the mutex again. Returns 0, rarely without a
/// signal: look again.
///
/// # Safety
/// They point to a condition variable and a mutex that the calling thread holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_cond_wait(cond: *mut manx_cond_t, mutex: *mut manx_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { wait(cond, mutex, None) }
}

/// As `manx_cond_wait`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds at most. Returns 0,
/// or `ETIMEDOUT`; the mutex is held in both cases.
///
/// # Safety
/// They point to a condition variable and a mutex that the calling thread holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_cond_timedwait(
    cond: *mut manx_cond_t,
    mutex: *mut manx_mutex_t,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { wait(cond, mutex, Some(until(deadline_ns))) }
}

/// Wakes one waiter. Returns 0.
///
/// # Safety
/// It points to a condition variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_cond_signal(cond: *mut manx_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { raw(cond) }.signal();
    0
}

/// Wakes all waiters. Returns 0.
///
/// # Safety
/// It points to a condition variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_cond_broadcast(cond: *mut manx_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { raw(cond) }.broadcast();
    0
}
