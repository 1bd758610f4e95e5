//! The C library's own functions, to which everything is passed that is not ours.

use super::object::{Cond, Mutex};
use crate::real::typed;
use core::ffi::c_int;
use libc::{clockid_t, timespec};

typed! {
    lock = pthread_mutex_lock: extern "C" fn(&Mutex) -> c_int;
    trylock = pthread_mutex_trylock: extern "C" fn(&Mutex) -> c_int;
    timedlock = pthread_mutex_timedlock: extern "C" fn(&Mutex, *const timespec) -> c_int;
    clocklock = pthread_mutex_clocklock: extern "C" fn(&Mutex, clockid_t, *const timespec) -> c_int;
    unlock = pthread_mutex_unlock: extern "C" fn(&Mutex) -> c_int;
    wait = pthread_cond_wait: extern "C-unwind" fn(&Cond, &Mutex) -> c_int;
    timedwait = pthread_cond_timedwait: extern "C-unwind" fn(&Cond, &Mutex, *const timespec) -> c_int;
    clockwait = pthread_cond_clockwait:
        extern "C-unwind" fn(&Cond, &Mutex, clockid_t, *const timespec) -> c_int;
    signal = pthread_cond_signal: extern "C" fn(&Cond) -> c_int;
    broadcast = pthread_cond_broadcast: extern "C" fn(&Cond) -> c_int;
    init = pthread_cond_init: extern "C" fn(*mut Cond, *const libc::pthread_condattr_t) -> c_int;
    destroy = pthread_cond_destroy: extern "C" fn(&Cond) -> c_int;
    mtx_lock = mtx_lock: extern "C" fn(&Mutex) -> c_int;
    mtx_trylock = mtx_trylock: extern "C" fn(&Mutex) -> c_int;
    mtx_timedlock = mtx_timedlock: extern "C" fn(&Mutex, *const timespec) -> c_int;
    mtx_unlock = mtx_unlock: extern "C" fn(&Mutex) -> c_int;
    cnd_wait = cnd_wait: extern "C-unwind" fn(&Cond, &Mutex) -> c_int;
    cnd_timedwait = cnd_timedwait: extern "C-unwind" fn(&Cond, &Mutex, *const timespec) -> c_int;
    cnd_signal = cnd_signal: extern "C" fn(&Cond) -> c_int;
    cnd_broadcast = cnd_broadcast: extern "C" fn(&Cond) -> c_int;
    cnd_destroy = cnd_destroy: extern "C" fn(&Cond);
    setcanceltype = pthread_setcanceltype: extern "C-unwind" fn(c_int, *mut c_int) -> c_int;
}
