//! Which locks the program gets, decided once.
//!
//! The first function of ours that is called decides, be it before our constructor. While somebody
//! is reading the options, calls are passed to the C library: its locks and all of ours have the
//! same idea of who holds a mutex, so one that was locked before the decision is unlocked after it, and the
//! other way round.

use crate::settings::SETTINGS;
use core::sync::atomic::{AtomicU32, Ordering};
use preload_abi::options::Lock;

/// [`Lock`] as a number, or [`UNDECIDED`].
static MODE: AtomicU32 = AtomicU32::new(UNDECIDED);
const UNDECIDED: u32 = u32::MAX;

/// Whether mutexes are those of [`manx::lock::bounded`], with a window or without.
#[inline(always)]
pub fn is_bounded() -> bool {
    const { assert!(Lock::Asl as u32 == 2 && Lock::Fifo as u32 > 2 && Lock::Glibc as u32 > 2) };
    // Relaxed: the number is all there is to see.
    MODE.load(Ordering::Relaxed) <= Lock::Asl as u32
}

/// The program's locks.
#[inline]
pub fn get() -> Lock {
    Lock::from_number(MODE.load(Ordering::Relaxed)).unwrap_or_else(decide)
}

/// The same for condition variables, which the C library and we keep differently: nobody may wait by one idea of them
/// and be signalled by another. So a thread that comes while another one reads the options waits for it.
#[inline]
pub fn get_for_good() -> Lock {
    Lock::from_number(MODE.load(Ordering::Relaxed)).unwrap_or_else(decide_for_good)
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
    MODE.store(lock as u32, Ordering::Relaxed);
    lock
}
