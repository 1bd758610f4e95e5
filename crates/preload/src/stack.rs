//! Calls a function on another stack than the thread's own.
//!
//! A program gives its threads as much stack as it needs itself. Where a call of the C library
//! needs next to nothing, we must not need more; so whatever needs more has a stack of its own.
//!
//! Only the stack pointer is exchanged, by a call within a call: the frame pointer keeps the old
//! one, as the unwind information says, so debuggers show both stacks as one. Nothing unwinds
//! through it: what is called is `extern "C"`, where a panic aborts.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use platform::memory::{READ, WRITE, map_zeroes, page_bytes, protect, unmap};

/// Calls `work` on the stack that ends below `top`, and returns its result.
///
/// # Safety
/// `top` must be a multiple of 16. The memory below it must be large enough for `work`, and no
/// other code may use it.
pub unsafe fn call_on<R>(top: *mut u8, work: impl FnOnce() -> R) -> R {
    struct Call<F, R> {
        work: Option<F>,
        result: MaybeUninit<R>,
    }

    extern "C" fn run<R, F: FnOnce() -> R>(call: *mut c_void) {
        // SAFETY: it is the call below, which waits for us and does not touch it meanwhile.
        let call = unsafe { &mut *call.cast::<Call<F, R>>() };
        if let Some(work) = call.work.take() {
            call.result.write(work());
        }
    }

    fn entry<R, F: FnOnce() -> R>(_: &Call<F, R>) -> extern "C" fn(*mut c_void) {
        run::<R, F>
    }

    debug_assert!(top.addr().is_multiple_of(16));
    let mut call = Call { work: Some(work), result: MaybeUninit::uninit() };
    let function = entry(&call);
    // SAFETY: the stack is as the caller promises, and the function takes this argument.
    unsafe { switch((&raw mut call).cast(), function, top) };
    // SAFETY: `run` was called once, with work to do, and so wrote the result.
    unsafe { call.result.assume_init() }
}

/// Calls `work` on a new stack of `bytes` bytes, a multiple of the size of a page. `None` if there
/// is no memory for it.
pub fn call_on_new<R>(bytes: usize, work: impl FnOnce() -> R) -> Option<R> {
    // The lowest page has no rights: work that needs more stack faults there, and writes over
    // nothing.
    let all = bytes.checked_add(page_bytes())?;
    let stack = map_zeroes(all, READ | WRITE).ok()?;
    // SAFETY: the page belongs to the new mapping, and no other code uses it yet.
    let guarded = unsafe { protect(stack.addr(), page_bytes(), 0) };
    // SAFETY: the stack is a new mapping, which ends at a page's border.
    let result = guarded.is_ok().then(|| unsafe { call_on(stack.wrapping_add(all), work) });
    // SAFETY: no code uses the mapping any more. If the kernel refuses, the mapping stays.
    let _ = unsafe { unmap(stack, all) };
    result
}

/// Calls `function(argument)` with the stack pointer at `top`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn switch(argument: *mut c_void, function: extern "C" fn(*mut c_void), top: *mut u8) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls `function(argument)` with the stack pointer at `top`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn switch(argument: *mut c_void, function: extern "C" fn(*mut c_void), top: *mut u8) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "mov sp, x2",
        "blr x1",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa sp, 0",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_runs_there_and_its_result_comes_back() {
        #[repr(align(16))]
        struct Room([u8; 64 << 10]);
        let mut room = Box::new(Room([0; 64 << 10]));
        let range = room.0.as_mut_ptr_range();
        let name = String::from("moved there");
        let work = move || {
            let here = 0u8;
            ((&raw const here).addr(), name + " and back")
        };
        // SAFETY: the room is ours alone, aligned to 16 bytes, and larger than what so little
        // needs.
        let (place, name) = unsafe { call_on(range.end, work) };
        assert!((range.start.addr()..range.end.addr()).contains(&place));
        assert_eq!(name, "moved there and back");
        assert_eq!(
            call_on_new(64 << 10, || name + ", and to a new one").as_deref(),
            Some("moved there and back, and to a new one")
        );
        assert!(call_on_new(usize::MAX & !0xfff, || ()).is_none());
        let here = 0u8;
        assert!(!(range.start.addr()..range.end.addr()).contains(&(&raw const here).addr()));
    }
}
