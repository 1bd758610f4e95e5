//! The C library's functions that tell how many CPUs there are.
//!
//! Each calls the C library's own, and may lower a count that is above what the program really
//! gets. That depends on the caller, so each gets the address to which the program's call returns.

use super::reported::Rounds;
use super::{callers, mask, paced, reported};
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

/// The answer to a call that returns to `caller` where the C library says that `real` CPUs are
/// online.
///
/// # Safety
/// The running call returns to `caller`.
unsafe fn online(real: c_long, caller: usize) -> c_long {
    // Most often there is nothing to lower, and the caller does not matter.
    if real <= 1 || told(Rounds::Down) >= real {
        return real;
    }
    if reported::also_online() {
        return told(Rounds::Down);
    }
    // SAFETY: as promised.
    match unsafe { callers::takes_fewer(caller) } {
        Some(rounds) => real.min(told(rounds)),
        None => real,
    }
}

/// The number of CPUs for a caller that rounds quotas like this; without one, more than there can
/// be.
fn told(rounds: Rounds) -> c_long {
    reported::count(rounds).map_or(c_long::MAX, |reported| reported as c_long)
}

/// The answer where the C library says that `real` CPUs are configured.
fn configured(real: c_long) -> c_long {
    // An error stays one.
    if real > 1 && reported::also_configured() { real.min(told(Rounds::Down)) } else { real }
}

fn set_errno(number: c_int) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = number };
}

unsafe extern "C" fn sysconf_for(name: c_int, caller: usize) -> c_long {
    let Some(real) = real_sysconf() else {
        set_errno(libc::EINVAL);
        return -1;
    };
    let result = real(name);
    match name {
        // SAFETY: the running call returns there.
        libc::_SC_NPROCESSORS_ONLN => unsafe { online(result, caller) },
        libc::_SC_NPROCESSORS_CONF => configured(result),
        _ => result,
    }
}

unsafe extern "C" fn nprocs_for(caller: usize) -> c_int {
    let real = real_nprocs().map_or(1, |real| c_long::from(real()));
    // SAFETY: the running call returns there.
    unsafe { online(real, caller) as c_int }
}

/// The CPUs that are configured.
#[unsafe(no_mangle)]
pub extern "C" fn get_nprocs_conf() -> c_int {
    configured(real_nprocs_conf().map_or(1, |real| c_long::from(real()))) as c_int
}

/// Changes a mask that the C library has filled into the one that the program is told: with the
/// CPUs that a pace takes away now, and with fewer CPUs if the caller only counts them.
///
/// # Safety
/// `mask` has `bytes` bytes, which are the caller's to be written to. The running call returns to
/// `caller`.
unsafe fn tell(bytes: usize, mask: *mut u8, caller: usize) {
    // SAFETY: as promised.
    let mask = unsafe { core::slice::from_raw_parts_mut(mask, bytes) };
    paced::tell_all(mask);
    // A mask that is not to be changed causes no look-up either: a program that has locked itself
    // in may ask for its mask and open no file.
    if mask::count(mask) > 1
        && reported::is_wanted()
        // SAFETY: as promised.
        && let Some(rounds) = unsafe { callers::only_counts(caller) }
            .or_else(|| reported::also_affinity().then_some(Rounds::Down))
        && let Some(reported) = reported::count(rounds)
    {
        mask::narrow(mask, reported, reported::first_cpu());
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
        unsafe { tell(bytes, mask, caller) };
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
        unsafe { tell(bytes, mask, caller) };
    }
    result
}

with_caller! {
    /// As the C library's, but the CPUs online are the CPUs that the program really gets, for
    /// callers that can do nothing with them but count.
    sysconf(1) = sysconf_for;
    /// The same, by the name that libraries of the system use.
    __sysconf(1) = sysconf_for;
    /// The same.
    get_nprocs(0) = nprocs_for;
    /// As the C library's, with no more CPUs than the program really gets for callers that only
    /// count them.
    sched_getaffinity(3) = sched_affinity;
    /// The same for a thread of the program's.
    pthread_getaffinity_np(3) = pthread_affinity;
}
