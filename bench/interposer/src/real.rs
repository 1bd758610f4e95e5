//! The C library's functions, for what is passed on to it.
//!
//! Each is looked up when it is first needed. `dlsym` finds the version that new programs get; the
//! versions of these functions differ for condition variables only, where programs have been linked
//! against the newer one since 2003.

use crate::object::{Cond, Mutex};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{clockid_t, pthread_condattr_t, pthread_mutexattr_t, timespec};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

macro_rules! real {
    ($($name:ident: $type:ty;)*) => {$(
        #[doc = concat!("The C library's `", stringify!($name), "`.")]
        pub fn $name() -> $type {
            static ADDRESS: AtomicUsize = AtomicUsize::new(0);
            // Relaxed: the address is all there is to see, and each look-up finds the same.
            let mut address = ADDRESS.load(Ordering::Relaxed);
            if address == 0 {
                // SAFETY: the name ends with a zero.
                address = unsafe { dlsym(libc::RTLD_NEXT, concat!(stringify!($name), "\0").as_ptr().cast()) }.addr();
                if address == 0 {
                    crate::locks::end(concat!("the C library has no ", stringify!($name), "\n"));
                }
                ADDRESS.store(address, Ordering::Relaxed);
            }
            // SAFETY: the C library's function of this name has this type.
            unsafe { core::mem::transmute::<usize, $type>(address) }
        }
    )*};
}

real! {
    pthread_mutex_init: unsafe extern "C" fn(*mut Mutex, *const pthread_mutexattr_t) -> c_int;
    pthread_mutex_destroy: unsafe extern "C" fn(&Mutex) -> c_int;
    pthread_mutex_lock: unsafe extern "C" fn(&Mutex) -> c_int;
    pthread_mutex_trylock: unsafe extern "C" fn(&Mutex) -> c_int;
    pthread_mutex_clocklock: unsafe extern "C" fn(&Mutex, clockid_t, *const timespec) -> c_int;
    pthread_mutex_unlock: unsafe extern "C" fn(&Mutex) -> c_int;
    pthread_cond_init: unsafe extern "C" fn(*mut Cond, *const pthread_condattr_t) -> c_int;
    pthread_cond_destroy: unsafe extern "C" fn(&Cond) -> c_int;
    pthread_cond_wait: unsafe extern "C" fn(&Cond, &Mutex) -> c_int;
    pthread_cond_timedwait: unsafe extern "C" fn(&Cond, &Mutex, *const timespec) -> c_int;
    pthread_cond_clockwait: unsafe extern "C" fn(&Cond, &Mutex, clockid_t, *const timespec) -> c_int;
    pthread_cond_signal: unsafe extern "C" fn(&Cond) -> c_int;
    pthread_cond_broadcast: unsafe extern "C" fn(&Cond) -> c_int;
}
