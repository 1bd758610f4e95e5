//! Names that newer C libraries gave new versions, bound by hand.
//!
//! A library built on a new system asks for the newest version of each function that it calls, and
//! an older C library then refuses to load it, even where it has the function. The few such
//! functions that `std` refers to (none of them is called in normal operation) are defined here
//! instead, invisibly outside, so that this library loads wherever glibc 2.31 or newer runs. A
//! check in `xtask tidy` reads the built library and names any that is missing here.

use crate::real::{self, typed};
use core::ffi::{c_char, c_int, c_void};
use platform::syscall::{check, syscall4};

/// Defines a hidden symbol that leads to a function of this file.
macro_rules! hidden {
    ($($name:literal = $function:path;)*) => {$(
        #[cfg(target_arch = "x86_64")]
        core::arch::global_asm!(
            concat!(".hidden ", $name), concat!(".globl ", $name), concat!(".type ", $name, ",@function"),
            concat!($name, ":"), "jmp {function}", concat!(".size ", $name, ", . - ", $name),
            function = sym $function,
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::global_asm!(
            concat!(".hidden ", $name), concat!(".globl ", $name), concat!(".type ", $name, ",%function"),
            concat!($name, ":"), "b {function}", concat!(".size ", $name, ", . - ", $name),
            function = sym $function,
        );
    )*};
}

hidden! {
    "clock_gettime" = clock_gettime;
    "stat64" = stat;
    "fstat64" = fstat;
    "pthread_key_create" = key_create;
    "pthread_key_delete" = key_delete;
    "pthread_setspecific" = set_specific;
}

fn error(result: isize) -> c_int {
    match check(result) {
        Ok(_) => 0,
        Err(number) => {
            // SAFETY: errno is this thread's.
            unsafe { *libc::__errno_location() = number };
            -1
        }
    }
}

/// Not a matter of versions: programs built with a sanitizer have a `clock_gettime` of their own,
/// which cannot be called before the sanitizer has begun, and its beginning calls us (`dlsym`). The
/// C library's own needs no system call, which takes four times as long.
unsafe extern "C" fn clock_gettime(clock: c_int, into: *mut c_void) -> c_int {
    if let Some(real) = real::clock_gettime() {
        // SAFETY: the caller's promises are the C library's.
        return unsafe { real(clock, into) };
    }
    // SAFETY: the caller's promises are the system call's.
    error(unsafe { syscall4(libc::SYS_clock_gettime, clock as usize, into.addr(), 0, 0) })
}

unsafe extern "C" fn stat(path: *const c_char, into: *mut c_void) -> c_int {
    let folder = libc::AT_FDCWD as isize as usize;
    // SAFETY: the caller's promises are the system call's.
    error(unsafe { syscall4(libc::SYS_newfstatat, folder, path.addr(), into.addr(), 0) })
}

unsafe extern "C" fn fstat(descriptor: c_int, into: *mut c_void) -> c_int {
    // SAFETY: the caller's promises are the system call's.
    error(unsafe { syscall4(libc::SYS_fstat, descriptor as usize, into.addr(), 0, 0) })
}

typed! {
    real_key_create = pthread_key_create: extern "C" fn(*mut u32, usize) -> c_int;
    real_key_delete = pthread_key_delete: extern "C" fn(u32) -> c_int;
    real_set_specific = pthread_setspecific: extern "C" fn(u32, *const c_void) -> c_int;
}

unsafe extern "C" fn key_create(key: *mut u32, destructor: usize) -> c_int {
    real_key_create().map_or(libc::EAGAIN, |real| real(key, destructor))
}

unsafe extern "C" fn key_delete(key: u32) -> c_int {
    real_key_delete().map_or(libc::EINVAL, |real| real(key))
}

unsafe extern "C" fn set_specific(key: u32, value: *const c_void) -> c_int {
    real_set_specific().map_or(libc::EINVAL, |real| real(key, value))
}
