//! The readers-writer lock: `manx::lock::RawRwLock`.
//!
//! That one panics when it has all the readers that it can count, as when a program forgets to
//! leave in a loop. A panic has no business in C: it is caught here and is `EAGAIN`, as POSIX has
//! it. It happens before anything is acquired or changed, so nothing is left half done.

use crate::mutex::until;
use core::ffi::c_int;
use core::time::Duration;
use manx::lock::RawRwLock;
use manx::lock::bounded::{Acquired, TimedOut, Wait};
use platform::futex::Deadline;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A readers-writer lock. All-zero (`MANX_RWLOCK_INIT`) is free; nothing has to be destroyed. The
/// last holder may free the memory as soon as it has the lock alone and no thread waits or will
/// come, also while other threads are still inside of an unlock function.
///
/// Waiters are overtaken by threads that run, for a window of a millisecond or what the waiter's
/// epoch allows, and then served; readers and writers alike.
#[repr(C)]
#[derive(Debug, Default)]
pub struct manx_rwlock_t {
    /// Private.
    state: u64,
}

const _: () = assert!(size_of::<manx_rwlock_t>() == size_of::<RawRwLock>());
const _: () = assert!(align_of::<manx_rwlock_t>() == align_of::<RawRwLock>());

/// # Safety
/// It points to a `manx_rwlock_t` that lives until the caller is done with it.
unsafe fn raw<'a>(lock: *mut manx_rwlock_t) -> &'a RawRwLock {
    // SAFETY: the same size and alignment, checked above; every value of the word is valid, and all
    // accesses after the initialisation are atomic.
    unsafe { &*lock.cast::<RawRwLock>() }
}

fn code(result: Result<Acquired, TimedOut>) -> c_int {
    match result {
        Ok(_) => 0,
        Err(TimedOut) => libc::ETIMEDOUT,
    }
}

fn read(lock: &RawRwLock, deadline: Option<Deadline>) -> c_int {
    if lock.try_read() {
        return 0;
    }
    if lock.is_full() {
        return libc::EAGAIN;
    }
    // It may have become full since.
    let read = || code(lock.read_slow(&Wait { deadline, ..Wait::default() }));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or(libc::EAGAIN)
}

fn write(lock: &RawRwLock, deadline: Option<Deadline>) -> c_int {
    if lock.try_write() {
        return 0;
    }
    code(lock.write_slow(&Wait { deadline, ..Wait::default() }))
}

/// Makes a readers-writer lock free, with a window of its own: its waiters may be overtaken for
/// `window_ns` nanoseconds (rounded up by less than a quarter), in epochs too. `UINT64_MAX` is for
/// ever, and 0 no window of its own, as `MANX_RWLOCK_INIT`.
///
/// # Safety
/// It points to memory for a readers-writer lock that no thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_rwlock_init(lock: *mut manx_rwlock_t, window_ns: u64) {
    let window = Duration::from_nanos(window_ns);
    let fresh = if window.is_zero() { RawRwLock::new() } else { RawRwLock::with_window(window) };
    // SAFETY: the caller's promise; layout as checked above.
    unsafe { lock.cast::<RawRwLock>().write(fresh) }
}

/// Waits until the calling thread is a reader. Returns 0, or `EAGAIN` if there are 2^21 readers.
///
/// # Safety
/// It points to a readers-writer lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_rwlock_rdlock(lock: *mut manx_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    read(unsafe { raw(lock) }, None)
}

/// The calling thread becomes a reader if that needs no waiting. Returns 0, or `EBUSY`, or `EAGAIN`
/// if there are 2^21 readers.
///
/// # Safety
/// It points to a readers-writer lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_rwlock_tryrdlock(lock: *mut manx_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    let lock = unsafe { raw(lock) };
    match lock.try_read() {
        true => 0,
        false if lock.is_full() => libc::EAGAIN,
        false => libc::EBUSY,
    }
}

/// As `manx_rwlock_rdlock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
/// `ETIMEDOUT` then.
///
/// # Safety
/// It points to a readers-writer lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_rwlock_timedrdlock(lock: *mut manx_rwlock_t, deadline_ns: u64) -> c_int {
    // SAFETY: the caller's promise.
    read(unsafe { raw(lock) }, Some(until(deadline_ns)))
}

/// Waits until the calling thread is the writer. Returns 0.
///
/// # Safety
/// It points to a readers-writer lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_rwlock_wrlock(lock: *mut manx_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    write(unsafe { raw(lock) }, None)
}

/// The calling thread becomes the writer if that needs no waiting. Returns 0, or `EBUSY`.
///
/// # Safety
/// It points to a readers-writer lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_rwlock_trywrlock(lock: *mut manx_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    if unsafe { raw(lock) }.try_write() { 0 } else { libc::EBUSY }
}

/// As `manx_rwlock_wrlock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
/// `ETIMEDOUT` then.
///
/// # Safety
/// It points to a readers-writer lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_rwlock_timedwrlock(lock: *mut manx_rwlock_t, deadline_ns: u64) -> c_int {
    // SAFETY: the caller's promise.
    write(unsafe { raw(lock) }, Some(until(deadline_ns)))
}

/// Ends a reader's stay. Returns 0.
///
/// # Safety
/// It points to a readers-writer lock that the calling thread reads under.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_rwlock_rdunlock(lock: *mut manx_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { raw(lock).release_read() };
    0
}

/// Ends the writer's stay. Returns 0.
///
/// # Safety
/// It points to a readers-writer lock that the calling thread writes under.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_rwlock_wrunlock(lock: *mut manx_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { raw(lock).release_write() };
    0
}

/// Ends the stay of the calling thread, reader or writer. Returns 0.
///
/// # Safety
/// It points to a readers-writer lock that the calling thread holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_rwlock_unlock(lock: *mut manx_rwlock_t) -> c_int {
    // SAFETY: the caller's promise. While there is a writer it is alone, so that it can only be the
    // caller.
    unsafe {
        let lock = raw(lock);
        if lock.is_written() { lock.release_write() } else { lock.release_read() }
    }
    0
}
