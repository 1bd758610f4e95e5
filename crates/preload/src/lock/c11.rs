//! C11's `mtx_*` and `cnd_*`: the program's mutexes and condition variables by other names.
//!
//! In the GNU C library an `mtx_t` is a `pthread_mutex_t` and a `cnd_t` is a `pthread_cond_t`. Its
//! functions for them call its functions for POSIX threads from the inside, where no export of ours
//! is in the way. So each function is exported by itself. Otherwise a program that signals by one
//! name and waits by the other would use two implementations of one variable, and lose the wake-up.
//!
//! | function | served by |
//! | --- | --- |
//! | `mtx_lock`, `mtx_timedlock`, `mtx_trylock`, `mtx_unlock` | [`mutex`] |
//! | `cnd_wait`, `cnd_timedwait`, `cnd_signal`, `cnd_broadcast`, `cnd_destroy` | [`cond`] |
//! | `mtx_init`, `cnd_init`, `mtx_destroy` | the C library, and not exported |
//!
//! The last three are left for the reason for which `pthread_mutex_init` is left: they write what
//! [`super::object`] reads. `mtx_init` zeroes the object and writes the kind; which types it takes
//! for recursive is its own affair. `cnd_init` writes zeroes. `mtx_destroy` looks at nothing that
//! is ours. But `cnd_destroy` has to wait for threads that still touch the variable, and only ours
//! knows them.
//!
//! Other libraries have functions of these names, too. tinycthread's `mtx_lock` returns 1 for
//! success, and its mutex is another structure. A library that is loaded before the C library then
//! calls its own functions, and would now call ours. So if one of the nine is another library's,
//! all of them are passed on ([`is_c11_the_c_librarys`]). A wrapper that stands behind us counts as
//! such a library.
//!
//! With `--lock=glibc`, `mutex` and `cond` pass on to the C library's functions for POSIX threads,
//! which its own C11 functions call.

use super::object::{Cond, Mutex};
use super::{cond, mutex, real};
use crate::real::is_c11_the_c_librarys;
use core::ffi::c_int;
use libc::{EBUSY, ENOMEM, ETIMEDOUT, timespec};

/// `thrd_success`
const SUCCESS: c_int = 0;
/// `thrd_busy`
const BUSY: c_int = 1;
/// `thrd_error`
const ERROR: c_int = 2;
/// `thrd_nomem`
const NO_MEMORY: c_int = 3;
/// `thrd_timedout`
const TIMED_OUT: c_int = 4;

/// The result for an error's number, as the C library has it.
fn result(error: c_int) -> c_int {
    match error {
        0 => SUCCESS,
        EBUSY => BUSY,
        ENOMEM => NO_MEMORY,
        ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

/// Locks; `caller` is where the program's call returns to, here and below.
#[inline]
pub(super) extern "C" fn lock(object: &Mutex, caller: usize) -> c_int {
    if is_c11_the_c_librarys() {
        result(mutex::lock(object, caller))
    } else {
        real::mtx_lock().map_or(ERROR, |real| real(object))
    }
}

/// Locks, until a time since 1970.
///
/// # Safety
/// The time may be read.
pub(super) unsafe extern "C" fn lock_until(object: &Mutex, time: *const timespec, caller: usize) -> c_int {
    if is_c11_the_c_librarys() {
        // SAFETY: the caller's promise.
        result(unsafe { mutex::lock_until(object, time, caller) })
    } else {
        real::mtx_timedlock().map_or(ERROR, |real| real(object, time))
    }
}

/// Locks, if that needs no waiting.
pub(super) fn trylock(object: &Mutex) -> c_int {
    if is_c11_the_c_librarys() {
        result(mutex::trylock(object))
    } else {
        real::mtx_trylock().map_or(ERROR, |real| real(object))
    }
}

/// Unlocks.
#[inline]
pub(super) fn unlock(object: &Mutex) -> c_int {
    if is_c11_the_c_librarys() {
        result(mutex::unlock(object))
    } else {
        real::mtx_unlock().map_or(ERROR, |real| real(object))
    }
}

/// Waits to be signalled.
pub(super) extern "C-unwind" fn wait(variable: &Cond, object: &Mutex, caller: usize) -> c_int {
    if is_c11_the_c_librarys() {
        result(cond::wait(variable, object, caller))
    } else {
        real::cnd_wait().map_or(ERROR, |real| real(variable, object))
    }
}

/// Waits to be signalled, until a time since 1970: `cnd_init` sets no other clock.
///
/// # Safety
/// The time may be read.
pub(super) unsafe extern "C-unwind" fn wait_until(
    variable: &Cond,
    object: &Mutex,
    time: *const timespec,
    caller: usize,
) -> c_int {
    if is_c11_the_c_librarys() {
        // SAFETY: the caller's promise.
        result(unsafe { cond::wait_until(variable, object, time, caller) })
    } else {
        real::cnd_timedwait().map_or(ERROR, |real| real(variable, object, time))
    }
}

/// Wakes one waiter.
pub(super) fn signal(variable: &Cond) -> c_int {
    if is_c11_the_c_librarys() {
        result(cond::signal(variable))
    } else {
        real::cnd_signal().map_or(ERROR, |real| real(variable))
    }
}

/// Wakes all waiters.
pub(super) fn broadcast(variable: &Cond) -> c_int {
    if is_c11_the_c_librarys() {
        result(cond::broadcast(variable))
    } else {
        real::cnd_broadcast().map_or(ERROR, |real| real(variable))
    }
}

/// Destroys a variable for which no thread waits.
pub(super) fn destroy(variable: &Cond) {
    if is_c11_the_c_librarys() {
        cond::destroy(variable);
    } else if let Some(real) = real::cnd_destroy() {
        real(variable);
    }
}
