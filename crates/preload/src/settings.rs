//! What the library was asked to do: the options, in one place for all code that obeys them.
//!
//! Invariants:
//! 1. [`keep`] is called once, before the options count as read. It writes `KEPT`, and only then
//!    lets `NOW` point to it, so that what `NOW` points to never changes.
//! 2. The program may overwrite its environment, so what is kept refers to a copy of the text,
//!    which stays for good.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, Ordering};
use platform::memory::{READ, WRITE, map_zeroes};
use preload_abi::options::{Guard, Lock, Options};

/// What holds until the options have been read: the library does nothing.
static UNREAD: Options<'static> =
    Options { guard: Guard::Off, lock: Lock::Glibc, cache: false, ..Options::DEFAULT };

struct Kept(UnsafeCell<Options<'static>>);

// SAFETY: by Invariant 1 it is written once, by one thread, and read afterwards.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new(Options::DEFAULT));
static NOW: AtomicPtr<Options<'static>> = AtomicPtr::new((&raw const UNREAD).cast_mut());

/// Reads the options in `text`, for good.
pub fn keep(text: &'static [u8]) {
    // Without memory for a copy the text must do as it is.
    let text = copy(text).unwrap_or(text);
    // SAFETY: by Invariant 1 nothing reads it yet, and nothing else writes it.
    unsafe { *KEPT.0.get() = Options::parse(text) };
    // Release: pairs with the acquire in `settings`.
    NOW.store(KEPT.0.get(), Ordering::Release);
}

fn copy(text: &[u8]) -> Option<&'static [u8]> {
    if text.is_empty() {
        return Some(b"");
    }
    let copy = map_zeroes(text.len(), READ | WRITE).ok()?;
    // SAFETY: the mapping is as long as the text, is known to nobody else, and stays.
    unsafe {
        copy.copy_from_nonoverlapping(text.as_ptr(), text.len());
        Some(core::slice::from_raw_parts(copy, text.len()))
    }
}

/// The settings of this process.
#[inline]
pub fn settings() -> &'static Options<'static> {
    // Acquire: pairs with the release in `keep`. SAFETY: it points to `UNREAD`, or by Invariant 1
    // to what no longer changes.
    unsafe { &*NOW.load(Ordering::Acquire) }
}
