//! Which locks the program gets, and whether it is dilated, decided once.
//!
//! The first function of ours that is called decides, be it before our constructor. While a thread
//! is reading the options, calls are passed to the C library. Its locks and all of ours agree on
//! which thread holds a mutex, so a mutex that was locked before the decision is unlocked after it,
//! and the other way round.

use crate::settings::SETTINGS;
use core::sync::atomic::{AtomicU32, Ordering};
use preload_abi::options::Lock;

/// [`Lock`] as a number, with [`DILATED`], or [`UNDECIDED`].
static MODE: AtomicU32 = AtomicU32::new(UNDECIDED);
const UNDECIDED: u32 = LOCK;
const LOCK: u32 = DILATED - 1;
/// Threads on little CPUs are slowed: see [`super::dilate`].
const DILATED: u32 = 16;

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

/// Whether threads on little CPUs are slowed.
#[inline]
pub fn is_dilated() -> bool {
    MODE.load(Ordering::Relaxed) & DILATED != 0
}

#[inline]
fn known() -> Option<Lock> {
    Lock::from_number(MODE.load(Ordering::Relaxed) & LOCK)
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
    let lock = SETTINGS.lock();
    let dilated = if SETTINGS.dilation.load(Ordering::Relaxed) > 1000 { DILATED } else { 0 };
    MODE.store(lock as u32 | dilated, Ordering::Relaxed);
    lock
}
