//! What happens at a signal.

use super::super::action::{self, TRAP};
use super::super::{armed, mask, stack};
use super::{Action, Handler, absent, fail, real, word, write_word};
use crate::sample;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use libc::{SIGTRAP, stack_t};
use platform::signal::Disposition;

const SIG_ERR: Handler = libc::SIG_ERR;
/// `SIG_HOLD`: blocked.
const SIG_HOLD: Handler = 2;

/// Whether handlers set by `signal` let system calls of SIGTRAP fail (`siginterrupt`).
static INTERRUPTS: AtomicBool = AtomicBool::new(false);

/// As the C library's.
///
/// # Safety
/// As `sigaction`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    let Some(real) = real::sigaction() else { return absent() };
    if !new.is_null() {
        sample::yield_to_program(signal);
    } else if sample::uses(signal) {
        // SAFETY: the program's pointer, as it promises to the C library.
        if let Some(old) = unsafe { old.as_mut() } {
            show(&Disposition::DEFAULT, old);
        }
        return 0;
    }
    if !armed() {
        let result = real(signal, new, old);
        action::settle(signal);
        return result;
    }
    // SAFETY: the program's pointers, as it promises to the C library.
    unsafe {
        let new = new.as_ref().copied();
        if signal == SIGTRAP {
            let before = action::trap(new.as_ref().map(|new| disposition(new)));
            if let Some(old) = old.as_mut() {
                show(&before, old);
            }
            return 0;
        }
        let asks = new.as_ref().map(|new| word(&raw const new.sa_mask) & TRAP != 0);
        let new = new.map(|mut new| {
            let mask = word(&raw const new.sa_mask);
            write_word(&raw mut new.sa_mask, mask & !TRAP);
            new
        });
        let (result, asked) = action::other(signal, asks, || {
            let new = new.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
            let result = real(signal, new, old);
            (result, result == 0)
        });
        if result == 0 && asked && !old.is_null() {
            let mask = &raw mut (*old).sa_mask;
            write_word(mask, word(mask) | TRAP);
        }
        result
    }
}

/// As the C library's.
///
/// # Safety
/// As `sigaction`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: the same function by another name.
    unsafe { sigaction(signal, new, old) }
}

/// The kernel's form of what a program asked for.
///
/// # Safety
/// `new` must be initialised.
unsafe fn disposition(new: &Action) -> Disposition {
    // SAFETY: as the caller promised.
    let mask = unsafe { word(&raw const new.sa_mask) };
    Disposition { handler: new.sa_sigaction, flags: new.sa_flags as u32 as usize, restorer: 0, mask }
}

fn show(before: &Disposition, old: &mut Action) {
    old.sa_sigaction = before.handler;
    old.sa_flags = before.flags as c_int;
    // SAFETY: the set is the program's, behind a reference.
    unsafe { write_word(&raw mut old.sa_mask, before.mask) };
}

/// Sets SIGTRAP's handler, and returns the one before.
fn set(handler: Handler, flags: c_int, mask: u64) -> Handler {
    let flags = flags as u32 as usize;
    action::trap(Some(Disposition { handler, flags, restorer: 0, mask })).handler
}

/// Passes a signal other than SIGTRAP on to a function that sets its disposition with a mask that cannot
/// hold SIGTRAP.
fn pass<T>(signal: c_int, call: impl FnOnce() -> (T, bool)) -> T {
    sample::yield_to_program(signal);
    if armed() {
        return action::other(signal, Some(false), call).0;
    }
    let result = call().0;
    action::settle(signal);
    result
}

/// As the C library's.
///
/// # Safety
/// As `signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: Handler) -> Handler {
    if signal == SIGTRAP && armed() && handler != SIG_ERR {
        let restart = if INTERRUPTS.load(Ordering::Relaxed) { 0 } else { libc::SA_RESTART };
        return set(handler, restart, TRAP);
    }
    let Some(real) = real::signal() else { return absent() as Handler };
    pass(signal, || {
        let result = real(signal, handler);
        (result, result != SIG_ERR)
    })
}

/// As the C library's.
///
/// # Safety
/// As `signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bsd_signal(number: c_int, handler: Handler) -> Handler {
    // SAFETY: the same function by another name.
    unsafe { signal(number, handler) }
}

/// As the C library's.
///
/// # Safety
/// As `signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssignal(number: c_int, handler: Handler) -> Handler {
    // SAFETY: the same function by another name.
    unsafe { signal(number, handler) }
}

/// As the C library's.
///
/// # Safety
/// As `signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sysv_signal(signal: c_int, handler: Handler) -> Handler {
    if signal == SIGTRAP && armed() && handler != SIG_ERR {
        return set(handler, libc::SA_RESETHAND | libc::SA_NODEFER, 0);
    }
    let Some(real) = real::sysv_signal() else { return absent() as Handler };
    pass(signal, || {
        let result = real(signal, handler);
        (result, result != SIG_ERR)
    })
}

/// As the C library's.
///
/// # Safety
/// As `signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysv_signal(signal: c_int, handler: Handler) -> Handler {
    // SAFETY: the same function by another name.
    unsafe { __sysv_signal(signal, handler) }
}

/// As the C library's.
///
/// # Safety
/// As `sigset`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigset(signal: c_int, handler: Handler) -> Handler {
    if signal == SIGTRAP && armed() && handler != SIG_ERR {
        let blocked = mask::blocked();
        let before = if handler == SIG_HOLD { action::trap(None).handler } else { set(handler, 0, 0) };
        mask::set(handler == SIG_HOLD);
        return if blocked { SIG_HOLD } else { before };
    }
    let Some(real) = real::sigset() else { return absent() as Handler };
    // This one also unblocks the signal, so it must find the thread's own mask.
    sample::yield_to_program(signal);
    let result = real(signal, handler);
    pass(signal, || ((), handler != SIG_HOLD && result != SIG_ERR));
    result
}

/// As the C library's.
///
/// # Safety
/// As `sigignore`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigignore(signal: c_int) -> c_int {
    if signal == SIGTRAP && armed() {
        set(libc::SIG_IGN, 0, 0);
        return 0;
    }
    let Some(real) = real::sigignore() else { return absent() };
    pass(signal, || {
        let result = real(signal);
        (result, result == 0)
    })
}

/// As the C library's.
///
/// # Safety
/// As `siginterrupt`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siginterrupt(signal: c_int, interrupt: c_int) -> c_int {
    if signal == SIGTRAP {
        INTERRUPTS.store(interrupt != 0, Ordering::Relaxed);
        if armed() {
            let mut now = action::trap(None);
            let restart = libc::SA_RESTART as usize;
            now.flags = if interrupt != 0 { now.flags & !restart } else { now.flags | restart };
            action::trap(Some(now));
            return 0;
        }
    }
    let Some(real) = real::siginterrupt() else { return absent() };
    let result = real(signal, interrupt);
    action::settle(signal);
    result
}

/// As the C library's; a stack that is too small is replaced by one of ours, unseen.
///
/// # Safety
/// As `sigaltstack`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
    if !armed() {
        let Some(real) = real::sigaltstack() else { return absent() };
        return real(new, old);
    }
    // SAFETY: the program's pointers, as it promises to the C library.
    unsafe {
        let new = new.as_ref().copied();
        let before = stack::believed();
        if let Some(new) = new
            && let Err(number) = stack::ask(&new)
        {
            return fail(number);
        }
        if !old.is_null() {
            old.write(before);
        }
    }
    0
}
