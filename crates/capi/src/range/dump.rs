//! What has happened in a lock, its holders and its waiters, and why a thread would have waited for
//! ever.
//!
//! Texts are written as `snprintf` writes: as much as there is room for, and how much there would
//! be.

use super::{deadlock, manx_range_t};
use crate::text::write;
use core::ffi::{c_char, c_int};
use platform::clock::duration_ns;

/// For `manx_range_dump`: lines for people.
pub const MANX_RANGE_TEXT: u32 = 0;
/// For `manx_range_dump`: a JSON object.
pub const MANX_RANGE_JSON: u32 = 1;

/// What has happened in a lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct manx_range_statistics_t {
    /// Ranges taken.
    pub acquired: u64,
    /// Ranges taken or given up after a wait, beyond a moment of spinning.
    pub waits: u64,
    /// How long these waits took, all together, in nanoseconds.
    pub waited_ns: u64,
    /// How long the longest of them took.
    pub waited_ns_max: u64,
    /// Waits that ended because the range was handed over, its waiter's window being over.
    pub handed_over: u64,
    /// Waits that ended without the range.
    pub given_up: u64,
    /// How many wait now.
    pub waiting: u64,
    /// Ranges that the lock has room for on the heap now, beside those in the lock itself.
    pub spilled: u64,
}

/// What has happened in the lock so far. Returns 0, or `EINVAL`: a pointer is NULL.
///
/// # Safety
/// They point to a lock, and to memory for its statistics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_statistics(
    lock: *mut manx_range_t,
    statistics: *mut manx_range_statistics_t,
) -> c_int {
    // SAFETY: the caller's promise, here and below.
    let Some(lock) = (unsafe { lock.as_ref() }) else { return libc::EINVAL };
    if statistics.is_null() {
        return libc::EINVAL;
    }
    let now = lock.lock.statistics();
    // SAFETY: as above.
    unsafe {
        statistics.write(manx_range_statistics_t {
            acquired: now.acquired,
            waits: now.waits,
            waited_ns: duration_ns(now.waited),
            waited_ns_max: duration_ns(now.waited_max),
            handed_over: now.handed_over,
            given_up: now.given_up,
            waiting: now.waiting,
            spilled: now.spilled,
        });
    }
    0
}

/// Writes the held ranges with their holders, since when if that is recorded, and the waiters with
/// the holders that they wait for: `size` bytes at most, a zero at the end included. `format` is
/// `MANX_RANGE_TEXT` or `MANX_RANGE_JSON`. Returns the length of the whole text, without the zero,
/// as `snprintf` does: if that is `size` or more, some is missing. 0 if the lock is NULL or the
/// format unknown, with nothing written. It stops all threads that use the lock for as long as it
/// takes to copy that.
///
/// # Safety
/// They point to a lock, and to `size` bytes; `buffer` may be NULL, and nothing is written then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_dump(
    lock: *mut manx_range_t,
    format: u32,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller's promise, here and below.
    let Some(lock) = (unsafe { lock.as_ref() }) else { return 0 };
    let text = match format {
        MANX_RANGE_TEXT => lock.lock.dump().to_string(),
        MANX_RANGE_JSON => lock.lock.dump().to_json(),
        _ => return 0,
    };
    // SAFETY: as above.
    unsafe { write(&text, buffer, size) }
}

/// Writes why the calling thread's last `EDEADLK` was returned: what each waiter waits for, and
/// which holder has that. Writes as `manx_range_dump` does; returns 0 if there was none yet.
///
/// # Safety
/// It points to `size` bytes, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_deadlock(buffer: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller's promise.
    deadlock::with_last(|text| unsafe { write(text, buffer, size) }).unwrap_or(0)
}
