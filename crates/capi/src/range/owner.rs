//! Owners: a `manx::range::Owner`, on the heap, for callers that lock range by range and give back
//! what they have when they are done.

use super::{manx_range_span_t, manx_range_t, result, span};
use crate::mutex::until;
use core::ffi::c_int;
use manx::range::{Access, LockError, Owner, Span};
use platform::atomic::Ordering;

/// A holder of ranges of a lock, such as a transaction. What it holds is in the way of others only:
/// it may lock the same keys again, and each of these locks counts. One thread may use it at a
/// time.
#[derive(Debug)]
#[expect(non_camel_case_types, reason = "C's name")]
pub struct manx_range_owner_t {
    /// The lock lives as long as it counts this owner (`mod.rs`, Invariant).
    lock: &'static manx_range_t,
    owner: Owner<'static, u64>,
}

/// # Safety
/// It points to an owner that no other thread uses now, or is null.
unsafe fn with(
    owner: *mut manx_range_owner_t,
    act: impl FnOnce(&mut Owner<'static, u64>) -> Result<(), LockError>,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { owner.as_mut() } {
        Some(it) => result(act(&mut it.owner)),
        None => libc::EINVAL,
    }
}

/// # Safety
/// As for [`with`].
unsafe fn with_span(
    owner: *mut manx_range_owner_t,
    (start, end): (u64, u64),
    act: impl FnOnce(&mut Owner<'static, u64>, Span<u64>) -> Result<(), LockError>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with(owner, |owner| act(owner, span(start, end)?)) }
}

/// Makes an owner that holds nothing yet. If `ranges_max` is not 0, whenever it holds more ranges
/// than that, neighbours become one range, with all that lies between them, as far as no other
/// holder is in the way. Returns 0, or `EINVAL`: a pointer is NULL.
///
/// # Safety
/// They point to a lock, and to where the owner's address is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_create(
    owner: *mut *mut manx_range_owner_t,
    lock: *mut manx_range_t,
    ranges_max: usize,
) -> c_int {
    // SAFETY: the caller's promise; the lock lives as long as it counts an owner.
    let (place, lock) = unsafe { (owner.as_mut(), lock.as_ref()) };
    let (Some(place), Some(lock)) = (place, lock) else { return libc::EINVAL };
    // Relaxed: a caller that destroys the lock has heard of this call's end, or it breaks its
    // promise.
    lock.owners.fetch_add(1, Ordering::Relaxed);
    let mut owner = lock.lock.owner();
    if ranges_max > 0 {
        owner = owner.escalating(ranges_max);
    }
    *place = Box::into_raw(Box::new(manx_range_owner_t { lock, owner }));
    0
}

/// Gives back all that the owner holds, and its memory. Returns 0; also for NULL, which is no
/// owner.
///
/// # Safety
/// It points to an owner that no thread uses, or is NULL. There is none afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_destroy(owner: *mut manx_range_owner_t) -> c_int {
    if owner.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise: a box that was given away.
    let manx_range_owner_t { lock, owner } = *unsafe { Box::from_raw(owner) };
    drop(owner);
    // Release: the owner does nothing with the lock any more. Pairs with the acquire of
    // `manx_range_destroy`.
    lock.owners.fetch_sub(1, Ordering::Release);
    0
}

/// Waits until no other holder has a key of the range, and the owner has it. Returns 0; or, with
/// what was held as it was, `EDEADLK` if the owner shares some of it, and so does another holder
/// that waits to have it alone, or as `manx_range_lock`; `EAGAIN` as there; `EINVAL` if the range
/// is empty or inverted, or the owner is NULL.
///
/// # Safety
/// It points to an owner that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_lock(
    owner: *mut manx_range_owner_t,
    start: u64,
    end: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_span(owner, (start, end), |owner, span| owner.lock_as(span, Access::Exclusive)) }
}

/// Takes the range if that needs no waiting. Returns 0; `EBUSY` as `manx_range_trylock`; `EAGAIN`
/// and `EINVAL` as `manx_range_owner_lock`.
///
/// # Safety
/// It points to an owner that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_trylock(
    owner: *mut manx_range_owner_t,
    start: u64,
    end: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_span(owner, (start, end), |owner, span| owner.try_lock_as(span, Access::Exclusive)) }
}

/// As `manx_range_owner_lock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
/// `ETIMEDOUT` then.
///
/// # Safety
/// It points to an owner that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_timedlock(
    owner: *mut manx_range_owner_t,
    start: u64,
    end: u64,
    deadline_ns: u64,
) -> c_int {
    let deadline = Some(until(deadline_ns));
    // SAFETY: the caller's promise.
    unsafe {
        with_span(owner, (start, end), |owner, span| {
            owner.lock_by_deadline(span, Access::Exclusive, deadline)
        })
    }
}

/// Waits until no other holder has a key of the range for itself, and the owner shares it. Returns
/// 0; `EDEADLK` and `EAGAIN` as `manx_range_lock`; `EINVAL` as `manx_range_owner_lock`.
///
/// # Safety
/// It points to an owner that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_rdlock(
    owner: *mut manx_range_owner_t,
    start: u64,
    end: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_span(owner, (start, end), |owner, span| owner.lock_as(span, Access::Shared)) }
}

/// Shares the range if that needs no waiting. Returns what `manx_range_owner_trylock` returns.
///
/// # Safety
/// It points to an owner that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_tryrdlock(
    owner: *mut manx_range_owner_t,
    start: u64,
    end: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_span(owner, (start, end), |owner, span| owner.try_lock_as(span, Access::Shared)) }
}

/// As `manx_range_owner_rdlock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
/// `ETIMEDOUT` then.
///
/// # Safety
/// It points to an owner that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_timedrdlock(
    owner: *mut manx_range_owner_t,
    start: u64,
    end: u64,
    deadline_ns: u64,
) -> c_int {
    let deadline = Some(until(deadline_ns));
    // SAFETY: the caller's promise.
    unsafe {
        with_span(owner, (start, end), |owner, span| owner.lock_by_deadline(span, Access::Shared, deadline))
    }
}

/// Undoes the last lock of exactly this range. Returns 0; `EPERM` if the owner holds none; `EINVAL`
/// as `manx_range_owner_lock`.
///
/// # Safety
/// It points to an owner that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_unlock(
    owner: *mut manx_range_owner_t,
    start: u64,
    end: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_span(owner, (start, end), |owner, span| owner.unlock(span)) }
}

/// Gives back all that the owner holds of the range, by however many locks, and keeps what lies
/// outside of it. Returns 0; `EPERM` if it holds nothing of it; `EINVAL` as
/// `manx_range_owner_lock`; `EAGAIN` if the lock has no room for the parts that are kept: what had
/// not been given back until then is still held.
///
/// # Safety
/// It points to an owner that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_release(
    owner: *mut manx_range_owner_t,
    start: u64,
    end: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_span(owner, (start, end), |owner, span| owner.release(span)) }
}

/// Gives back all that the owner holds. Returns 0, or `EINVAL`: it is NULL.
///
/// # Safety
/// It points to an owner that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_release_all(owner: *mut manx_range_owner_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(owner, |owner| {
            owner.release_all();
            Ok(())
        })
    }
}

/// How many ranges the owner holds, 0 if it is NULL. The first `count` of them, in the order of
/// locking, are written to `spans`.
///
/// # Safety
/// They point to an owner that no other thread uses now, and to memory for `count` ranges, or are
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_owner_held(
    owner: *mut manx_range_owner_t,
    spans: *mut manx_range_span_t,
    count: usize,
) -> usize {
    // SAFETY: the caller's promise, here and below.
    let Some(it) = (unsafe { owner.as_ref() }) else { return 0 };
    let room = if spans.is_null() { 0 } else { count };
    for (index, (held, _)) in it.owner.held().take(room).enumerate() {
        // SAFETY: as above: the index is below `count`.
        unsafe { spans.add(index).write(manx_range_span_t::of(held)) };
    }
    it.owner.held().count()
}
