//! Locks of ranges of byte strings, such as a database's keys: `manx::range::RangeLock<Vec<u8>>`.
//!
//! The order is that of `memcmp`, and a key comes before longer ones that begin with it. Keys are
//! copied, so the caller's keys may be freed after the call.
//!
//! Invariant: the two words of a `manx_range_bytes_held_t` are both null, and nothing is held; or
//! they are a lock that lives, and the pointer that [`RangeGuard::into_raw`] made of a guard of
//! that lock. No two objects have the same pointer: a function that takes the guard out leaves null
//! behind.

use super::{Patience, code, create, is_used, manx_range_options_t};
use crate::mutex::until;
use core::ffi::{c_int, c_void};
use core::{mem, ptr, slice};
use manx::range::{Access, InvalidRange, LockError, RangeGuard, RangeLock, Span};

/// A lock of ranges of byte strings, in the order of `memcmp`; a key comes before longer ones that
/// begin with it. Keys whose first eight bytes are the same are looked after together; for other
/// keys `block_log2` decides, which counts these bytes as a number.
#[derive(Debug)]
#[expect(non_camel_case_types, reason = "C's name")]
pub struct manx_range_bytes_t {
    lock: RangeLock<Vec<u8>>,
}

/// A byte string, in the program's memory. The next one in the order is the same with a zero at the
/// end: if `name` ends with a zero, as strings of C do, from `{name, length}` to `{name, length +
/// 1}` is this key alone.
#[repr(C)]
#[derive(Debug)]
pub struct manx_range_key_t {
    /// The bytes.
    pub bytes: *const c_void,
    /// How many; the lowest key has none.
    pub length: usize,
}

/// A range of byte strings that is held. All-zero (`MANX_RANGE_HELD_INIT`) holds nothing. What is
/// said of `manx_range_held_t` is true of this, too.
#[repr(C)]
#[derive(Debug)]
pub struct manx_range_bytes_held_t {
    /// Private.
    lock: *const manx_range_bytes_t,
    /// Private.
    range: *const c_void,
}

const NOTHING: manx_range_bytes_held_t = manx_range_bytes_held_t { lock: ptr::null(), range: ptr::null() };

/// A copy of the caller's key; `None` for a null pointer, which is an open end.
///
/// # Safety
/// `given` points to a key, whose bytes can be read; or it is null.
unsafe fn key(given: *const manx_range_key_t) -> Result<Option<Vec<u8>>, c_int> {
    // SAFETY: the caller's promise.
    match unsafe { given.as_ref() } {
        None => Ok(None),
        Some(manx_range_key_t { length: 0, .. }) => Ok(Some(Vec::new())),
        Some(key) if key.bytes.is_null() || isize::try_from(key.length).is_err() => Err(libc::EINVAL),
        // SAFETY: the caller's promise; the length is at most `isize::MAX`.
        Some(key) => Ok(Some(unsafe { slice::from_raw_parts(key.bytes.cast::<u8>(), key.length) }.to_vec())),
    }
}

/// The span from `start` up to and without `end`, as the C caller gave them; `None` is an open end.
///
/// # Errors
/// The range is inverted or empty: C sees `EINVAL` for both.
fn span(start: Option<Vec<u8>>, end: Option<Vec<u8>>) -> Result<Span<Vec<u8>>, LockError> {
    Ok(match (start, end) {
        // The empty string is the lowest key, so a range up to it holds no key. `Span::to` cannot
        // know that and would accept it.
        (_, Some(end)) if end.is_empty() => return Err(InvalidRange::Empty.into()),
        (Some(start), Some(end)) => Span::new(start, end)?,
        (Some(start), None) => Span::from(start),
        (None, Some(end)) => Span::to(end),
        (None, None) => Span::all(),
    })
}

/// # Safety
/// As `manx_range_bytes_lock`; or pointers are null.
unsafe fn acquire(
    lock: *mut manx_range_bytes_t,
    (start, end): (*const manx_range_key_t, *const manx_range_key_t),
    access: Access,
    patience: Patience,
    held: *mut manx_range_bytes_held_t,
) -> c_int {
    if lock.is_null() || held.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: the caller's promise, here and below. The old words of `held` are not read: they
    // may never have been written.
    let (it, start, end) = unsafe {
        held.write(NOTHING);
        (&*lock, key(start), key(end))
    };
    let (start, end) = match (start, end) {
        (Ok(start), Ok(end)) => (start, end),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    let outcome = span(start, end).and_then(|span| patience.ask(&it.lock, span, access));
    match outcome {
        // SAFETY: as above.
        Ok(guard) => unsafe {
            held.write(manx_range_bytes_held_t { lock, range: guard.into_raw().cast() });
            0
        },
        Err(error) => code(&error),
    }
}

/// As `manx_range_create`, for byte strings.
///
/// # Safety
/// They point to where the lock's address is written, and to options, or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_bytes_create(
    lock: *mut *mut manx_range_bytes_t,
    options: *const manx_range_options_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { create(lock, options, |options| manx_range_bytes_t { lock: RangeLock::with(options) }) }
}

/// As `manx_range_destroy`.
///
/// # Safety
/// It points to a lock, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_bytes_destroy(lock: *mut manx_range_bytes_t) -> c_int {
    // SAFETY: the caller's promise.
    let Some(it) = (unsafe { lock.as_ref() }) else { return 0 };
    if is_used(&it.lock) {
        return libc::EBUSY;
    }
    // SAFETY: made by `create`, in memory of the layout that a box has; nothing refers to it.
    drop(unsafe { Box::from_raw(lock) });
    0
}

/// As `manx_range_lock`, from the key `start` to the key `end`, without `end`. Where `start` is
/// NULL the range begins with the lowest key, and where `end` is NULL it has no end. `EINVAL` also
/// if a key has a length and no bytes.
///
/// # Safety
/// They point to a lock, to keys or NULL, and to memory for what is held, which holds nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_bytes_lock(
    lock: *mut manx_range_bytes_t,
    start: *const manx_range_key_t,
    end: *const manx_range_key_t,
    held: *mut manx_range_bytes_held_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Exclusive, Patience::Until(None), held) }
}

/// As `manx_range_trylock`, from `start` to `end`.
///
/// # Safety
/// The pointers are as `manx_range_bytes_lock`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_bytes_trylock(
    lock: *mut manx_range_bytes_t,
    start: *const manx_range_key_t,
    end: *const manx_range_key_t,
    held: *mut manx_range_bytes_held_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Exclusive, Patience::Try, held) }
}

/// As `manx_range_timedlock`, from `start` to `end`.
///
/// # Safety
/// The pointers are as `manx_range_bytes_lock`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_bytes_timedlock(
    lock: *mut manx_range_bytes_t,
    start: *const manx_range_key_t,
    end: *const manx_range_key_t,
    deadline_ns: u64,
    held: *mut manx_range_bytes_held_t,
) -> c_int {
    let patience = Patience::Until(Some(until(deadline_ns)));
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Exclusive, patience, held) }
}

/// As `manx_range_rdlock`, from `start` to `end`.
///
/// # Safety
/// The pointers are as `manx_range_bytes_lock`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_bytes_rdlock(
    lock: *mut manx_range_bytes_t,
    start: *const manx_range_key_t,
    end: *const manx_range_key_t,
    held: *mut manx_range_bytes_held_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Shared, Patience::Until(None), held) }
}

/// As `manx_range_tryrdlock`, from `start` to `end`.
///
/// # Safety
/// The pointers are as `manx_range_bytes_lock`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_bytes_tryrdlock(
    lock: *mut manx_range_bytes_t,
    start: *const manx_range_key_t,
    end: *const manx_range_key_t,
    held: *mut manx_range_bytes_held_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Shared, Patience::Try, held) }
}

/// As `manx_range_timedrdlock`, from `start` to `end`.
///
/// # Safety
/// The pointers are as `manx_range_bytes_lock`'s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_bytes_timedrdlock(
    lock: *mut manx_range_bytes_t,
    start: *const manx_range_key_t,
    end: *const manx_range_key_t,
    deadline_ns: u64,
    held: *mut manx_range_bytes_held_t,
) -> c_int {
    let patience = Patience::Until(Some(until(deadline_ns)));
    // SAFETY: the caller's promise.
    unsafe { acquire(lock, (start, end), Access::Shared, patience, held) }
}

/// As `manx_range_unlock`.
///
/// # Safety
/// It points to what a function of this header made, or to zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_bytes_unlock(held: *mut manx_range_bytes_held_t) -> c_int {
    // SAFETY: the caller's promise.
    let Some(held) = (unsafe { held.as_mut() }) else { return libc::EINVAL };
    let manx_range_bytes_held_t { lock, range } = mem::replace(held, NOTHING);
    // SAFETY: the Invariant: null, or a lock that lives.
    let Some(it) = (unsafe { lock.as_ref() }) else { return libc::EPERM };
    // SAFETY: the Invariant: made of a guard of this lock, and gone from where it was.
    drop(unsafe { RangeGuard::from_raw(&it.lock, range.cast()) });
    0
}
