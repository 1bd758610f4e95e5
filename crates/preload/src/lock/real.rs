//! The C library's own functions, to which everything is passed that is not ours.

use super::object::{Cond, Mutex};
use crate::elf::symbols::next;
use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{clockid_t, pthread_condattr_t, timespec};

macro_rules! real {
    ($($name:ident = $literal:literal: $type:ty;)*) => {
        $(
            pub(super) fn $name() -> Option<$type> {
                static ADDRESS: AtomicUsize = AtomicUsize::new(0);
                let address = found(&ADDRESS, $literal)?;
                // SAFETY: the C library's function of this name has this type.
                Some(unsafe { core::mem::transmute::<usize, $type>(address) })
            }
        )*

        /// Looks all of them up: later calls may come while the loader is busy.
        pub fn look_up() {
            $(let _ = $name();)*
        }
    };
}

/// The address kept here, looked up at the first call.
fn found(address: &AtomicUsize, name: &CStr) -> Option<usize> {
    // Relaxed: all who look find the same, and the value is all there is.
    match address.load(Ordering::Relaxed) {
        0 => {
            let found = next(name, found as *const () as usize)?;
            address.store(found, Ordering::Relaxed);
            Some(found)
        }
        known => Some(known),
    }
}

real! {
    lock = c"pthread_mutex_lock": extern "C" fn(&Mutex) -> c_int;
    trylock = c"pthread_mutex_trylock": extern "C" fn(&Mutex) -> c_int;
    timedlock = c"pthread_mutex_timedlock": extern "C" fn(&Mutex, *const timespec) -> c_int;
    clocklock = c"pthread_mutex_clocklock": extern "C" fn(&Mutex, clockid_t, *const timespec) -> c_int;
    unlock = c"pthread_mutex_unlock": extern "C" fn(&Mutex) -> c_int;
    wait = c"pthread_cond_wait": extern "C-unwind" fn(&Cond, &Mutex) -> c_int;
    timedwait = c"pthread_cond_timedwait": extern "C-unwind" fn(&Cond, &Mutex, *const timespec) -> c_int;
    clockwait = c"pthread_cond_clockwait":
        extern "C-unwind" fn(&Cond, &Mutex, clockid_t, *const timespec) -> c_int;
    signal = c"pthread_cond_signal": extern "C" fn(&Cond) -> c_int;
    broadcast = c"pthread_cond_broadcast": extern "C" fn(&Cond) -> c_int;
    init = c"pthread_cond_init": extern "C" fn(*mut Cond, *const libc::pthread_condattr_t) -> c_int;
    destroy = c"pthread_cond_destroy": extern "C" fn(&Cond) -> c_int;
    setpshared = c"pthread_condattr_setpshared": extern "C" fn(*mut pthread_condattr_t, c_int) -> c_int;
    setclock = c"pthread_condattr_setclock": extern "C" fn(*mut pthread_condattr_t, clockid_t) -> c_int;
    setcanceltype = c"pthread_setcanceltype": extern "C-unwind" fn(c_int, *mut c_int) -> c_int;
}
