//! Several ranges that are held together: a `manx::range::ManyGuard`, on the heap.

use super::{code, manx_range_span_t, manx_range_t, span};
use crate::mutex::until;
use core::ffi::c_int;
use core::{ptr, slice};
use manx::range::{Access, LockError, ManyGuard, SpanSet};
use platform::futex::Deadline;

/// A flag: others may share the ranges.
pub const MANX_RANGE_SHARED: u32 = 1;
/// A flag: ranges of a set that overlap or touch become one, instead of being an error.
pub const MANX_RANGE_MERGE: u32 = 2;

/// Ranges that are held together.
#[derive(Debug)]
#[expect(non_camel_case_types, reason = "C's name")]
pub struct manx_range_set_t {
    /// The lock lives as long as ranges of it are held (`mod.rs`, Invariant).
    _guard: ManyGuard<'static, u64>,
}

/// Which ranges C means, and how.
///
/// # Safety
/// There are `count` spans, or `spans` is null.
unsafe fn wanted(
    spans: *const manx_range_span_t,
    count: usize,
    flags: u32,
) -> Result<(SpanSet<u64>, Access), c_int> {
    if spans.is_null() || flags & !(MANX_RANGE_SHARED | MANX_RANGE_MERGE) != 0 {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise.
    let spans = unsafe { slice::from_raw_parts(spans, count) };
    let set = || -> Result<SpanSet<u64>, LockError> {
        let spans: Vec<_> = spans.iter().map(|each| span(each.start, each.end)).collect::<Result<_, _>>()?;
        Ok(if flags & MANX_RANGE_MERGE == 0 { SpanSet::disjoint(spans) } else { SpanSet::merged(spans) }?)
    };
    let access = if flags & MANX_RANGE_SHARED == 0 { Access::Exclusive } else { Access::Shared };
    Ok((set().map_err(|error| code(&error))?, access))
}

/// # Safety
/// As `manx_range_lock_many`; or pointers are null.
unsafe fn acquire(
    lock: *mut manx_range_t,
    wanted: Result<(SpanSet<u64>, Access), c_int>,
    set: *mut *mut manx_range_set_t,
    ask: impl FnOnce(&'static manx_range_t, SpanSet<u64>, Access) -> Result<ManyGuard<'static, u64>, LockError>,
) -> c_int {
    // SAFETY: the caller's promise, here and below.
    let Some(set) = (unsafe { set.as_mut() }) else { return libc::EINVAL };
    *set = ptr::null_mut();
    // SAFETY: it lives as long as it is needed: while a thread waits, and while what is returned is
    // held.
    let Some(lock) = (unsafe { lock.as_ref() }) else { return libc::EINVAL };
    let (spans, access) = match wanted {
        Ok(wanted) => wanted,
        Err(error) => return error,
    };
    match ask(lock, spans, access) {
        Ok(guard) => {
            *set = Box::into_raw(Box::new(manx_range_set_t { _guard: guard }));
            0
        }
        Err(error) => code(&error),
    }
}

/// # Safety
/// As `manx_range_lock_many`.
unsafe fn waited_for(
    lock: *mut manx_range_t,
    wanted: Result<(SpanSet<u64>, Access), c_int>,
    deadline: Option<Deadline>,
    set: *mut *mut manx_range_set_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        acquire(lock, wanted, set, |lock, spans, access| {
            lock.lock.lock_many_by_deadline(spans, access, deadline)
        })
    }
}

/// Waits until no other holder has a key of any of the `count` ranges, and takes none of them
/// meanwhile: two callers that want the same ranges in different orders do not get stuck. `flags`
/// is 0 or a sum of `MANX_RANGE_SHARED` and `MANX_RANGE_MERGE`. Returns 0, and `set` points to what
/// is held; or, with NULL there, `EINVAL` if there are no ranges, one is empty or inverted, two
/// overlap (but for `MANX_RANGE_MERGE`), a flag is unknown or a pointer is NULL; `EAGAIN` and
/// `EDEADLK` as `manx_range_lock`.
///
/// # Safety
/// They point to a lock, to `count` ranges, and to where the set's address is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_lock_many(
    lock: *mut manx_range_t,
    spans: *const manx_range_span_t,
    count: usize,
    flags: u32,
    set: *mut *mut manx_range_set_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { waited_for(lock, wanted(spans, count, flags), None, set) }
}

/// Takes all of the ranges, or none, if that needs no waiting. Returns 0; `EBUSY` as
/// `manx_range_trylock`; `EINVAL` and `EAGAIN` as `manx_range_lock_many`.
///
/// # Safety
/// The pointers are as `manx_range_lock_many`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_trylock_many(
    lock: *mut manx_range_t,
    spans: *const manx_range_span_t,
    count: usize,
    flags: u32,
    set: *mut *mut manx_range_set_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let wanted = wanted(spans, count, flags);
        acquire(lock, wanted, set, |lock, spans, access| lock.lock.try_lock_many(spans, access))
    }
}

/// As `manx_range_lock_many`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
/// `ETIMEDOUT` then.
///
/// # Safety
/// The pointers are as `manx_range_lock_many`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_timedlock_many(
    lock: *mut manx_range_t,
    spans: *const manx_range_span_t,
    count: usize,
    flags: u32,
    deadline_ns: u64,
    set: *mut *mut manx_range_set_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { waited_for(lock, wanted(spans, count, flags), Some(until(deadline_ns)), set) }
}

/// Gives all ranges of the set back, and its memory. Any thread may. Returns 0; `EPERM` if it is
/// NULL.
///
/// # Safety
/// It points to a set, or is NULL. There is none afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_unlock_many(set: *mut manx_range_set_t) -> c_int {
    if set.is_null() {
        return libc::EPERM;
    }
    // SAFETY: the caller's promise: a box that `acquire` gave away.
    drop(unsafe { Box::from_raw(set) });
    0
}
