//! Threads that wait for a condition by the C library's own functions, on a variable that is
//! otherwise ours.
//!
//! A library that was opened with `RTLD_DEEPBIND` finds the C library's `pthread_cond_wait` before
//! ours. Its threads then wait on the same variable as threads that came to us, by another
//! protocol, and our signal would not wake them. The two protocols cannot be one: the C library
//! uses all 48 bytes, and our words ([`super::object`]) lie where it numbers its waiters. But what
//! its waiters look at while they wait lies elsewhere:
//!
//! | byte | in versions 2.25 to 2.40 |
//! | --- | --- |
//! | 36 | `__wrefs`: two flags, a bit for `pthread_cond_destroy`, and 8 for each thread that waits |
//! | 40, 44 | `__g_signals`: for each of two groups, 2 for each signal that may be taken; waiters sleep here |
//!
//! Which group a waiter is in follows from the numbers that we overwrite. So a signal of ours puts
//! as many signals as there are waiters into both groups and wakes all: a broadcast. POSIX allows
//! waits to end for no reason, and callers look again.
//!
//! # What remains impossible
//! 1. A signal by the C library's function does not wake our waiters, nor, on a variable that we
//!    use too, with certainty its own: it computes with the numbers that we overwrite. So `dlsym`
//!    and `dlvsym` lead to our functions where the program asked for the C library's by a handle
//!    ([`instead`]). Calls that the loader itself bound there (`RTLD_DEEPBIND`), and
//!    `dlsym(RTLD_NEXT)` from a library that comes after ours, remain.
//! 2. Signals are anonymous: a thread that comes to wait by the C library's function after a
//!    broadcast may take the signal of one that was woken and has yet to run. That one sleeps until
//!    the next signal.
//! 3. Versions from 2.41 on compare the signals with the numbers that we overwrite. There nothing
//!    is done.
//!
//! Invariants:
//! 1. A thread that waits by the C library's function has added itself to `__wrefs` before it
//!    released the mutex, so a signal that follows a change made under the mutex sees it.
//! 2. Both groups are changed by one step, and after it the variable is touched no more: a waiter
//!    that was woken may destroy it. The kernel gets the addresses as names.

use super::mode;
use super::object::{Cond, Flags};
use crate::real;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use platform::futex;
use preload_abi::options::Lock;

/// One waiter in `__wrefs`.
const WAITER: u32 = 8;
/// One signal in `__g_signals`; the bit below says that the group is closed.
const SIGNAL: u32 = 2;
const CLOSED: u32 = 1;

/// Whether the C library's waiters look at a variable as the table says. Found out once.
fn is_known() -> bool {
    /// 0 until known, then 1 for no and 2 for yes.
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: returns a constant string.
            let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
            let known = Flags::get() == Flags::KNOWN && is_known_version(version.to_bytes());
            // Relaxed: all threads that look find the same, and the value is all there is.
            KNOWN.store(1 + usize::from(known), Ordering::Relaxed);
            known
        }
        known => known == 2,
    }
}

/// Whether a version, as "2.36", is between 2.25 and 2.40.
fn is_known_version(version: &[u8]) -> bool {
    let minor = version.strip_prefix(b"2.").unwrap_or(b"");
    let digits = minor.iter().take_while(|byte| byte.is_ascii_digit());
    let minor = digits.fold(0_u32, |all, byte| all.saturating_mul(10) + u32::from(byte - b'0'));
    (25..=40).contains(&minor)
}

/// How many threads wait for the variable by the C library's functions, or are on their way out.
#[inline]
pub(super) fn waiters(cond: &Cond) -> u32 {
    // Relaxed: Invariant 1.
    cond.references().load(Ordering::Relaxed) / WAITER
}

/// Wakes the `waiters` threads that wait by the C library's functions.
#[cold]
pub(super) fn wake(cond: &Cond, waiters: u32) {
    if !is_known() {
        return;
    }
    let signals = cond.signals();
    let groups = (&raw const *signals).cast::<AtomicU32>();
    let mut seen = signals.load(Ordering::Relaxed);
    loop {
        let [low, high] = [seen as u32, (seen >> 32) as u32].map(|group| with_signals(group, waiters));
        let full = u64::from(high) << 32 | u64::from(low);
        // Release pairs with the acquire of a waiter that takes a signal. The step is made even if
        // nothing changes: a waiter that came to sleep before it is woken below, and a waiter that
        // comes after it finds the signals.
        match signals.compare_exchange_weak(seen, full, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => seen = now,
        }
    }
    for group in [groups, groups.wrapping_add(1)] {
        // The variable may be gone (Invariant 2): its address is enough.
        futex::wake_all(group);
    }
}

/// A group with at least this number of signals.
fn with_signals(group: u32, waiters: u32) -> u32 {
    (group & !CLOSED).max(waiters.saturating_mul(SIGNAL)) | group & CLOSED
}

/// A function for conditions: its name, and a function that returns ours.
pub type Ours = (&'static CStr, extern "C" fn() -> usize);

/// What `dlsym` and `dlvsym` are to jump to instead, if the program asks a handle for one of the C
/// library's functions for conditions: a function that returns ours.
///
/// # Safety
/// `real` is the C library's `dlsym`, and handle and name are what a program passed to `dlsym` or
/// `dlvsym`.
pub unsafe fn instead(
    ours: &[Ours],
    real: usize,
    handle: *mut c_void,
    name: *const c_char,
) -> Option<extern "C" fn() -> usize> {
    if handle == libc::RTLD_DEFAULT || handle == libc::RTLD_NEXT || name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let asked = unsafe { CStr::from_ptr(name) };
    let (_, answer) = ours.iter().find(|(name, _)| *name == asked)?;
    if mode::get() == Lock::Glibc {
        return None;
    }
    // By a handle the caller's address is of no matter, so this call finds what the program's
    // would. SAFETY: the caller's promise; `dlsym` has this type.
    let found = unsafe {
        let dlsym: extern "C" fn(*mut c_void, *const c_char) -> usize = core::mem::transmute(real);
        dlsym(handle, name)
    };
    is_the_c_librarys(found).then_some(*answer)
}

/// Whether a function for conditions at this address is the C library's, in the version that new
/// programs get.
fn is_the_c_librarys(address: usize) -> bool {
    let all = [
        &real::pthread_cond_wait,
        &real::pthread_cond_timedwait,
        &real::pthread_cond_clockwait,
        &real::pthread_cond_signal,
        &real::pthread_cond_broadcast,
        &real::pthread_cond_init,
        &real::pthread_cond_destroy,
        &real::cnd_wait,
        &real::cnd_timedwait,
        &real::cnd_signal,
        &real::cnd_broadcast,
        &real::cnd_destroy,
    ];
    address != 0 && all.iter().any(|real| real.get() == Some(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        for known in ["2.25", "2.31", "2.36", "2.40", "2.36.9000"] {
            assert!(is_known_version(known.as_bytes()), "{known}");
        }
        for unknown in ["2.24", "2.41", "2.4", "2.100", "3.30", "", "2."] {
            assert!(!is_known_version(unknown.as_bytes()), "{unknown}");
        }
    }

    #[test]
    fn groups_have_a_signal_for_each_waiter() {
        assert_eq!(with_signals(0, 3), 6);
        assert_eq!(with_signals(8, 3), 8);
        assert_eq!(with_signals(CLOSED, 1), 2 + CLOSED);
    }
}
