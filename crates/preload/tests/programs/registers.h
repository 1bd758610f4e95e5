/* Functions that load everything a loop may hold, wait, and store everything: registers, flags, and what lies below the stack
 * pointer. */
#ifndef REGISTERS_H
#define REGISTERS_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { RAX, RCX, RDX, RBX, RBP, RSI, R8, R9, R10, R11, R12, R13, R14, R15 };

struct registers {
    uint64_t general[14]; // in this order
    uint64_t flags;
    uint64_t red_zone[16];
    uint8_t vectors[16][32];
    uint32_t mxcsr;
};

_Static_assert(offsetof(struct registers, flags) == 112, "layout");
_Static_assert(offsetof(struct registers, red_zone) == 120, "layout");
_Static_assert(offsetof(struct registers, vectors) == 248, "layout");
_Static_assert(offsetof(struct registers, mxcsr) == 760, "layout");

struct registers before, after;

#define LOAD(n) "vmovdqu 256+32*" #n "-8(%rsi), %ymm" #n "\n"
#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15)
#define RED_IN(n) "mov 120+8*" #n "(%rsi), %rax\nmov %rax, -128+8*" #n "(%rsp)\n"
#define RED_OUT(n) "mov -128+8*" #n "(%rsp), %rax\nmov %rax, 120+8*" #n "(%rsi)\n"
#define STORE(n) "vmovdqu %ymm" #n ", 256+32*" #n "-8(%rsi)\n"

/* `void name(volatile int *flag)`: loads everything from `before`, runs `body`, which keeps rdi, with the direction flag set on
 * purpose, and stores everything to `after`. Last comes a futex, as behind the loop of a thread that gives up and
 * sleeps; the flag never is 2, so it returns at once. */
#define WAITER(name, body) __asm__( \
    ".text\n.balign 64\nnop\n.balign 64\n.globl " name "\n.type " name ",@function\n" name ":\n.cfi_startproc\n" \
    "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbx,0\n" \
    "push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbp,0\n" \
    "push %r12\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r12,0\n" \
    "push %r13\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r13,0\n" \
    "push %r14\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r14,0\n" \
    "push %r15\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r15,0\n" \
    "lea before(%rip), %rsi\n" \
    EACH(LOAD) \
    EACH(RED_IN) \
    "ldmxcsr 760(%rsi)\n" \
    "mov 0(%rsi), %rax\nmov 8(%rsi), %rcx\nmov 16(%rsi), %rdx\nmov 24(%rsi), %rbx\nmov 32(%rsi), %rbp\n" \
    "mov 48(%rsi), %r8\nmov 56(%rsi), %r9\nmov 64(%rsi), %r10\nmov 72(%rsi), %r11\n" \
    "mov 80(%rsi), %r12\nmov 88(%rsi), %r13\nmov 96(%rsi), %r14\nmov 104(%rsi), %r15\n" \
    "mov 40(%rsi), %rsi\n" \
    "std\n.fill 20, 1, 0x90\n" \
    body \
    "mov %rax, after+0(%rip)\nmov %rcx, after+8(%rip)\nmov %rdx, after+16(%rip)\nmov %rbx, after+24(%rip)\n" \
    "mov %rbp, after+32(%rip)\nmov %rsi, after+40(%rip)\nmov %r8, after+48(%rip)\nmov %r9, after+56(%rip)\n" \
    "mov %r10, after+64(%rip)\nmov %r11, after+72(%rip)\nmov %r12, after+80(%rip)\nmov %r13, after+88(%rip)\n" \
    "mov %r14, after+96(%rip)\nmov %r15, after+104(%rip)\n" \
    "lea after(%rip), %rsi\n" \
    EACH(RED_OUT) \
    EACH(STORE) \
    "stmxcsr 760(%rsi)\n" \
    "pushfq\npop %rax\nmov %rax, 112(%rsi)\n" \
    "cld\n" \
    "mov $202, %eax\nxor %esi, %esi\nmov $2, %edx\nxor %r10d, %r10d\nsyscall\n" \
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\n" \
    ".cfi_remember_state\n.cfi_def_cfa_offset 8\nret\n.cfi_restore_state\n" \
    ".cfi_endproc\n.size " name ",.-" name "\n" \
    ".balign 4, 0xcc\n")

/* What a round begins with: bytes that differ. */
static inline void fill(unsigned round) {
    uint8_t *bytes = (uint8_t *)&before;
    for (size_t i = 0; i < sizeof before; i++) bytes[i] = (uint8_t)(i * 7 + round * 31 + 1);
    before.mxcsr = 0x1f80 | (round % 2 ? 0x6000 : 0); // rounding towards zero every other time
    memset(&after, 0, sizeof after);
}

/* Whether everything is as `before` says, and the direction flag is still set. */
static inline int is_kept(void) {
    uint64_t flags = after.flags;
    before.flags = after.flags = 0;
    int same = memcmp(&before, &after, offsetof(struct registers, mxcsr) + 4) == 0;
    for (size_t i = 0; !same && i < sizeof before; i++)
        if (((uint8_t *)&before)[i] != ((uint8_t *)&after)[i])
            printf("byte %zu: %02x became %02x\n", i, ((uint8_t *)&before)[i], ((uint8_t *)&after)[i]);
    if (!(flags & 0x400)) puts("the direction flag was lost");
    return same && (flags & 0x400);
}

#endif
