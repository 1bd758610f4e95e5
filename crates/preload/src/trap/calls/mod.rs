//! The functions of the C library through which a program asks about signals.
//!
//! Each does what the C library's does while no breakpoint stands, by calling it with its arguments
//! unchanged. Afterwards SIGTRAP is taken out of what is passed on, and put into what is returned.
//!
//! A call that began before SIGTRAP became ours may take effect afterwards; so each that changes something
//! looks again when it is done.
//!
//! | file | functions |
//! | --- | --- |
//! | [`action`] | what happens at a signal |
//! | [`mask`] | what a thread blocks |
//! | [`wait`] | what a thread blocks while it waits |
//! | `raw` | the first two by number |

pub mod action;
pub mod mask;
#[cfg(target_arch = "x86_64")]
pub mod raw;
pub mod wait;

use crate::real::typed;
use core::ffi::{c_int, c_void};
use libc::{
    epoll_event, fd_set, nfds_t, pollfd, pthread_attr_t, sigaction as Action, siginfo_t, sigset_t, stack_t,
    timespec,
};

type Handler = usize;

/// The C library's functions of these names.
mod real {
    use super::*;

    typed! {
        sigaction = sigaction: extern "C" fn(c_int, *const Action, *mut Action) -> c_int;
        signal = signal: extern "C" fn(c_int, Handler) -> Handler;
        sysv_signal = __sysv_signal: extern "C" fn(c_int, Handler) -> Handler;
        sigset = sigset: extern "C" fn(c_int, Handler) -> Handler;
        sigignore = sigignore: extern "C" fn(c_int) -> c_int;
        siginterrupt = siginterrupt: extern "C" fn(c_int, c_int) -> c_int;
        sigprocmask = sigprocmask: extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
        pthread_sigmask = pthread_sigmask: extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
        sigsetmask = sigsetmask: extern "C" fn(c_int) -> c_int;
        sigblock = sigblock: extern "C" fn(c_int) -> c_int;
        siggetmask = siggetmask: extern "C" fn() -> c_int;
        sighold = sighold: extern "C" fn(c_int) -> c_int;
        sigrelse = sigrelse: extern "C" fn(c_int) -> c_int;
        sigpending = sigpending: extern "C" fn(*mut sigset_t) -> c_int;
        sigaltstack = sigaltstack: extern "C" fn(*const stack_t, *mut stack_t) -> c_int;
        attr_setsigmask = pthread_attr_setsigmask_np:
            extern "C" fn(*mut pthread_attr_t, *const sigset_t) -> c_int;
        attr_getsigmask = pthread_attr_getsigmask_np:
            extern "C" fn(*const pthread_attr_t, *mut sigset_t) -> c_int;
        sigsuspend = sigsuspend: extern "C-unwind" fn(*const sigset_t) -> c_int;
        sigpause = sigpause: extern "C-unwind" fn(c_int) -> c_int;
        xpg_sigpause = __xpg_sigpause: extern "C-unwind" fn(c_int) -> c_int;
        pselect = pselect: extern "C-unwind" fn(
            c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t,
        ) -> c_int;
        ppoll = ppoll: extern "C-unwind" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
        ppoll_chk = __ppoll_chk:
            extern "C-unwind" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t, usize) -> c_int;
        epoll_pwait = epoll_pwait:
            extern "C-unwind" fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;
        epoll_pwait2 = epoll_pwait2:
            extern "C-unwind" fn(c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t) -> c_int;
        sigwait = sigwait: extern "C-unwind" fn(*const sigset_t, *mut c_int) -> c_int;
        sigwaitinfo = sigwaitinfo: extern "C-unwind" fn(*const sigset_t, *mut siginfo_t) -> c_int;
        sigtimedwait = sigtimedwait:
            extern "C-unwind" fn(*const sigset_t, *mut siginfo_t, *const timespec) -> c_int;
    }
}

/// What a caller without that function gets: -1 and `ENOSYS`.
fn absent() -> c_int {
    fail(libc::ENOSYS)
}

/// -1 and an error number.
fn fail(number: c_int) -> c_int {
    // SAFETY: errno is this thread's.
    unsafe { *libc::__errno_location() = number };
    -1
}

/// The kernel's part of a set: its first word, which is all that the C library reads and writes of it.
///
/// # Safety
/// `set` must point to a set, or to its first word.
unsafe fn word(set: *const sigset_t) -> u64 {
    // SAFETY: as the caller promised.
    unsafe { set.cast::<u64>().read_unaligned() }
}

/// A set with this word.
fn set_of(word: u64) -> sigset_t {
    // SAFETY: a set is made of integers.
    let mut set: sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is larger than its first word.
    unsafe { (&raw mut set).cast::<u64>().write(word) };
    set
}

/// Writes the kernel's part of a set, if the caller wants it.
///
/// # Safety
/// `set` must be null or point to a set.
unsafe fn write_word(set: *mut sigset_t, word: u64) {
    if !set.is_null() {
        // SAFETY: as the caller promised.
        unsafe { set.cast::<u64>().write_unaligned(word) };
    }
}

/// What [`creating`] wants back.
pub struct Creation(Option<bool>);

impl Creation {
    /// Whether [`created`] needs the new thread's name.
    pub fn wants_name(&self) -> bool {
        self.0.is_some()
    }
}

/// Before a thread is created with these attributes (null: the default ones).
///
/// # Safety
/// `attributes` must be null or point to initialised attributes.
pub unsafe fn creating(attributes: *const c_void) -> Creation {
    if !super::armed() {
        return Creation(None);
    }
    // SAFETY: as the caller promised.
    let asked = unsafe { mask::asked_in(attributes.cast_mut().cast()) };
    let blocked = asked.unwrap_or_else(super::mask::blocked);
    super::inherit::creating(blocked);
    Creation(Some(blocked))
}

/// After it: with its name, if it was created and has one.
pub fn created(creation: &Creation, name: Option<usize>) {
    if let Some(blocked) = creation.0 {
        super::inherit::created(blocked, name);
    }
}
