//! The range lock: `manx::range::RangeLock<u64>`.
//!
//! A lock is some 37 KB, so it is made on the heap and C has a pointer. For what it holds, C has
//! two words (`held.rs`), a pointer to a set (`many.rs`), or a pointer to an owner (`owner.rs`).
//! Locks of byte strings have only the two words (`bytes.rs`).
//!
//! Ranges are half-open and their ends are numbers, so one number has to stand for the open end:
//! the highest, `END`. A range up to `END` contains the key `END` too. So every key can be locked.
//! The price is one range that C cannot name: the range up to the highest key without that key. No
//! function here makes such a range.
//!
//! Invariant: a lock lives until `manx_range_destroy` returns 0, which it does not while anything
//! refers to the lock: a held range, a waiter, or an owner, which is counted.

// In the order in which they stand in the header.
pub mod held;
pub mod many;
pub mod owner;

mod deadlock;
pub mod dump;

pub mod bytes;

use crate::elsewhere;
use core::ffi::c_int;
use manx::range::{Access, Key, LockError, Options, RangeGuard, RangeLock, Span};
use platform::atomic::{AtomicUsize, Ordering};
use platform::futex::Deadline;
use std::alloc::{Layout, alloc};
use std::time::Duration;

/// The end of a range that has no end: it has the key `UINT64_MAX` as well.
const END: u64 = u64::MAX;

/// A lock of ranges of keys, which are numbers of 64 bits: offsets of a file, addresses, numbers of
/// records. Ranges are half-open, from a first key to the one after the last. Waiters are overtaken
/// by others that want some of the same keys, for 100 µs or as their epoch or the lock's options
/// say. Then they are served in the order of arrival. A caller that wants other keys is not in
/// their way.
#[derive(Debug)]
#[expect(non_camel_case_types, reason = "C's name")]
pub struct manx_range_t {
    lock: RangeLock<u64>,
    owners: AtomicUsize,
}

/// How a lock is to be made. What is 0 is as usual, so that all-zero (`{0}`) is the usual lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct manx_range_options_t {
    /// Ranges within the same 2^`block_log2` keys are looked after together; ranges of different
    /// blocks are not in each other's way. Best are blocks somewhat larger than the usual range. 14
    /// unless said, at most 63.
    pub block_log2: u32,
    /// The number of ranges that may be held, in eights, beside the several hundred that the lock
    /// has room for. Wide ranges, over more than some eight blocks, are always beside these. 2^20
    /// unless said.
    pub spill_max: u32,
    /// For how long a waiter may be overtaken, in nanoseconds, in epochs too; 1 is as good as the
    /// order of arrival.
    pub window_ns: u64,
    /// Not 0: it is recorded since when ranges are held, for `manx_range_dump`. It costs a look at
    /// the clock each time.
    pub recorded: u32,
    /// Not 0: a caller gets `EDEADLK` if it would wait for a holder that waits, perhaps by way of
    /// others, for this caller.
    pub detect_deadlocks: u32,
}

/// From `start` to `end`, without `end`; if that is `MANX_RANGE_END`, all keys from `start` on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct manx_range_span_t {
    /// The first key.
    pub start: u64,
    /// The key after the last.
    pub end: u64,
}

impl manx_range_span_t {
    fn of(span: &Span<u64>) -> manx_range_span_t {
        manx_range_span_t {
            start: span.start().copied().unwrap_or(0),
            end: span.end().copied().unwrap_or(END),
        }
    }
}

/// The span from `start` up to and without `end`, as the C caller gave them; `END` is an open end.
///
/// # Errors
/// The range is inverted or empty: C sees `EINVAL` for both.
fn span(start: u64, end: u64) -> Result<Span<u64>, LockError> {
    if end == END { Ok(Span::from(start)) } else { Ok(Span::new(start, end)?) }
}

/// The error number that C gets for an error.
#[cold]
fn code(error: &LockError) -> c_int {
    match error {
        LockError::InvalidRange(_) => libc::EINVAL,
        LockError::WouldBlock => libc::EBUSY,
        LockError::TimedOut => libc::ETIMEDOUT,
        LockError::TooMany { .. } => libc::EAGAIN,
        LockError::NotHeld => libc::EPERM,
        LockError::Deadlock(_) | LockError::UpgradeDeadlock => {
            deadlock::remember(error);
            libc::EDEADLK
        }
        // A later version of the lock has a reason that this header does not name.
        _ => libc::EINVAL,
    }
}

/// How long a caller waits for a range.
#[derive(Clone, Copy)]
enum Patience {
    Try,
    Until(Option<Deadline>),
}

impl Patience {
    fn ask<K: Key>(
        self,
        lock: &RangeLock<K>,
        span: Span<K>,
        access: Access,
    ) -> Result<RangeGuard<'_, K>, LockError> {
        match self {
            Patience::Try => lock.try_lock_as(span, access),
            Patience::Until(deadline) => lock.lock_by_deadline(span, access, deadline),
        }
    }
}

fn result(outcome: Result<(), LockError>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(error) => code(&error),
    }
}

/// What the options say.
fn options(given: &manx_range_options_t) -> Result<Options, c_int> {
    let mut options = Options::new();
    if given.block_log2 > 63 {
        return Err(libc::EINVAL);
    }
    if given.block_log2 > 0 {
        options = options.block_log2(given.block_log2);
    }
    if given.spill_max > 0 {
        options = options.spill_max(given.spill_max);
    }
    if given.window_ns > 0 {
        options = options.window(Duration::from_nanos(given.window_ns));
    }
    if given.recorded != 0 {
        options = options.recorded();
    }
    if given.detect_deadlocks != 0 {
        options = options.detecting_deadlocks();
    }
    Ok(options)
}

/// Puts a lock that is made as told onto the heap, without an end of the program if that is full.
///
/// # Safety
/// They point to where the lock's address is written, and to options, or are null.
unsafe fn create<T>(
    place: *mut *mut T,
    given: *const manx_range_options_t,
    make: impl FnOnce(Options) -> T,
) -> c_int {
    // SAFETY: the caller's promise.
    let (place, given) = unsafe { (place.as_mut(), given.as_ref()) };
    let Some(place) = place else { return libc::EINVAL };
    let options = match given.map_or(Ok(Options::new()), options) {
        Ok(options) => options,
        Err(error) => return error,
    };
    // Waiters ask for their windows, wherever epochs are kept.
    elsewhere::get();
    // SAFETY: the layout of a lock is not empty.
    let fresh = unsafe { alloc(Layout::new::<T>()) }.cast::<T>();
    if fresh.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: just allocated, as large and aligned as that.
    unsafe { fresh.write(make(options)) };
    *place = fresh;
    0
}

/// Whether anything in a lock refers to it.
fn is_used<K: Key>(lock: &RangeLock<K>) -> bool {
    let dump = lock.dump();
    !dump.held.is_empty() || !dump.waiting.is_empty()
}

/// Makes a lock without held ranges, as `options` say, or as usual if they are NULL. Returns 0,
/// `ENOMEM`, or `EINVAL`: a `block_log2` above 63, or `lock` is NULL.
///
/// # Safety
/// They point to where the lock's address is written, and to options, or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_create(
    lock: *mut *mut manx_range_t,
    options: *const manx_range_options_t,
) -> c_int {
    let make = |options| manx_range_t { lock: RangeLock::with(options), owners: AtomicUsize::new(0) };
    // SAFETY: the caller's promise.
    unsafe { create(lock, options, make) }
}

/// Gives the lock's memory back. No other thread may be using the lock. Returns 0; also for NULL,
/// which is no lock; or `EBUSY` if a range of it is held, a thread waits, or an owner is left; it
/// is a lock as before then.
///
/// # Safety
/// It points to a lock, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_range_destroy(lock: *mut manx_range_t) -> c_int {
    // SAFETY: the caller's promise.
    let Some(it) = (unsafe { lock.as_ref() }) else { return 0 };
    // Acquire pairs with the release of `manx_range_owner_destroy`.
    if it.owners.load(Ordering::Acquire) > 0 || is_used(&it.lock) {
        return libc::EBUSY;
    }
    // SAFETY: made by `create`, in memory of the layout that a box has; nothing refers to it (the
    // Invariant).
    drop(unsafe { Box::from_raw(lock) });
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_can_be_locked_and_a_range_up_to_the_highest_is_open() {
        assert_eq!(span(END, END), Ok(Span::from(END)));
        assert_eq!(span(0, END), Ok(Span::from(0)));
        assert_eq!(span(0, 1), Ok(Span::point(0)));
        assert!(span(7, 7).is_err() && span(8, 7).is_err());
        assert_eq!(manx_range_span_t::of(&Span::from(3)), manx_range_span_t { start: 3, end: END });
    }
}
