//! The unwinder's functions, looked up when one of them is first called.
//!
//! `std` calls them where a thread unwinds through this library: when it is cancelled, or for a C++
//! exception. Most processes never do that. To be linked with libgcc_s would cost each of them a
//! tenth of a millisecond at its start, for that library's constructor asks the CPU for its
//! features, which takes long in a virtual machine. So the names that `std` refers to are defined
//! here, invisibly outside, and each jumps to the function that the loader would have found. There
//! is one when it is needed: a program in C++ is linked with an unwinder, and the C library opens
//! libgcc_s to cancel a thread. If there is none, it is opened.
//!
//! Invariant 1: a function is jumped to, and not called, and keeps its arguments: `_Unwind_Resume`
//! begins with the frame of its caller.

use crate::elf::modules;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// A function's entry. Its first word is the address, 0 until it has been looked up: the jumps read
/// it.
#[repr(C)]
struct Late {
    address: AtomicUsize,
    name: &'static CStr,
}

const UNWINDER: &CStr = c"libgcc_s.so.1";
/// `_URC_END_OF_STACK`
const END_OF_STACK: c_int = 5;

extern "C" fn end_of_stack() -> c_int {
    END_OF_STACK
}

extern "C" fn stop() {
    // SAFETY: ends the process: without an unwinder, no thread can be in the middle of unwinding.
    unsafe { libc::abort() }
}

/// The address to jump to.
extern "C" fn find(late: &'static Late) -> usize {
    let found = of_any_module(late.name).or_else(|| {
        open();
        of_any_module(late.name)
    });
    if let Some(address) = found {
        // Relaxed: the address is all there is to see, and each look finds an unwinder's.
        late.address.store(address, Ordering::Relaxed);
        return address;
    }
    match late.name.to_bytes() {
        b"_Unwind_RaiseException" | b"_Unwind_Backtrace" => end_of_stack as *const () as usize,
        _ => stop as *const () as usize,
    }
}

/// The function of this name of the first module that has one. Ours has none to be seen.
fn of_any_module(name: &CStr) -> Option<usize> {
    let mut found = None;
    modules::each(&mut |module| {
        found = module.table().and_then(|table| table.function(name));
        found.is_none()
    });
    found
}

/// Lets the C library open its unwinder, as it does itself when it cancels a thread.
fn open() {
    type Open = extern "C" fn(*const c_char, c_int) -> *mut c_void;
    let Some(address) = of_any_module(c"dlopen").or_else(|| of_any_module(c"__libc_dlopen_mode")) else {
        return;
    };
    // SAFETY: the C library's functions of both names have this type, and the name is a string.
    unsafe { core::mem::transmute::<usize, Open>(address)(UNWINDER.as_ptr(), libc::RTLD_NOW) };
}

macro_rules! late {
    ($($name:ident)*) => {$(
        #[allow(non_upper_case_globals)]
        static $name: Late = Late {
            address: AtomicUsize::new(0),
            name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
        };

        #[cfg(target_arch = "x86_64")]
        core::arch::global_asm!(
            concat!(".hidden ", stringify!($name)),
            concat!(".globl ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            concat!(stringify!($name), ":"),
            "mov rax, qword ptr [rip + {late}]",
            "test rax, rax",
            "jz 2f",
            "jmp rax",
            "2:",
            "push rdi",
            "push rsi",
            "push rdx",
            "lea rdi, [rip + {late}]",
            "call {find}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp rax",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            late = sym $name,
            find = sym find,
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::global_asm!(
            concat!(".hidden ", stringify!($name)),
            concat!(".globl ", stringify!($name)),
            concat!(".type ", stringify!($name), ",%function"),
            concat!(stringify!($name), ":"),
            "adrp x16, {late}",
            "add x16, x16, :lo12:{late}",
            "ldr x17, [x16]",
            "cbz x17, 2f",
            "br x17",
            "2:",
            "stp x29, x30, [sp, #-48]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]",
            "str x2, [sp, #32]",
            "mov x0, x16",
            "bl {find}",
            "mov x16, x0",
            "ldr x2, [sp, #32]",
            "ldp x0, x1, [sp, #16]",
            "ldp x29, x30, [sp], #48",
            "br x16",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            late = sym $name,
            find = sym find,
        );
    )*};
}

// All that `std` refers to, so that nothing is left for libgcc_s.
late! {
    _Unwind_Backtrace _Unwind_DeleteException _Unwind_FindEnclosingFunction _Unwind_GetCFA
    _Unwind_GetDataRelBase _Unwind_GetGR _Unwind_GetIP _Unwind_GetIPInfo
    _Unwind_GetLanguageSpecificData _Unwind_GetRegionStart _Unwind_GetTextRelBase
    _Unwind_RaiseException _Unwind_Resume _Unwind_SetGR _Unwind_SetIP
}
