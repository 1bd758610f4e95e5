//! The way from a patched PAUSE to the waiter and back, with nothing that the loop could notice.
//!
//! ```text
//! loop:  jmp rel8 ──> dead bytes: jmp rel32 ──> the loop's copy: lea  rsp, [rsp - 128]   step over the red zone
//!                                                                push [behind PAUSE, in the loop]
//!                                                                push [behind PAUSE, in the copy]
//!                                                                push [site]
//!                                                                jmp  [trampoline]
//! trampoline (here): save, wait, restore, `ret 136`: into the copy, the stack as it was.
//! ```
//!
//! The address in the loop is there for those who walk the stack: debuggers, profilers and forced unwinding
//! (cancellation) find their way from here into the loop's function as if it had called us.
//!
//! PAUSE changes no register and no flag, and a loop may keep anything in any of them. Saved here are the
//! flags, the general registers that a function may change, and xmm0 to xmm15. [`super::visit::visit`]
//! therefore must touch nothing else: no x87 or MMX register, no upper half of a vector register (no VEX
//! or EVEX instruction), no mask register, and it must call nothing of which that is not known, the C
//! library above all. A test walks the machine code of the built library from `visit` on and checks it
//! (`tests/closed.rs`).
//!
//! Direction and alignment flags come as the loop left them and go back so; the Rust side gets the
//! direction flag clear, as its convention asks.

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
    // On entry: [rsp] the site, [rsp + 8] where to return to, [rsp + 16] the address behind the PAUSE in
    // the loop, 128 bytes of red zone above.
    ".cfi_def_cfa rsp, 152",
    ".cfi_offset rip, -136",
    "endbr64",
    "pushfq",
    ".cfi_adjust_cfa_offset 8",
    "push rax", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rax, 0",
    "push rcx", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rcx, 0",
    "push rdx", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rdx, 0",
    "push rsi", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rsi, 0",
    "push rdi", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rdi, 0",
    "push r8", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r8, 0",
    "push r9", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r9, 0",
    "push r10", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r10, 0",
    "push r11", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset r11, 0",
    "push rbp", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rbp, 0",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "cld",
    "mov rdi, qword ptr [rbp + 88]",
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
    "pop rbp", ".cfi_adjust_cfa_offset -8", ".cfi_restore rbp",
    "pop r11", ".cfi_adjust_cfa_offset -8", ".cfi_restore r11",
    "pop r10", ".cfi_adjust_cfa_offset -8", ".cfi_restore r10",
    "pop r9", ".cfi_adjust_cfa_offset -8", ".cfi_restore r9",
    "pop r8", ".cfi_adjust_cfa_offset -8", ".cfi_restore r8",
    "pop rdi", ".cfi_adjust_cfa_offset -8", ".cfi_restore rdi",
    "pop rsi", ".cfi_adjust_cfa_offset -8", ".cfi_restore rsi",
    "pop rdx", ".cfi_adjust_cfa_offset -8", ".cfi_restore rdx",
    "pop rcx", ".cfi_adjust_cfa_offset -8", ".cfi_restore rcx",
    "pop rax", ".cfi_adjust_cfa_offset -8", ".cfi_restore rax",
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

/// The address of the trampoline.
#[cfg(all(target_arch = "x86_64", not(test)))]
pub fn address() -> usize {
    unsafe extern "C" {
        fn manx_trampoline();
    }
    manx_trampoline as *const () as usize
}
