//! Ranges that are held one by one: a guard of `manx::range`, as two words.
//!
//! Invariant: of the two words, both are null, and nothing is held; or they are a lock that lives,
//! and what [`RangeGuard::into_raw`] made of a guard of that lock. No two objects have the same: a
//! function that takes the guard out leaves null behind. (That C copies none is its promise.)

use super::{END, Patience, code, manx_range_span_t, manx_range_t, span};
use crate::mutex::until;
use core::ffi::{c_int, c_void};
use core::{mem, ptr};
use manx::range::{Access, InvalidRange, RangeGuard, Unchanged};

/// A range that is held. All-zero (`MANX_RANGE_HELD_INIT`) holds nothing. Any thread may use it,
/// one at a time. It may be moved by copying, if the copy alone is used from then on.
#[repr(C)]
#[derive(Debug)]
pub struct manx_range_held_t {
    /// Private.
    lock: *const manx_range_t,
    /// Private.
    range: *const c_void,
}

const NOTHING: manx_range_held_t = manx_range_held_t { lock: ptr::null(), range: ptr::null() };

/// The lock lives as long as ranges of it are held (`mod.rs`, Invariant), which is for ever, seen
/// from the guard.
type Guard = RangeGuard<'static, u64>;

impl manx_range_held_t {
    fn new(lock: *const manx_range_t, guard: Guard) -> manx_range_held_t {
        manx_range_held_t { lock, range: guard.into_raw().cast() }
    }
}

/// The guard, and the lock that it is of; nothing is left behind.
///
/// # Safety
/// It points to a `manx_range_held_t` as the Invariant has it, or is null.
unsafe fn take(held: *mut manx_range_held_t) -> Result<(*const manx_range_t, Guard), c_int> {
    // SAFETY: the caller's promise.
    let held = unsafe { held.as_mut() }.ok_or(libc::EINVAL)?;
    let manx_range_held_t { lock, range } = mem::replace(held, NOTHING);
    // SAFETY: by the Invariant it is null or lives as long as the range is held.
    let it = unsafe { lock.as_ref() }.ok_or(libc::EPERM)?;
    // SAFETY: the Invariant: made of a guard of this lock, and gone from where it was.
    Ok((lock, unsafe { RangeGuard::from_raw(&it.lock, range.cast()) }))
}

/// Makes another guard of what is held; what fails leaves it as it was.
///
/// # Safety
/// As for [`take`].
unsafe fn change(
    held: *mut manx_range_held_t,
    make: impl FnOnce(Guard) -> Result<Guard, Unchanged<Guard>>,
) -> c_int {
    // SAFETY: the caller's promise.
    let (lock, guard) = match unsafe { take(held) } {
        Ok(taken) => taken,
        Err(error) => return error,
    };
    let (guard, outcome) = match make(guard) {
        Ok(changed) => (changed, 0),
        Err(Unchanged { guard, error }) => (guard, code(&error)),
    };
    // SAFETY: the caller's promise; it is not null.
    unsafe { held.write(manx_range_held_t::new(lock, guard)) };
    outcome
}

/// # Safety
/// They point to a lock and to memory for what is held, or are null.
#[inline(always)]
unsafe fn acquire(
    lock: *mut manx_range_t,
    (start, end): (u64, u64),
    access: Access,
    patience: Patience,
    held: *mut manx_range_held_t,
) -> c_int {
    if lock.is_null() || held.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: the caller's promise, here and below.
    let it = unsafe { &*lock };
    let outcome = span(start, end).and_then(|span| patience.ask(&it.lock, span, access));
    let (now, outcome) = match outcome {
        Ok(guard) => (manx_range_held_t::new(lock, guard), 0),
        Err(error) => (NOTHING, code(&error)),
    };
    // SAFETY: as above. What was there before is not looked at: it may never have been written.
    unsafe { held.write(now) };
    outcome
}

/// Waits until no other holder has a key of the range, from `start` to `end`. Returns 0, and `held`
/// holds it; `EINVAL` if the range is empty or inverted, or a pointer is NULL; `EAGAIN` if the lock
/// holds as many ranges as it may; `EDEADLK` if it would wait for ever, and the lock looks for
/// that. If it fails, `held` holds nothing.
///
/// # Safety
/// They point to a lock, and to memory for what is held, which holds nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_lock(
    lock: *mut manx_range_t,
    start: u64,
    end: u64,
    held: *mut manx_range_held_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Exclusive, Patience::Until(None), held) }
}

/// Takes the range if that needs no waiting. Returns 0; or `EBUSY` if a holder has a key of it, or
/// a waiter for one may not be overtaken any more; `EINVAL` and `EAGAIN` as `manx_range_lock`.
///
/// # Safety
/// The pointers are as `manx_range_lock`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_trylock(
    lock: *mut manx_range_t,
    start: u64,
    end: u64,
    held: *mut manx_range_held_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Exclusive, Patience::Try, held) }
}

/// As `manx_range_lock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
/// `ETIMEDOUT` then.
///
/// # Safety
/// The pointers are as `manx_range_lock`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_timedlock(
    lock: *mut manx_range_t,
    start: u64,
    end: u64,
    deadline_ns: u64,
    held: *mut manx_range_held_t,
) -> c_int {
    let patience = Patience::Until(Some(until(deadline_ns)));
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Exclusive, patience, held) }
}

/// Waits until no holder has a key of the range for itself, and shares it from then on. Returns
/// what `manx_range_lock` returns.
///
/// # Safety
/// The pointers are as `manx_range_lock`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_rdlock(
    lock: *mut manx_range_t,
    start: u64,
    end: u64,
    held: *mut manx_range_held_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Shared, Patience::Until(None), held) }
}

/// Shares the range if that needs no waiting. Returns what `manx_range_trylock` returns.
///
/// # Safety
/// The pointers are as `manx_range_lock`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_tryrdlock(
    lock: *mut manx_range_t,
    start: u64,
    end: u64,
    held: *mut manx_range_held_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Shared, Patience::Try, held) }
}

/// As `manx_range_rdlock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
/// `ETIMEDOUT` then.
///
/// # Safety
/// The pointers are as `manx_range_lock`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_timedrdlock(
    lock: *mut manx_range_t,
    start: u64,
    end: u64,
    deadline_ns: u64,
    held: *mut manx_range_held_t,
) -> c_int {
    let patience = Patience::Until(Some(until(deadline_ns)));
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Shared, patience, held) }
}

/// Gives the range back, and `held` holds nothing. Any thread may. Returns 0; `EPERM` if it holds
/// nothing; `EINVAL` if it is NULL.
///
/// # Safety
/// It points to what a function of this header made, or to zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_unlock(held: *mut manx_range_held_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { take(held) } {
        Ok(_dropped) => 0,
        Err(error) => error,
    }
}

/// Cuts the range in two: `held` keeps what is before `key`, and `high` holds the rest, in the same
/// way. Returns 0; or, with `held` as it was and nothing in `high`, `EINVAL` if one of the two
/// would have no key, if `key` is `UINT64_MAX`, or if a pointer is NULL; `EAGAIN` if the lock holds
/// as many ranges as it may; `EPERM` if `held` holds nothing.
///
/// # Safety
/// They point to what is held, and to memory for what is held, which holds nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_split(
    held: *mut manx_range_held_t,
    key: u64,
    high: *mut manx_range_held_t,
) -> c_int {
    if held.is_null() || high.is_null() || ptr::eq(held, high) {
        return libc::EINVAL;
    }
    // SAFETY: the caller's promise, here and below.
    unsafe { high.write(NOTHING) };
    // SAFETY: as above.
    let (lock, guard) = match unsafe { take(held) } {
        Ok(taken) => taken,
        Err(error) => return error,
    };
    // What is before the highest key cannot be named: see `mod.rs`.
    let parts = if key == END {
        Err(Unchanged { guard, error: InvalidRange::Empty.into() })
    } else {
        guard.split_at(key)
    };
    let (now, outcome) = match parts {
        Ok((low, rest)) => {
            // SAFETY: as above.
            unsafe { high.write(manx_range_held_t::new(lock, rest)) };
            (low, 0)
        }
        Err(Unchanged { guard, error }) => (guard, code(&error)),
    };
    // SAFETY: as above.
    unsafe { held.write(manx_range_held_t::new(lock, now)) };
    outcome
}

/// Keeps the keys from `start` to `end`, and gives the others back. Returns 0; or, with `held` as
/// it was, `EINVAL` if the range is empty or inverted, or the pointer is NULL; `EAGAIN` if the lock
/// holds as many ranges as it may; `EPERM` if it is no part of what `held` holds.
///
/// # Safety
/// It points to what is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_shrink(held: *mut manx_range_held_t, start: u64, end: u64) -> c_int {
    let shrink = |guard| match span(start, end) {
        Ok(span) => Guard::shrink(guard, span),
        Err(error) => Err(Unchanged { guard, error }),
    };
    // SAFETY: the caller's promise.
    unsafe { change(held, shrink) }
}

/// From now on others may share the range. Returns 0; or, with `held` as it was, `EAGAIN` if the
/// lock holds as many ranges as it may; `EPERM` if `held` holds nothing; `EINVAL` if it is NULL.
///
/// # Safety
/// It points to what is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_downgrade(held: *mut manx_range_held_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(held, Guard::downgrade) }
}

/// Waits until no other holder shares the range, and has it alone from then on. Returns 0; or, with
/// `held` as it was, `EDEADLK` if another holder that shares it waits for the same, or as
/// `manx_range_lock`; `EAGAIN` if the lock holds as many ranges as it may; `EPERM` if `held` holds
/// nothing; `EINVAL` if it is NULL.
///
/// # Safety
/// It points to what is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_upgrade(held: *mut manx_range_held_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(held, Guard::upgrade) }
}

/// As `manx_range_upgrade`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
/// `ETIMEDOUT` then, with `held` as it was.
///
/// # Safety
/// It points to what is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_timedupgrade(held: *mut manx_range_held_t, deadline_ns: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(held, |guard| guard.upgrade_by_deadline(Some(until(deadline_ns)))) }
}

/// What is held: the range, and whether others may share it (1 or 0). Where a pointer is NULL,
/// nothing is written. Returns 0; `EPERM` if `held` holds nothing; `EINVAL` if it is NULL.
///
/// # Safety
/// They point to what is held, to a span and to a number, or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_held_span(
    held: *const manx_range_held_t,
    span: *mut manx_range_span_t,
    shared: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise, here and below.
    let Some(held) = (unsafe { held.as_ref() }) else { return libc::EINVAL };
    // SAFETY: the Invariant: null, or a lock that lives.
    let Some(lock) = (unsafe { held.lock.as_ref() }) else { return libc::EPERM };
    // SAFETY: the Invariant. It is looked at, and not dropped.
    let guard = mem::ManuallyDrop::new(unsafe { Guard::from_raw(&lock.lock, held.range.cast()) });
    // SAFETY: as above.
    if let Some(span) = unsafe { span.as_mut() } {
        *span = manx_range_span_t::of(guard.span());
    }
    // SAFETY: as above.
    if let Some(shared) = unsafe { shared.as_mut() } {
        *shared = c_int::from(guard.access() == Access::Shared);
    }
    0
}
