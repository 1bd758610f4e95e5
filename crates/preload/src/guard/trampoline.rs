//! The way from a copy to the waiter and back, with nothing that the loop could notice.
//!
//! ```text
//! loop:  jmp ──> the loop's copy: lea  rsp, [rsp - 128]   step over the red zone
//!                                 push [where the thread stands, in the loop]
//!                                 push [where it goes on, in the copy]
//!                                 push [site]
//!                                 jmp  [trampoline]
//! trampoline (here): save, wait, restore, `ret 136`: into the copy, the stack as it was.
//! ```
//!
//! The address in the loop is there for code that walks the stack: debuggers, profilers and forced
//! unwinding (cancellation) find their way from here into the loop's function as if it had called
//! us.
//!
//! PAUSE changes no register and no flag, and a loop may keep anything in any of them. Saved here
//! are the flags, all general registers, and xmm0 to xmm15. The general registers lie on the stack
//! as [`Registers`](super::registers::Registers), which [`super::visit::visit`] may change: so it
//! moves a counter on that the loop keeps in a register. The function must touch nothing else: no
//! x87 or MMX register, no upper half of a vector register (no VEX or EVEX instruction), no mask
//! register, and it must call no code that may touch these, the C library above all. A test walks
//! the machine code of the built library from `visit` on and checks it (`tests/closed.rs`).
//!
//! Direction and alignment flags come as the loop left them and go back so; the Rust side gets the
//! direction flag clear, as its convention asks.

use crate::site::Site;

#[cfg(all(target_arch = "x86_64", not(test)))]
core::arch::global_asm!(
    ".pushsection .text.manx_trampoline,\"ax\",@progbits",
    ".balign 64",
    ".hidden manx_trampoline",
    ".globl manx_trampoline",
    ".type manx_trampoline,@function",
    "manx_trampoline:",
    ".cfi_startproc simple",
    ".cfi_signal_frame",
    // On entry: [rsp] the site, [rsp + 8] where to return to, [rsp + 16] where the thread stands in
    // the loop, 128 bytes of red zone above.
    ".cfi_def_cfa rsp, 152",
    ".cfi_offset rip, -136",
    "endbr64",
    "pushfq",
    ".cfi_adjust_cfa_offset 8",
    "push r15", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r15, 0",
    "push r14", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r14, 0",
    "push r13", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r13, 0",
    "push r12", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r12, 0",
    "push r11", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r11, 0",
    "push r10", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r10, 0",
    "push r9", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r9, 0",
    "push r8", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r8, 0",
    "push rdi", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rdi, 0",
    "push rsi", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rsi, 0",
    "push rbp", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rbp, 0",
    "push rsp", ".cfi_adjust_cfa_offset 8",
    "push rbx", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rbx, 0",
    "push rdx", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rdx, 0",
    "push rcx", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rcx, 0",
    "push rax", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rax, 0",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "cld",
    "mov rdi, qword ptr [rbp + 136]",
    "mov rsi, rbp",
    "and rsp, -16",
    "sub rsp, 256",
    "movaps xmmword ptr [rsp], xmm0",
    "movaps xmmword ptr [rsp + 16], xmm1",
    "movaps xmmword ptr [rsp + 32], xmm2",
    "movaps xmmword ptr [rsp + 48], xmm3",
    "movaps xmmword ptr [rsp + 64], xmm4",
    "movaps xmmword ptr [rsp + 80], xmm5",
    "movaps xmmword ptr [rsp + 96], xmm6",
    "movaps xmmword ptr [rsp + 112], xmm7",
    "movaps xmmword ptr [rsp + 128], xmm8",
    "movaps xmmword ptr [rsp + 144], xmm9",
    "movaps xmmword ptr [rsp + 160], xmm10",
    "movaps xmmword ptr [rsp + 176], xmm11",
    "movaps xmmword ptr [rsp + 192], xmm12",
    "movaps xmmword ptr [rsp + 208], xmm13",
    "movaps xmmword ptr [rsp + 224], xmm14",
    "movaps xmmword ptr [rsp + 240], xmm15",
    "call {visit}",
    "movaps xmm0, xmmword ptr [rsp]",
    "movaps xmm1, xmmword ptr [rsp + 16]",
    "movaps xmm2, xmmword ptr [rsp + 32]",
    "movaps xmm3, xmmword ptr [rsp + 48]",
    "movaps xmm4, xmmword ptr [rsp + 64]",
    "movaps xmm5, xmmword ptr [rsp + 80]",
    "movaps xmm6, xmmword ptr [rsp + 96]",
    "movaps xmm7, xmmword ptr [rsp + 112]",
    "movaps xmm8, xmmword ptr [rsp + 128]",
    "movaps xmm9, xmmword ptr [rsp + 144]",
    "movaps xmm10, xmmword ptr [rsp + 160]",
    "movaps xmm11, xmmword ptr [rsp + 176]",
    "movaps xmm12, xmmword ptr [rsp + 192]",
    "movaps xmm13, xmmword ptr [rsp + 208]",
    "movaps xmm14, xmmword ptr [rsp + 224]",
    "movaps xmm15, xmmword ptr [rsp + 240]",
    "mov rsp, rbp",
    ".cfi_def_cfa_register rsp",
    "pop rax", ".cfi_adjust_cfa_offset -8", ".cfi_restore rax",
    "pop rcx", ".cfi_adjust_cfa_offset -8", ".cfi_restore rcx",
    "pop rdx", ".cfi_adjust_cfa_offset -8", ".cfi_restore rdx",
    "pop rbx", ".cfi_adjust_cfa_offset -8", ".cfi_restore rbx",
    "lea rsp, [rsp + 8]", ".cfi_adjust_cfa_offset -8",
    "pop rbp", ".cfi_adjust_cfa_offset -8", ".cfi_restore rbp",
    "pop rsi", ".cfi_adjust_cfa_offset -8", ".cfi_restore rsi",
    "pop rdi", ".cfi_adjust_cfa_offset -8", ".cfi_restore rdi",
    "pop r8", ".cfi_adjust_cfa_offset -8", ".cfi_restore r8",
    "pop r9", ".cfi_adjust_cfa_offset -8", ".cfi_restore r9",
    "pop r10", ".cfi_adjust_cfa_offset -8", ".cfi_restore r10",
    "pop r11", ".cfi_adjust_cfa_offset -8", ".cfi_restore r11",
    "pop r12", ".cfi_adjust_cfa_offset -8", ".cfi_restore r12",
    "pop r13", ".cfi_adjust_cfa_offset -8", ".cfi_restore r13",
    "pop r14", ".cfi_adjust_cfa_offset -8", ".cfi_restore r14",
    "pop r15", ".cfi_adjust_cfa_offset -8", ".cfi_restore r15",
    "popfq",
    ".cfi_adjust_cfa_offset -8",
    "lea rsp, [rsp + 8]",
    ".cfi_adjust_cfa_offset -8",
    "ret 136",
    ".cfi_endproc",
    ".size manx_trampoline, . - manx_trampoline",
    ".popsection",
    visit = sym super::visit::visit,
);

/// What the copies of loops refer to; `None` on machines where loops are not copied. `site_rounds`
/// is the address of the copy's word.
pub fn hooks(site: &'static Site, site_rounds: usize) -> Option<spinloop::Hooks> {
    #[cfg(all(target_arch = "x86_64", not(test)))]
    {
        unsafe extern "C" {
            fn manx_trampoline();
        }
        let waiting = crate::thread::waiting_offset();
        Some(spinloop::Hooks {
            trampoline: (manx_trampoline as *const ()).addr() as u64,
            site: core::ptr::from_ref(site).addr() as u64,
            waiting,
            rounds: waiting + size_of::<usize>() as i32,
            site_rounds: site_rounds as u64,
        })
    }
    #[cfg(not(all(target_arch = "x86_64", not(test))))]
    {
        let _ = (site, site_rounds);
        None
    }
}
