//! The names by which programs reach us. All are exported without a version, and so serve callers
//! of every version.
//!
//! SAFETY of all of these: objects are what the C library's functions of these names are given, and
//! they live as long as these have to; times may be read.

use crate::object::{Cond, Mutex};
use crate::{cond, locks, mutex, real};
use core::ffi::c_int;
use libc::{clockid_t, pthread_condattr_t, pthread_mutexattr_t, timespec};

macro_rules! exports {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $type:ty),*) = $call:expr;)*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            #[allow(unused_unsafe)]
            // SAFETY: the caller passes what the C library's function of this name is passed.
            unsafe { $call }
        }
    )*};
}

exports! {
    /// Begins the life of a mutex.
    pthread_mutex_init(mutex: *mut Mutex, attributes: *const pthread_mutexattr_t) =
        real::pthread_mutex_init()(mutex, attributes);
    /// Begins the life of a mutex.
    __pthread_mutex_init(mutex: *mut Mutex, attributes: *const pthread_mutexattr_t) =
        real::pthread_mutex_init()(mutex, attributes);
    /// Ends the life of a mutex.
    pthread_mutex_destroy(mutex: &Mutex) = mutex::destroy(mutex);
    /// Ends the life of a mutex.
    __pthread_mutex_destroy(mutex: &Mutex) = mutex::destroy(mutex);
    /// Locks.
    pthread_mutex_lock(mutex: &Mutex) = mutex::lock(mutex);
    /// Locks.
    __pthread_mutex_lock(mutex: &Mutex) = mutex::lock(mutex);
    /// Locks, if that needs no waiting.
    pthread_mutex_trylock(mutex: &Mutex) = mutex::trylock(mutex);
    /// Locks, if that needs no waiting.
    __pthread_mutex_trylock(mutex: &Mutex) = mutex::trylock(mutex);
    /// Locks, until a time since 1970.
    pthread_mutex_timedlock(mutex: &Mutex, time: *const timespec) =
        mutex::lock_until(mutex, libc::CLOCK_REALTIME, time);
    /// Locks, until a time by this clock.
    pthread_mutex_clocklock(mutex: &Mutex, clock: clockid_t, time: *const timespec) =
        mutex::lock_until(mutex, clock, time);
    /// Unlocks.
    pthread_mutex_unlock(mutex: &Mutex) = mutex::unlock(mutex);
    /// Unlocks.
    __pthread_mutex_unlock(mutex: &Mutex) = mutex::unlock(mutex);
    /// Begins the life of a variable.
    pthread_cond_init(variable: *mut Cond, attributes: *const pthread_condattr_t) =
        real::pthread_cond_init()(variable, attributes);
    /// Ends the life of a variable.
    pthread_cond_destroy(variable: &Cond) = cond::destroy(variable);
    /// Waits to be signalled.
    pthread_cond_wait(variable: &Cond, mutex: &Mutex) = cond::wait(variable, mutex);
    /// Waits to be signalled, until a time.
    pthread_cond_timedwait(variable: &Cond, mutex: &Mutex, time: *const timespec) =
        cond::wait_until(variable, mutex, time);
    /// Waits to be signalled, until a time by this clock.
    pthread_cond_clockwait(variable: &Cond, mutex: &Mutex, clock: clockid_t, time: *const timespec) =
        cond::wait_until_by(variable, mutex, clock, time);
    /// Wakes one waiter.
    pthread_cond_signal(variable: &Cond) = cond::signal(variable);
    /// Wakes all waiters.
    pthread_cond_broadcast(variable: &Cond) = cond::broadcast(variable);
}

/// The calling thread begins an epoch: `bench/engines/engine.h` calls it if it is there.
#[unsafe(no_mangle)]
pub extern "C" fn rival_epoch_start(id: u64) {
    (locks::chosen().epochs.start)(id);
}

/// The epoch ends, and was to take no longer than `slo_ns` nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn rival_epoch_end(id: u64, slo_ns: u64) {
    (locks::chosen().epochs.end)(id, slo_ns);
}

/// Runs when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    crate::arena::prepare_for_fork();
}
