//! Sleeping on a futex so that the thread can be cancelled meanwhile.
//!
//! A thread is cancelled inside of a system call only if its type of cancellation is asynchronous
//! then, and the C library's own calls make it so around the call. So does [`wait`], whose inner
//! part is not in Rust: the thread may be unwound from any instruction between the two changes of
//! type, and Rust's tables know of calls only. Its frame has a fixed shape meanwhile, which the
//! unwinder is told, and nothing to clean up.
//!
//! The change of type itself acts on a cancellation that is already there: a cancellation point
//! that need not sleep is one nevertheless.
//!
//! One thing is not as in the C library, whose own waits stay until a cancellation that is on its
//! way has arrived. Here one that comes as the wait ends may find the type deferred again; it is
//! then acted upon at the next cancellation point, and if there is none before the thread ends,
//! whoever joins it may be told that it was cancelled.

use crate::atomic::AtomicU32;
use crate::futex::{Clock, Deadline, Outcome};
use core::ffi::c_int;

/// `PTHREAD_CANCEL_ASYNCHRONOUS`
const ASYNCHRONOUS: c_int = 1;

/// The C library's `pthread_setcanceltype`.
pub type SetType = extern "C-unwind" fn(c_int, *mut c_int) -> c_int;

/// As [`crate::futex::wait_set`] for every set, but the thread may be cancelled, and is unwound
/// then. `type_before` is set to the type of cancellation that the thread has otherwise.
///
/// ```
/// use platform::atomic::AtomicU32;
/// use platform::futex::Outcome;
///
/// unsafe extern "C-unwind" {
///     fn pthread_setcanceltype(kind: i32, before: *mut i32) -> i32;
/// }
/// extern "C-unwind" fn set_type(kind: i32, before: *mut i32) -> i32 {
///     // SAFETY: the C library's own function.
///     unsafe { pthread_setcanceltype(kind, before) }
/// }
/// let mut before = 0;
/// assert_eq!(platform::cancel::wait(&AtomicU32::new(1), 0, None, set_type, &mut before), Outcome::Changed);
/// ```
pub fn wait(
    word: &AtomicU32,
    expected: u32,
    deadline: Option<Deadline>,
    set_type: SetType,
    type_before: &mut c_int,
) -> Outcome {
    let time = deadline.map(|deadline| crate::clock::timespec(deadline.ns));
    let place = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let realtime = deadline.is_some_and(|deadline| deadline.clock == Clock::Realtime);
    let clock = if realtime { libc::FUTEX_CLOCK_REALTIME } else { 0 };
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG | clock;
    // SAFETY: the kernel reads the word and the time, which live until the call returns or is
    // unwound; the function changes this thread's type of cancellation.
    let result =
        unsafe { cancellable(word.as_ptr(), operation, expected, place, set_type as usize, type_before) };
    crate::futex::outcome(result)
}

/// Makes cancellation asynchronous by the function at `set_type`, makes the system call
/// `futex(word, operation, expected, time, 0, every set)`, and changes back; returns what the
/// kernel returned.
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
