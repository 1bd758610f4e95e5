// Busy-wait loops whose copies are run. Each returns what its name's number of rounds and its exit make of it.
#define PAUSE() __builtin_ia32_pause()

struct state {
    volatile long word, other;
    long rounds, result;
};

long plain(struct state *s) {
    while (s->word == 0)
        PAUSE();
    return s->word;
}

long two_pauses(struct state *s) {
    for (;;) {
        if (s->word == 1) return 1;
        PAUSE();
        if (s->word == 2) return 2;
        PAUSE();
        if (s->word == 3) return 3;
    }
}

static volatile long of_module;
volatile long *place_of_module(void) { return &of_module; }
long module_word(struct state *s) {
    while (of_module == 0)
        PAUSE();
    return of_module + (s->rounds & 0);
}

long compares(struct state *s) {
    while (!__sync_bool_compare_and_swap(&s->word, 3, 5))
        PAUSE();
    return s->word;
}

long exchanges(struct state *s) {
    while (__atomic_exchange_n(&s->other, 1, __ATOMIC_ACQUIRE) == 1)
        PAUSE();
    return 40 + s->other;
}

long several_exits(struct state *s) {
    for (;;) {
        long word = s->word;
        if (word == 1) return 10;
        if (word == 2) {
            s->result = 7;
            return 20;
        }
        PAUSE();
        if (s->word == 3) break;
    }
    return 30 + s->rounds;
}

long keeps_registers(struct state *s) {
    long a = 1, b = 2, c = 3, d = 4, rounds = 0;
    double x = 1.0;
    while (s->word == 0) {
        a += b, b ^= c, c += d, d = d * 3 + 1, x = x * 0.5 + 1.0, rounds++;
        PAUSE();
    }
    s->rounds = rounds;
    long e = 1, f = 2, g = 3, h = 4;
    double y = 1.0;
    for (long n = 0; n < rounds; n++)
        e += f, f ^= g, g += h, h = h * 3 + 1, y = y * 0.5 + 1.0;
    return a == e && b == f && c == g && d == h && x == y;
}

/* Without a PAUSE. */
long empty(struct state *s) {
    while (s->word == 0) {}
    return s->word;
}

long empty_of_module(struct state *s) {
    while (of_module == 0) {}
    return of_module + (s->rounds & 0);
}

long by_nops(struct state *s) {
    while (s->word == 0)
        __asm__ volatile("nop;nop;nop;nop;nop;nop;nop;nop");
    return s->word;
}

long counts_with_two_pauses(struct state *s) {
    for (unsigned i = 0; i < 1000; i++) {
        if (s->word) return s->word;
        PAUSE();
        __asm__ volatile("" ::: "memory");
        PAUSE();
    }
    return 0;
}

/* The PAUSE is somewhere else. */
__attribute__((noinline)) void relax(void) { PAUSE(); }
long calls(struct state *s) {
    while (s->word == 0)
        relax();
    return s->word;
}

#define FUNCTION(name, body) \
    __asm__(".pushsection .text\n.globl " name "\n.type " name ",@function\n" name ":\n.cfi_startproc\n" body \
            "ret\n.cfi_endproc\n.size " name ", . - " name "\n.popsection\n")

FUNCTION("by_loop", "1: pause\n movq (%rdi), %rcx\n jrcxz 2f\n jmp 3f\n 2: movl $2, %ecx\n loop 1b\n ud2\n"
                    "3: movq (%rdi), %rax\n");
FUNCTION("falls_out", "1: pause\n cmpq $0, (%rdi)\n je 2f\n movl $4, %eax\n ret\n"
                      "2: cmpq $0, 8(%rdi)\n je 1b\n movl $5, %eax\n");
FUNCTION("keeps_flags", "1: cmpq $0, (%rdi)\n pause\n je 1b\n movq (%rdi), %rax\n");
FUNCTION("keeps_flags_past_a_shift_by_none",
         "xorl %ecx, %ecx\n 1: movl 8(%rdi), %eax\n cmpq $0, (%rdi)\n pause\n shll %cl, %eax\n je 1b\n movq (%rdi), %rax\n");
FUNCTION("keeps_the_red_zone", "movq $77, -8(%rsp)\n movq $78, -128(%rsp)\n 1: pause\n cmpq $0, (%rdi)\n je 1b\n"
                               "movq -8(%rsp), %rax\n addq -128(%rsp), %rax\n");
