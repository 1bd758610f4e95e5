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

use crate::exports::Real;
use core::ffi::{c_int, c_void};
use libc::{
    epoll_event, fd_set, nfds_t, pollfd, pthread_attr_t, sigaction as Action, siginfo_t, sigset_t, stack_t,
    timespec,
};

/// The C library's functions, with their types.
macro_rules! real {
    ($($name:ident = $literal:literal: $type:ty;)*) => {
        $(
            pub(super) fn $name() -> Option<$type> {
                static REAL: Real = Real::new($literal);
                // SAFETY: the C library's function of this name has this type.
                REAL.get().map(|address| unsafe { core::mem::transmute::<usize, $type>(address) })
            }
        )*

        /// Looks all of them up: later calls may come from handlers, and from children of `fork` whose
        /// parent was busy in the loader.
        pub fn look_up() {
            $(let _ = $name();)*
            #[cfg(target_arch = "x86_64")]
            raw::look_up();
        }
    };
}

type Handler = usize;

/// The C library's functions of these names.
mod real {
    #![allow(missing_docs)]
    use super::*;

    real! {
        sigaction = c"sigaction": extern "C" fn(c_int, *const Action, *mut Action) -> c_int;
        signal = c"signal": extern "C" fn(c_int, Handler) -> Handler;
        sysv_signal = c"__sysv_signal": extern "C" fn(c_int, Handler) -> Handler;
        sigset = c"sigset": extern "C" fn(c_int, Handler) -> Handler;
        sigignore = c"sigignore": extern "C" fn(c_int) -> c_int;
        siginterrupt = c"siginterrupt": extern "C" fn(c_int, c_int) -> c_int;
        sigprocmask = c"sigprocmask": extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
        pthread_sigmask = c"pthread_sigmask": extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
        sigsetmask = c"sigsetmask": extern "C" fn(c_int) -> c_int;
        sigblock = c"sigblock": extern "C" fn(c_int) -> c_int;
        siggetmask = c"siggetmask": extern "C" fn() -> c_int;
        sighold = c"sighold": extern "C" fn(c_int) -> c_int;
        sigrelse = c"sigrelse": extern "C" fn(c_int) -> c_int;
        sigpending = c"sigpending": extern "C" fn(*mut sigset_t) -> c_int;
        sigaltstack = c"sigaltstack": extern "C" fn(*const stack_t, *mut stack_t) -> c_int;
        attr_setsigmask = c"pthread_attr_setsigmask_np":
            extern "C" fn(*mut pthread_attr_t, *const sigset_t) -> c_int;
        attr_getsigmask = c"pthread_attr_getsigmask_np":
            extern "C" fn(*const pthread_attr_t, *mut sigset_t) -> c_int;
        sigsuspend = c"sigsuspend": extern "C-unwind" fn(*const sigset_t) -> c_int;
        sigpause = c"sigpause": extern "C-unwind" fn(c_int) -> c_int;
        xpg_sigpause = c"__xpg_sigpause": extern "C-unwind" fn(c_int) -> c_int;
        pselect = c"pselect": extern "C-unwind" fn(
            c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t,
        ) -> c_int;
        ppoll = c"ppoll": extern "C-unwind" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
        ppoll_chk = c"__ppoll_chk":
            extern "C-unwind" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t, usize) -> c_int;
        epoll_pwait = c"epoll_pwait":
            extern "C-unwind" fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;
        epoll_pwait2 = c"epoll_pwait2":
            extern "C-unwind" fn(c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t) -> c_int;
        sigwait = c"sigwait": extern "C-unwind" fn(*const sigset_t, *mut c_int) -> c_int;
        sigwaitinfo = c"sigwaitinfo": extern "C-unwind" fn(*const sigset_t, *mut siginfo_t) -> c_int;
        sigtimedwait = c"sigtimedwait":
            extern "C-unwind" fn(*const sigset_t, *mut siginfo_t, *const timespec) -> c_int;
    }
}

pub use real::look_up;

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
