//! What the library was asked to do: one copy of the options, for all code that obeys them.
//!
//! Invariants:
//! 1. [`keep`] is called once, before the first site is repaired. It writes [`KEPT`], and only then
//!    lets [`NOW`] point to it, so that what `NOW` points to never changes.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, Ordering};
use preload_abi::filter::Entries;
use preload_abi::options::{Guard, Lock, Options, Stats};
use preload_abi::slo::Slos;

/// What holds until the options have been read: the library does nothing.
static UNREAD: Options<'static> =
    Options { guard: Guard::Off, lock: Lock::Glibc, cache: false, ..Options::DEFAULT };

struct Kept(UnsafeCell<Options<'static>>);

// SAFETY: by Invariant 1 it is written once, by one thread, and read afterwards.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new(Options::DEFAULT));
static NOW: AtomicPtr<Options<'static>> = AtomicPtr::new((&raw const UNREAD).cast_mut());

/// Takes over the options, but for texts: the program may overwrite the environment, where they
/// are. What needs one later copies it when the options are read.
pub fn keep(options: Options<'static>) {
    let kept = Options {
        slo: Slos::NONE,
        only: Entries::NONE,
        not: Entries::NONE,
        stats: Stats::Off,
        rejected: None,
        ..options
    };
    // SAFETY: by Invariant 1 nothing reads it yet, and nothing else writes it.
    unsafe { *KEPT.0.get() = kept };
    // Release: pairs with the acquire in `settings`.
    NOW.store(KEPT.0.get(), Ordering::Release);
}

/// The settings of this process.
#[inline]
pub fn settings() -> &'static Options<'static> {
    // Acquire: pairs with the release in `keep`. SAFETY: it points to `UNREAD`, or by Invariant 1 to
    // what no longer changes.
    unsafe { &*NOW.load(Ordering::Acquire) }
}
