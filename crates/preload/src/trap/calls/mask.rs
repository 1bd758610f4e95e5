//! What a thread blocks.

use super::super::action::TRAP;
use super::super::{armed, mask};
use super::{absent, real, set_of, word, write_word};
use core::ffi::c_int;
use libc::{SIGTRAP, pthread_attr_t, sigset_t};
use platform::signal::{Change, change_mask};

/// SIGTRAP's bit in the masks of 4.2BSD.
const BSD_TRAP: c_int = TRAP as c_int;
/// A bit of a set that no kernel looks at: attributes whose mask should hold SIGTRAP have it instead.
const MARK: usize = 1023;

/// Changes the calling thread's mask through `real`, which is one of three functions.
///
/// # Safety
/// As `sigprocmask`.
pub(super) unsafe fn change(
    real: extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int,
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    if !armed() {
        let result = real(how, new, old);
        mask::settle();
        return result;
    }
    let before = mask::blocked();
    // SAFETY: the program's pointer, as it promises to the C library.
    let asked = (!new.is_null()).then(|| unsafe { word(new) });
    let passed = asked.map(|asked| set_of(if how == libc::SIG_UNBLOCK { asked } else { asked & !TRAP }));
    let mut seen = set_of(0);
    let result = real(how, passed.as_ref().map_or(core::ptr::null(), core::ptr::from_ref), &raw mut seen);
    if result != 0 {
        return result;
    }
    // SAFETY: our own set.
    let seen = unsafe { word(&raw const seen) };
    if seen & TRAP != 0 {
        // A mask from before SIGTRAP became ours came back: see the text of `trap`.
        change_mask(Change::Unblock, TRAP);
    }
    // SAFETY: the program's pointer, as it promises to the C library.
    unsafe { write_word(old, if before { seen | TRAP } else { seen & !TRAP }) };
    match (asked, how) {
        (Some(asked), libc::SIG_BLOCK) if asked & TRAP != 0 => _ = mask::set(true),
        (Some(asked), libc::SIG_UNBLOCK) if asked & TRAP != 0 => _ = mask::set(false),
        (Some(asked), libc::SIG_SETMASK) => _ = mask::set(asked & TRAP != 0),
        _ => {}
    }
    result
}

/// As the C library's.
///
/// # Safety
/// As `sigprocmask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    let Some(real) = real::sigprocmask() else { return absent() };
    // SAFETY: the caller's promise.
    unsafe { change(real, how, new, old) }
}

/// As the C library's.
///
/// # Safety
/// As `pthread_sigmask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    let Some(real) = real::pthread_sigmask() else { return libc::ENOSYS };
    // SAFETY: the caller's promise.
    unsafe { change(real, how, new, old) }
}

/// SIGTRAP's bit of a mask of 4.2BSD, if the thread believes it blocked.
fn bsd_bit(blocked: bool) -> c_int {
    if blocked { BSD_TRAP } else { 0 }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn sigsetmask(new: c_int) -> c_int {
    let Some(real) = real::sigsetmask() else { return absent() };
    if !armed() {
        let result = real(new);
        mask::settle();
        return result;
    }
    let before = bsd_bit(mask::blocked());
    let result = real(new & !BSD_TRAP) & !BSD_TRAP | before;
    mask::set(new & BSD_TRAP != 0);
    result
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn sigblock(more: c_int) -> c_int {
    let Some(real) = real::sigblock() else { return absent() };
    if !armed() {
        let result = real(more);
        mask::settle();
        return result;
    }
    let before = bsd_bit(mask::blocked());
    let result = real(more & !BSD_TRAP) & !BSD_TRAP | before;
    if more & BSD_TRAP != 0 {
        mask::set(true);
    }
    result
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn siggetmask() -> c_int {
    let Some(real) = real::siggetmask() else { return absent() };
    let result = real();
    if armed() { result & !BSD_TRAP | bsd_bit(mask::blocked()) } else { result }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn sighold(signal: c_int) -> c_int {
    hold(real::sighold(), signal, true)
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn sigrelse(signal: c_int) -> c_int {
    hold(real::sigrelse(), signal, false)
}

fn hold(real: Option<extern "C" fn(c_int) -> c_int>, signal: c_int, blocked: bool) -> c_int {
    if signal == SIGTRAP && armed() {
        mask::set(blocked);
        return 0;
    }
    let Some(real) = real else { return absent() };
    let result = real(signal);
    mask::settle();
    result
}

/// As the C library's.
///
/// # Safety
/// As `sigpending`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigpending(set: *mut sigset_t) -> c_int {
    let Some(real) = real::sigpending() else { return absent() };
    let result = real(set);
    if result == 0 && armed() && mask::pending() {
        // SAFETY: the program's pointer, which the C library has just written through.
        unsafe { write_word(set, word(set) | TRAP) };
    }
    result
}

/// The mark in a set.
fn mark(set: &mut sigset_t) -> &mut u8 {
    const BYTE: usize = MARK / 8;
    // SAFETY: a set has 1024 bits, which are integers.
    unsafe { &mut (*(&raw mut *set).cast::<[u8; size_of::<sigset_t>()]>())[BYTE] }
}
const _: () = assert!(size_of::<sigset_t>() * 8 == MARK + 1);

/// Takes SIGTRAP out of a set, and marks it instead.
fn mark_instead(set: &mut sigset_t) {
    // SAFETY: a whole set behind a reference.
    let blocked = unsafe { word(set) } & TRAP != 0;
    if blocked {
        // SAFETY: as above.
        unsafe { write_word(set, word(set) & !TRAP) };
        *mark(set) |= 0x80;
    } else {
        *mark(set) &= !0x80;
    }
}

/// As the C library's.
///
/// # Safety
/// As `pthread_attr_setsigmask_np`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_setsigmask_np(
    attributes: *mut pthread_attr_t,
    set: *const sigset_t,
) -> c_int {
    let Some(real) = real::attr_setsigmask() else { return libc::ENOSYS };
    if set.is_null() {
        return real(attributes, set);
    }
    // SAFETY: the program's pointer, as it promises to the C library.
    let mut set = set_of(unsafe { word(set) });
    if armed() {
        mark_instead(&mut set);
    }
    real(attributes, &raw const set)
}

/// As the C library's.
///
/// # Safety
/// As `pthread_attr_getsigmask_np`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_getsigmask_np(
    attributes: *const pthread_attr_t,
    set: *mut sigset_t,
) -> c_int {
    let Some(real) = real::attr_getsigmask() else { return libc::ENOSYS };
    let result = real(attributes, set);
    // SAFETY: the program's pointer, which the C library writes through.
    let set = unsafe { set.as_mut() };
    if result == 0
        && let Some(set) = set
        && *mark(set) & 0x80 != 0
    {
        *mark(set) &= !0x80;
        // SAFETY: as above.
        unsafe { write_word(set, word(set) | TRAP) };
    }
    result
}

/// Whether a thread with these attributes is to believe SIGTRAP blocked; `None` if they do not say. From
/// then on the attributes hold the mark in its place.
///
/// # Safety
/// `attributes` must be null or point to initialised attributes.
pub unsafe fn asked_in(attributes: *mut pthread_attr_t) -> Option<bool> {
    if attributes.is_null() {
        return None;
    }
    let mut set = set_of(0);
    if real::attr_getsigmask()?(attributes, &raw mut set) != 0 {
        return None;
    }
    // SAFETY: our own set.
    if unsafe { word(&raw const set) } & TRAP != 0 {
        mark_instead(&mut set);
        real::attr_setsigmask()?(attributes, &raw const set);
        return Some(true);
    }
    Some(*mark(&mut set) & 0x80 != 0)
}
