//! What a thread blocks while it waits, and waiting for signals themselves.
//!
//! `sigsuspend`, `ppoll` and their kin exchange the thread's mask while they wait. What they are passed
//! holds no SIGTRAP, since handlers that run meanwhile may come to a breakpoint; what the thread believes
//! is exchanged with it, and back however the call ends: these functions are cancellation points, so the
//! thread may be unwound from the middle of them.
//!
//! While SIGTRAP is believed blocked, one that is sent ends such a wait with `EINTR`, as any signal may.

use super::super::action::TRAP;
use super::super::{armed, mask, survey};
use super::{absent, fail, real, set_of, word};
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use libc::{SIGTRAP, epoll_event, fd_set, nfds_t, pollfd, siginfo_t, sigset_t, timespec};

/// What a thread believes, exchanged for a while.
struct Meanwhile {
    before: bool,
}

impl Meanwhile {
    /// From now on; `None` if that let through a signal that was pending, whose handler has run.
    fn new(blocked: bool) -> Option<Meanwhile> {
        let before = mask::asked();
        if before != blocked && mask::set(blocked) {
            mask::set(before);
            return None;
        }
        Some(Meanwhile { before })
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        if mask::asked() != self.before {
            mask::set(self.before);
        }
    }
}

/// Waits with a mask through `call`, which gets what to pass to the C library.
///
/// # Safety
/// `set` must be null or point to a set.
unsafe fn with_mask(set: *const sigset_t, call: impl FnOnce(*const sigset_t) -> c_int) -> c_int {
    if !armed() || set.is_null() {
        return call(set);
    }
    // SAFETY: as the caller promised.
    let asked = unsafe { word(set) };
    let Some(_meanwhile) = Meanwhile::new(asked & TRAP != 0) else { return fail(libc::EINTR) };
    let passed = set_of(asked & !TRAP);
    call(&raw const passed)
}

/// As the C library's.
///
/// # Safety
/// As `sigsuspend`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigsuspend(set: *const sigset_t) -> c_int {
    let Some(real) = real::sigsuspend() else { return absent() };
    // SAFETY: the caller's promise.
    unsafe { with_mask(set, |set| real(set)) }
}

/// As the C library's.
///
/// # Safety
/// As `sigsuspend`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __sigsuspend(set: *const sigset_t) -> c_int {
    // SAFETY: the same function by another name.
    unsafe { sigsuspend(set) }
}

/// As the C library's: one of the next two, as the second argument says.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __sigpause(signal_or_set: c_int, is_signal: c_int) -> c_int {
    if is_signal != 0 { __xpg_sigpause(signal_or_set) } else { sigpause(signal_or_set) }
}

/// As the C library's; the argument is a mask of 4.2BSD.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sigpause(set: c_int) -> c_int {
    let Some(real) = real::sigpause() else { return absent() };
    if !armed() {
        return real(set);
    }
    let trap = TRAP as c_int;
    let Some(_meanwhile) = Meanwhile::new(set & trap != 0) else { return fail(libc::EINTR) };
    real(set & !trap)
}

/// As the C library's; the argument is a signal.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __xpg_sigpause(signal: c_int) -> c_int {
    let Some(real) = real::xpg_sigpause() else { return absent() };
    if !armed() || signal != SIGTRAP {
        return real(signal);
    }
    let Some(_meanwhile) = Meanwhile::new(false) else { return fail(libc::EINTR) };
    real(signal)
}

/// As the C library's.
///
/// # Safety
/// As `pselect`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    set: *const sigset_t,
) -> c_int {
    let Some(real) = real::pselect() else { return absent() };
    // SAFETY: the caller's promise.
    unsafe { with_mask(set, |set| real(count, read, write, except, timeout, set)) }
}

/// As the C library's.
///
/// # Safety
/// As `ppoll`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    set: *const sigset_t,
) -> c_int {
    let Some(real) = real::ppoll() else { return absent() };
    // SAFETY: the caller's promise.
    unsafe { with_mask(set, |set| real(descriptors, count, timeout, set)) }
}

/// As the C library's.
///
/// # Safety
/// As `ppoll`, with the room behind `descriptors`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    set: *const sigset_t,
    room: usize,
) -> c_int {
    let Some(real) = real::ppoll_chk() else { return absent() };
    // SAFETY: the caller's promise.
    unsafe { with_mask(set, |set| real(descriptors, count, timeout, set, room)) }
}

/// As the C library's.
///
/// # Safety
/// As `epoll_pwait`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
    set: *const sigset_t,
) -> c_int {
    let Some(real) = real::epoll_pwait() else { return absent() };
    // SAFETY: the caller's promise.
    unsafe { with_mask(set, |set| real(epoll, events, count, timeout, set)) }
}

/// As the C library's.
///
/// # Safety
/// As `epoll_pwait2`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    set: *const sigset_t,
) -> c_int {
    let Some(real) = real::epoll_pwait2() else { return absent() };
    // SAFETY: the caller's promise.
    unsafe { with_mask(set, |set| real(epoll, events, count, timeout, set)) }
}

/// A thread is known to wait for SIGTRAP while this lives.
struct Waiting(bool);

impl Waiting {
    fn new() -> Waiting {
        let own = survey::own_tid();
        Waiting(mask::WAITER.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.0 {
            mask::WAITER.store(0, Ordering::Release);
        }
    }
}

/// Waits for signals through `call`, unless a SIGTRAP that is pending is among them. The kernel gives a
/// SIGTRAP that comes meanwhile to the waiting thread, although it does not block it.
///
/// # Safety
/// `set` must point to a set.
unsafe fn await_signal(
    set: *const sigset_t,
    found: impl FnOnce(siginfo_t) -> c_int,
    call: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: as the caller promised.
    if !armed() || unsafe { word(set) } & TRAP == 0 {
        return call();
    }
    let _waiting = Waiting::new();
    match mask::take() {
        Some(info) => found(info),
        None => call(),
    }
}

/// As the C library's.
///
/// # Safety
/// As `sigwait`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    let Some(real) = real::sigwait() else { return libc::ENOSYS };
    let found = |_| {
        // SAFETY: the caller's promise.
        unsafe { signal.write(SIGTRAP) };
        0
    };
    // SAFETY: the caller's promise.
    unsafe { await_signal(set, found, || real(set, signal)) }
}

/// What `sigwaitinfo` and `sigtimedwait` return at once.
fn found(into: *mut siginfo_t) -> impl FnOnce(siginfo_t) -> c_int {
    move |mut info| {
        // The C library does not tell these two apart.
        if info.si_code == libc::SI_TKILL {
            info.si_code = libc::SI_USER;
        }
        if !into.is_null() {
            // SAFETY: the program's pointer, as it promises to the C library.
            unsafe { into.write(info) };
        }
        SIGTRAP
    }
}

/// As the C library's.
///
/// # Safety
/// As `sigwaitinfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    let Some(real) = real::sigwaitinfo() else { return absent() };
    // SAFETY: the caller's promise.
    unsafe { await_signal(set, found(info), || real(set, info)) }
}

/// As the C library's.
///
/// # Safety
/// As `sigtimedwait`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    timeout: *const timespec,
) -> c_int {
    let Some(real) = real::sigtimedwait() else { return absent() };
    // SAFETY: the caller's promise.
    unsafe { await_signal(set, found(info), || real(set, info, timeout)) }
}
