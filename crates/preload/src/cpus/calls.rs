//! The C library's functions that tell how many CPUs there are.
//!
//! Each calls the C library's own, and lowers a count that is above what the program really gets.
//! The two that give an affinity mask also get the address to which the program's call returns.

use super::reported::Rounds;
use super::{callers, mask, reported};
use crate::caller::with_caller;
use crate::process;
use crate::real::typed;
use core::ffi::{c_int, c_long};
use libc::pid_t;
use platform::syscall::{check, syscall3};

typed! {
    real_sysconf = sysconf: extern "C" fn(c_int) -> c_long;
    real_nprocs = get_nprocs: extern "C" fn() -> c_int;
    real_nprocs_conf = get_nprocs_conf: extern "C" fn() -> c_int;
    real_sched = sched_getaffinity: unsafe extern "C" fn(pid_t, usize, *mut u8) -> c_int;
    real_pthread = pthread_getaffinity_np: unsafe extern "C" fn(libc::pthread_t, usize, *mut u8) -> c_int;
}

/// The answer to the program where the C library says `real`.
fn online(real: c_long) -> c_long {
    if real <= 1 {
        // An error, or as few as there can be.
        return real;
    }
    reported::count(Rounds::Down).map_or(real, |reported| real.min(reported as c_long))
}

/// The same for configured CPUs.
fn configured(real: c_long) -> c_long {
    if reported::also_configured() { online(real) } else { real }
}

fn set_errno(number: c_int) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = number };
}

/// As the C library's, but the CPUs online are the CPUs that the program really gets.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysconf(name: c_int) -> c_long {
    let Some(real) = real_sysconf() else {
        set_errno(libc::EINVAL);
        return -1;
    };
    let result = real(name);
    match name {
        libc::_SC_NPROCESSORS_ONLN => online(result),
        libc::_SC_NPROCESSORS_CONF => configured(result),
        _ => result,
    }
}

/// The same, by the name that libraries of the system use.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sysconf(name: c_int) -> c_long {
    // SAFETY: the caller's promises are the same.
    unsafe { sysconf(name) }
}

/// The CPUs that the program really gets.
#[unsafe(no_mangle)]
pub extern "C" fn get_nprocs() -> c_int {
    online(real_nprocs().map_or(1, |real| c_long::from(real()))) as c_int
}

/// The CPUs that are configured.
#[unsafe(no_mangle)]
pub extern "C" fn get_nprocs_conf() -> c_int {
    configured(real_nprocs_conf().map_or(1, |real| c_long::from(real()))) as c_int
}

/// Takes CPUs out of a mask that the C library has filled, if its caller only counts them.
///
/// # Safety
/// `mask` has `bytes` bytes, which are the caller's to be written to. The running call returns to
/// `caller`.
unsafe fn narrow(bytes: usize, mask: *mut u8, caller: usize) {
    // SAFETY: as promised.
    let mask = unsafe { core::slice::from_raw_parts_mut(mask, bytes) };
    // A mask that is not to be changed causes no look-up either: a program that has locked itself
    // in may ask for its mask and open no file.
    if mask::count(mask) > 1
        && reported::is_wanted()
        // SAFETY: as promised.
        && let Some(rounds) = unsafe { callers::only_counts(caller) }
            .or_else(|| reported::also_affinity().then_some(Rounds::Down))
        && let Some(reported) = reported::count(rounds)
    {
        mask::narrow(mask, reported);
    }
}

/// Whether `id` is a thread of this process, as `sched_getaffinity` names it.
fn is_ours(id: pid_t) -> bool {
    // SAFETY: takes no pointer; signal 0 is none.
    id == 0 || check(unsafe { syscall3(libc::SYS_tgkill, process::id() as usize, id as usize, 0) }).is_ok()
}

unsafe extern "C" fn sched_affinity(id: pid_t, bytes: usize, mask: *mut u8, caller: usize) -> c_int {
    let Some(real) = real_sched() else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    // SAFETY: the arguments are the caller's.
    let result = unsafe { real(id, bytes, mask) };
    if result == 0 && is_ours(id) {
        // SAFETY: the C library has filled all of these bytes.
        unsafe { narrow(bytes, mask, caller) };
    }
    result
}

unsafe extern "C" fn pthread_affinity(
    thread: libc::pthread_t,
    bytes: usize,
    mask: *mut u8,
    caller: usize,
) -> c_int {
    let Some(real) = real_pthread() else { return libc::ENOSYS };
    // SAFETY: the arguments are the caller's.
    let result = unsafe { real(thread, bytes, mask) };
    if result == 0 {
        // SAFETY: the C library has filled all of these bytes.
        unsafe { narrow(bytes, mask, caller) };
    }
    result
}

with_caller! {
    /// As the C library's, with no more CPUs than the program really gets for callers that only
    /// count them.
    sched_getaffinity(3) = sched_affinity;
    /// The same for a thread of the program's.
    pthread_getaffinity_np(3) = pthread_affinity;
}
