//! The mutex: `manx::lock::RawMutex`, with the windows of epochs that may be another library's.

use crate::elsewhere;
use core::ffi::c_int;
use core::time::Duration;
use manx::lock::RawMutex;
use manx::lock::bounded::Wait;
use platform::clock;
use platform::futex::{Clock, Deadline};

/// A mutex. All-zero (`MANX_MUTEX_INIT`) is free; nothing has to be destroyed.
///
/// Waiters are overtaken by threads that run, for a window of a millisecond or what the waiter's
/// epoch allows, and then served.
#[repr(C)]
#[derive(Debug, Default)]
pub struct manx_mutex_t {
    /// Private.
    word: u32,
    /// Private.
    side: u32,
}

const _: () = assert!(size_of::<manx_mutex_t>() == size_of::<RawMutex>());
const _: () = assert!(align_of::<manx_mutex_t>() == align_of::<RawMutex>());

/// # Safety
/// It points to a `manx_mutex_t` that lives until the caller is done with it.
unsafe fn raw<'a>(mutex: *mut manx_mutex_t) -> &'a RawMutex {
    // SAFETY: the same size and alignment, checked above; every value of the two words is valid,
    // and all accesses after the initialisation are atomic.
    unsafe { &*mutex.cast::<RawMutex>() }
}

/// When a wait until this time ends.
pub(crate) fn until(deadline_ns: u64) -> Deadline {
    // The kernel's times have a sign.
    Deadline { clock: Clock::Monotonic, ns: deadline_ns.min(i64::MAX as u64) }
}

/// # Safety
/// As for [`raw`].
pub(crate) unsafe fn acquire(mutex: *mut manx_mutex_t, deadline: Option<Deadline>) -> c_int {
    // SAFETY: the caller's promise.
    let lock = unsafe { raw(mutex) };
    if lock.try_acquire() {
        return 0;
    }
    // If another library keeps the epochs, the lock asks it from now on.
    elsewhere::get();
    match lock.acquire_slow(&Wait { deadline, ..Wait::default() }) {
        Ok(_) => 0,
        Err(_) => libc::ETIMEDOUT,
    }
}

/// # Safety
/// As for [`raw`], and the calling thread holds it.
pub(crate) unsafe fn release(mutex: *mut manx_mutex_t) {
    // SAFETY: the caller's promise.
    unsafe { raw(mutex).release() }
}

/// Makes a mutex free, with a window of its own: its waiters may be overtaken for `window_ns`
/// nanoseconds (rounded up by less than a quarter), in epochs too. `UINT64_MAX` is for ever, and 0
/// no window of its own, as `MANX_MUTEX_INIT`.
///
/// # Safety
/// It points to memory for a mutex that no thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_mutex_init(mutex: *mut manx_mutex_t, window_ns: u64) {
    let window = Duration::from_nanos(window_ns);
    let fresh = if window.is_zero() { RawMutex::new() } else { RawMutex::with_window(window) };
    // SAFETY: the caller's promise; layout as checked above.
    unsafe { mutex.cast::<RawMutex>().write(fresh) }
}

/// Waits for the mutex. Returns 0.
///
/// # Safety
/// It points to a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_mutex_lock(mutex: *mut manx_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { acquire(mutex, None) }
}

/// Takes the mutex if it is free. Returns 0, or `EBUSY`.
///
/// # Safety
/// It points to a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_mutex_trylock(mutex: *mut manx_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    if unsafe { raw(mutex) }.try_acquire() { 0 } else { libc::EBUSY }
}

/// Waits for the mutex until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns 0, or
/// `ETIMEDOUT`.
///
/// # Safety
/// It points to a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_mutex_timedlock(mutex: *mut manx_mutex_t, deadline_ns: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { acquire(mutex, Some(until(deadline_ns))) }
}

/// Releases the mutex. Returns 0.
///
/// # Safety
/// It points to a mutex that the calling thread holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_mutex_unlock(mutex: *mut manx_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { release(mutex) };
    0
}

/// `CLOCK_MONOTONIC` in nanoseconds: what deadlines are counted from.
#[unsafe(no_mangle)]
pub extern "C" fn manx_now_ns() -> u64 {
    clock::now_ns()
}
