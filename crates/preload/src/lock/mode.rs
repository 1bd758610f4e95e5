//! Which locks the program gets, decided once.
//!
//! The first function of ours that is called decides, be it before our constructor. While a thread
//! is reading the options, calls are passed to the C library. Its locks and all of ours agree on
//! which thread holds a mutex, so a mutex that was locked before the decision is unlocked after it,
//! and the other way round.
//!
//! If threads on little CPUs are to be slowed ([`dilate`]), the mode stays undecided for good. Each
//! call of the program then takes the way of a call that comes before the decision, which stretches
//! it. So calls that are not stretched pay nothing for it.

use crate::settings::settings;
use crate::{dilate, thread};
use core::sync::atomic::{AtomicU32, Ordering};
use preload_abi::options::Lock;

/// [`Lock`] as a number, or [`UNDECIDED`].
static MODE: AtomicU32 = AtomicU32::new(UNDECIDED);
const UNDECIDED: u32 = u32::MAX;

/// Whether mutexes are those of [`manx::lock::bounded`], with a window or without, and nothing else
/// is to be done when they are taken.
#[inline(always)]
pub fn is_direct() -> bool {
    const { assert!(Lock::Manx as u32 == 0 && Lock::Adaptive as u32 == 1) };
    // Relaxed: the number is all there is to see.
    MODE.load(Ordering::Relaxed) <= Lock::Adaptive as u32
}

/// Whether mutexes are those of [`super::asl`], and nothing else is to be done when they are taken.
#[inline(always)]
pub fn is_asl() -> bool {
    MODE.load(Ordering::Relaxed) == Lock::Asl as u32
}

#[inline]
fn known() -> Option<Lock> {
    Lock::from_number(MODE.load(Ordering::Relaxed))
}

/// Does what the program has called for, by its locks as [`get`] or [`get_for_good`] has them.
#[inline]
pub(super) fn serve<R>(get: fn() -> Lock, call: impl FnOnce(Lock) -> R) -> R {
    match known() {
        Some(lock) => call(lock),
        None => dilate::stretch(&thread::current().past, || call(get())),
    }
}

/// The program's locks.
#[inline]
pub fn get() -> Lock {
    known().unwrap_or_else(decide)
}

/// The same for condition variables, which the C library and we keep differently: no thread may
/// wait by one way of keeping them and be signalled by the other. So a thread that comes while
/// another one reads the options waits for it.
#[inline]
pub fn get_for_good() -> Lock {
    known().unwrap_or_else(decide_for_good)
}

#[cold]
fn decide_for_good() -> Lock {
    #[cfg(not(test))]
    if !crate::entry::read() {
        crate::entry::wait_until_read();
    }
    decide()
}

#[cold]
fn decide() -> Lock {
    #[cfg(not(test))]
    if !crate::entry::read() {
        return Lock::Glibc;
    }
    let lock = settings().lock;
    if !dilate::is_wanted() {
        MODE.store(lock as u32, Ordering::Relaxed);
    }
    lock
}
