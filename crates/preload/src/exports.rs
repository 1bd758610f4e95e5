//! The functions of the C library that a program calls through us.
//!
//! Two kinds. `pthread_create` and `thrd_create` wake the guard and go on; the thread's start
//! routine is not wrapped. `dlsym` and `dlvsym` must seem to be called by the program itself, since
//! the loader judges by the caller's address which module's scope applies. So each is a few
//! instructions that change no argument, and then a jump, never a call. A look-up of one of the C
//! library's functions for conditions by a handle leads to ours: see [`crate::lock::foreign`].
//!
//! `dlopen` and its kin are not wrapped. The loader itself says when libraries come and go
//! ([`guard::rendezvous`]); where it does not, each new thread and each look-up of a symbol asks.
//!
//! All are exported without a version, and so serve callers of every version.

#[cfg(target_arch = "x86_64")]
use crate::lock::{exports::CONDITIONS, foreign};
use crate::real::{self, Real};
use crate::{entry, guard};
use core::ffi::{c_char, c_int, c_void};

/// As the C library's, after the guard has seen what there is.
///
/// # Safety
/// As `pthread_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    routine: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    type Create =
        extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, *mut c_void, *mut c_void) -> c_int;
    entry::before_thread();
    let Some(real) = real::pthread_create.get() else { return libc::EAGAIN };
    // SAFETY: the C library's function of this name has this type; the arguments are the caller's.
    unsafe { core::mem::transmute::<usize, Create>(real)(thread, attributes, routine, argument) }
}

/// As the C library's, after the guard has seen what there is.
///
/// # Safety
/// As `thrd_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut c_void,
    routine: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    type Create = extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int;
    /// `thrd_error`
    const ERROR: c_int = 2;
    entry::before_thread();
    let Some(real) = real::thrd_create.get() else { return ERROR };
    // SAFETY: the C library's function of this name has this type; the arguments are the caller's.
    unsafe { core::mem::transmute::<usize, Create>(real)(thread, routine, argument) }
}

/// Before a jump to `real`, for a look-up with these arguments: the guard looks at what has been
/// opened. Returns where to jump to.
extern "C" fn lookup_target(real: &'static Real, handle: *mut c_void, name: *const c_char) -> usize {
    if entry::start() {
        guard::look_again();
    }
    extern "C" fn absent() -> usize {
        0
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (handle, name);
    #[cfg(target_arch = "x86_64")]
    if let Some(dlsym) = real::dlsym.get()
        // SAFETY: the arguments are the caller's, and the function is the C library's.
        && let Some(answer) = unsafe { foreign::instead(CONDITIONS, dlsym, handle, name) }
    {
        return answer as *const () as usize;
    }
    real.get().unwrap_or(absent as *const () as usize)
}

/// Defines exported functions that run [`lookup_target`] with their arguments kept, and then jump.
macro_rules! tail_jumps {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the C library's function.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "endbr64",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "mov rdx, rsi",
                "mov rsi, rdi",
                "lea rdi, [rip + {real}]",
                "call {lookup_target}",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                real = sym real::$name,
                lookup_target = sym lookup_target,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-64]!",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "str x4, [sp, #48]",
                "mov x2, x1",
                "mov x1, x0",
                "adrp x0, {real}",
                "add x0, x0, :lo12:{real}",
                "bl {lookup_target}",
                "mov x16, x0",
                "ldr x4, [sp, #48]",
                "ldp x2, x3, [sp, #32]",
                "ldp x0, x1, [sp, #16]",
                "ldp x29, x30, [sp], #64",
                "br x16",
                real = sym real::$name,
                lookup_target = sym lookup_target,
            );
        }
    )*};
}

tail_jumps! {
    /// As the C library's, after the guard has seen what was opened.
    dlsym;
    /// As the C library's, after the guard has seen what was opened.
    dlvsym;
}
