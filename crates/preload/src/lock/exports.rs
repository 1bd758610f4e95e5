//! The names by which programs reach us.
//!
//! Functions that may wait get the address to which the program's call returns, for the statistics.
//!
//! SAFETY of all of these: objects are what the C library's functions of these names are given, and
//! they live as long as these have to; times may be read if they are not null.

use super::foreign::Ours;
use super::object::{Cond, Mutex};
use super::{c11, cond, mutex, real};
use crate::caller::with_caller;
use crate::spin_lock;
use core::ffi::c_int;
use core::sync::atomic::AtomicI32;

with_caller! {
    /// Locks.
    pthread_mutex_lock(1) = mutex::lock;
    /// Locks.
    __pthread_mutex_lock(1) = mutex::lock;
    /// Locks, until a time since 1970.
    pthread_mutex_timedlock(2) = mutex::lock_until;
    /// Locks, until a time by this clock.
    pthread_mutex_clocklock(3) = mutex::lock_until_by;
    /// Locks.
    mtx_lock(1) = c11::lock;
    /// Locks, until a time since 1970.
    mtx_timedlock(2) = c11::lock_until;
    /// Waits to be signalled.
    pthread_cond_wait(2) = cond::wait;
    /// Waits to be signalled, until a time.
    pthread_cond_timedwait(3) = cond::wait_until;
    /// Waits to be signalled, until a time by this clock.
    pthread_cond_clockwait(4) = cond::wait_until_by;
    /// Waits to be signalled.
    cnd_wait(2) = c11::wait;
    /// Waits to be signalled, until a time since 1970.
    cnd_timedwait(3) = c11::wait_until;
}

/// Exported functions that need no more than their arguments.
macro_rules! plain {
    ($($(#[$attribute:meta])* $name:ident($argument:ident: $type:ty) = $call:path;)*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($argument: *const $type) -> c_int {
            // SAFETY: the caller passes an object of this type that lives as long as the call.
            $call(unsafe { &*$argument })
        }
    )*};
}

plain! {
    /// Locks, if that needs no waiting.
    pthread_mutex_trylock(object: Mutex) = mutex::trylock;
    /// Locks, if that needs no waiting.
    __pthread_mutex_trylock(object: Mutex) = mutex::trylock;
    /// Unlocks.
    pthread_mutex_unlock(object: Mutex) = mutex::unlock;
    /// Unlocks.
    __pthread_mutex_unlock(object: Mutex) = mutex::unlock;
    /// Locks a spin lock.
    pthread_spin_lock(word: AtomicI32) = spin_lock::lock;
    /// Locks a spin lock, if that needs no waiting.
    pthread_spin_trylock(word: AtomicI32) = spin_lock::trylock;
    /// Unlocks a spin lock.
    pthread_spin_unlock(word: AtomicI32) = spin_lock::unlock;
    /// Wakes one waiter.
    pthread_cond_signal(variable: Cond) = cond::signal;
    /// Wakes all waiters.
    pthread_cond_broadcast(variable: Cond) = cond::broadcast;
    /// Ends the life of a variable.
    pthread_cond_destroy(variable: Cond) = cond::destroy;
    /// Locks, if that needs no waiting.
    mtx_trylock(object: Mutex) = c11::trylock;
    /// Unlocks.
    mtx_unlock(object: Mutex) = c11::unlock;
    /// Wakes one waiter.
    cnd_signal(variable: Cond) = c11::signal;
    /// Wakes all waiters.
    cnd_broadcast(variable: Cond) = c11::broadcast;
}

/// Ends the life of a variable.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_destroy(variable: *const Cond) {
    // SAFETY: the caller passes a variable that lives as long as the call.
    c11::destroy(unsafe { &*variable });
}

/// Begins the life of a variable, by the C library's newest version of this function: the oldest
/// one clears eight bytes only.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_init(
    variable: *mut Cond,
    attributes: *const libc::pthread_condattr_t,
) -> c_int {
    real::init().map_or(libc::ENOSYS, |real| real(variable, attributes))
}

/// The functions for conditions, by the names for which `dlsym` may be asked: see
/// [`super::foreign`].
macro_rules! conditions {
    ($($name:ident = $literal:literal;)*) => {
        /// Each of them.
        pub static CONDITIONS: &[Ours] = &[$({
            extern "C" fn ours() -> usize {
                $name as *const () as usize
            }
            ($literal, ours)
        }),*];
    };
}

conditions! {
    pthread_cond_wait = c"pthread_cond_wait";
    pthread_cond_timedwait = c"pthread_cond_timedwait";
    pthread_cond_clockwait = c"pthread_cond_clockwait";
    pthread_cond_signal = c"pthread_cond_signal";
    pthread_cond_broadcast = c"pthread_cond_broadcast";
    pthread_cond_init = c"pthread_cond_init";
    pthread_cond_destroy = c"pthread_cond_destroy";
    cnd_wait = c"cnd_wait";
    cnd_timedwait = c"cnd_timedwait";
    cnd_signal = c"cnd_signal";
    cnd_broadcast = c"cnd_broadcast";
    cnd_destroy = c"cnd_destroy";
}
