//! `syscall`: the numbers of `rt_sigaction` and `rt_sigprocmask` made by the C library.
//!
//! A module that makes these system calls itself is found by its code ([`super::super::survey`]). One that lets
//! the C library make them by number looks like any other, so that function is ours too. Every other number is
//! a jump away from the C library's own, with all arguments where they were.

use super::super::action::{self, TRAP};
use super::super::armed;
use super::fail;
use super::mask::change;
use crate::sample;
use core::ffi::{c_int, c_long};
use libc::{SIGTRAP, sigset_t};
use platform::signal::Disposition;
use platform::syscall::{check, syscall4};

/// The address of the C library's `syscall`.
extern "C" fn real() -> usize {
    extern "C" fn absent() -> c_long {
        c_long::from(fail(libc::ENOSYS))
    }
    crate::real::syscall.get().unwrap_or(absent as *const () as usize)
}

/// As the C library's.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    core::arch::naked_asm!(
        "endbr64",
        "cmp rdi, {action}",
        "je {signals}",
        "cmp rdi, {mask}",
        "je {signals}",
        "mov rax, qword ptr [rip + {known}]",
        "cmp rax, {nowhere}",
        "jbe 2f",
        "jmp rax",
        "2:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call {real}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        action = const libc::SYS_rt_sigaction,
        mask = const libc::SYS_rt_sigprocmask,
        signals = sym signals,
        known = sym crate::real::syscall,
        nowhere = const crate::real::NOWHERE,
        real = sym real,
    )
}

/// The two calls that are not passed on as they are.
extern "C" fn signals(number: c_long, first: c_int, new: usize, old: usize, bytes: usize) -> c_long {
    if bytes != size_of::<u64>() {
        return c_long::from(kernel(number, first, new, old, bytes));
    }
    // SAFETY: the program's pointers, as it promises to the kernel.
    c_long::from(unsafe {
        if number == libc::SYS_rt_sigprocmask {
            change(set_mask, first, new as *const sigset_t, old as *mut sigset_t)
        } else {
            set_action(first, new as *const Disposition, old as *mut Disposition)
        }
    })
}

fn kernel(number: c_long, first: c_int, new: usize, old: usize, bytes: usize) -> c_int {
    // SAFETY: what the program asked for, but for SIGTRAP.
    match check(unsafe { syscall4(number, first as usize, new, old, bytes) }) {
        Ok(_) => 0,
        Err(number) => fail(number),
    }
}

extern "C" fn set_mask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    kernel(libc::SYS_rt_sigprocmask, how, new.addr(), old.addr(), size_of::<u64>())
}

/// # Safety
/// As `rt_sigaction`.
unsafe fn set_action(signal: c_int, new: *const Disposition, old: *mut Disposition) -> c_int {
    let ask = |new: usize| kernel(libc::SYS_rt_sigaction, signal, new, old.addr(), size_of::<u64>());
    if !new.is_null() {
        sample::yield_to_program(signal);
    }
    if !armed() {
        let result = ask(new.addr());
        action::settle(signal);
        return result;
    }
    // SAFETY: as the caller promised.
    unsafe {
        let new = new.as_ref().copied();
        if signal == SIGTRAP {
            let before = action::trap(new);
            if let Some(old) = old.as_mut() {
                *old = before;
            }
            return 0;
        }
        let asks = new.map(|new| new.mask & TRAP != 0);
        let passed = new.map(|new| Disposition { mask: new.mask & !TRAP, ..new });
        let (result, asked) = action::other(signal, asks, || {
            let result = ask(passed.as_ref().map_or(0, |new| core::ptr::from_ref(new).addr()));
            (result, result == 0)
        });
        if let Some(old) = old.as_mut().filter(|_| result == 0 && asked) {
            old.mask |= TRAP;
        }
        result
    }
}
