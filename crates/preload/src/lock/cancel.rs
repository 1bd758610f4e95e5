//! Sleeping on a futex so that the thread can be cancelled meanwhile.
//!
//! A thread is cancelled inside of a system call only if its type of cancellation is asynchronous then, and the C
//! library's own calls make it so around the call. So does [`cancellable`], which is not in Rust: the thread may be
//! unwound from any instruction between the two changes of type, and Rust's tables know of calls only. Its frame has a
//! fixed shape meanwhile, which the unwinder is told, and nothing to clean up.
//!
//! The change of type itself acts on a cancellation that is already there: a cancellation point that need not sleep
//! is one nevertheless.

use super::real;
use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use platform::futex::{Clock, Deadline, Outcome};

/// `PTHREAD_CANCEL_ASYNCHRONOUS`
const ASYNCHRONOUS: c_int = 1;
/// `PTHREAD_CANCEL_DEFERRED`
const DEFERRED: c_int = 0;

/// As [`platform::futex::wait_set`] for every set, but the thread may be cancelled, and is unwound then.
/// `type_before` is set to the type of cancellation that the thread has otherwise.
pub(super) fn wait(
    word: &AtomicU32,
    expected: u32,
    deadline: Option<Deadline>,
    type_before: &mut c_int,
) -> Outcome {
    let Some(set_type) = real::setcanceltype() else {
        return platform::futex::wait_set(word, expected, platform::futex::ANY_SET, deadline);
    };
    let time = deadline.map(|deadline| libc::timespec {
        tv_sec: (deadline.ns / platform::clock::SECOND_NS) as libc::time_t,
        tv_nsec: (deadline.ns % platform::clock::SECOND_NS) as libc::c_long,
    });
    let place = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let realtime = deadline.is_some_and(|deadline| deadline.clock == Clock::Realtime);
    let clock = if realtime { libc::FUTEX_CLOCK_REALTIME } else { 0 };
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG | clock;
    // SAFETY: the kernel reads the word and the time, which live until the call returns or is unwound; the
    // function changes this thread's type of cancellation.
    let result =
        unsafe { cancellable(word.as_ptr(), operation, expected, place, set_type as usize, type_before) };
    match -result as c_int {
        libc::ETIMEDOUT => Outcome::TimedOut,
        libc::EAGAIN => Outcome::Changed,
        libc::EINTR => Outcome::Interrupted,
        _ => Outcome::Woken,
    }
}

/// Back to the type of cancellation that the thread had.
pub(super) fn restore(type_before: c_int) {
    if let Some(set_type) = real::setcanceltype()
        && type_before == DEFERRED
    {
        let mut ignored = 0;
        set_type(type_before, &mut ignored);
    }
}

/// Makes cancellation asynchronous by the function at `set_type`, makes the system call `futex(word, operation,
/// expected, time, 0, every set)`, and changes back; returns what the kernel returned.
///
/// # Safety
/// The call's pointers are valid, and `set_type` is the address of `pthread_setcanceltype`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn cancellable(
    word: *mut u32,
    operation: c_int,
    expected: u32,
    time: *const libc::timespec,
    set_type: usize,
    type_before: *mut c_int,
) -> isize {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        ".cfi_offset rbx, -24",
        "push r12",
        ".cfi_offset r12, -32",
        "push r13",
        ".cfi_offset r13, -40",
        "push r14",
        ".cfi_offset r14, -48",
        "push r15",
        ".cfi_offset r15, -56",
        "sub rsp, 24",
        "mov rbx, rdi",
        "mov r12d, esi",
        "mov r13d, edx",
        "mov r14, rcx",
        "mov r15, r8",
        "mov [rsp], r9",
        // Asynchronous; the type before to where the caller wants it.
        "mov edi, {asynchronous}",
        "mov rsi, r9",
        "call r15",
        "mov eax, {futex}",
        "mov rdi, rbx",
        "mov esi, r12d",
        "mov edx, r13d",
        "mov r10, r14",
        "xor r8d, r8d",
        "mov r9d, -1",
        "syscall",
        "mov [rsp + 8], rax",
        // Back to that type.
        "mov rax, [rsp]",
        "mov edi, [rax]",
        "lea rsi, [rsp + 16]",
        "call r15",
        "mov rax, [rsp + 8]",
        "add rsp, 24",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        asynchronous = const ASYNCHRONOUS,
        futex = const libc::SYS_futex,
    )
}
