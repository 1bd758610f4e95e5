// Loops that give up after more rounds than anybody can wait for, with the counter, or the bound, in each register in turn
// and on the stack. Nobody ever sets the flag, so a loop is left only if its counter is moved on; and then to the bound, with
// everything else as it was.
#include "registers.h"

#include <pthread.h>

#define ROUNDS (UINT64_C(1) << 50)

static volatile int flag;
static volatile uint64_t limit = ROUNDS;

#define SPIN "1: pause\ncmpl $0, (%rdi)\njne 2f\n"
#define END "jne 1b\n2:\n"
#define REGISTERS(f) \
    f(RAX, rax) f(RCX, rcx) f(RDX, rdx) f(RBX, rbx) f(RBP, rbp) f(RSI, rsi) f(R8, r8) f(R9, r9) f(R10, r10) \
    f(R11, r11) f(R12, r12) f(R13, r13) f(R14, r14) f(R15, r15)

// Down to zero.
#define DOWN(number, name) void down_##name(volatile int *); WAITER("down_" #name, SPIN "subq $1, %" #name "\n" END);
REGISTERS(DOWN)
// Up to what a register holds; the counter is rax, or rcx if that is the bound.
#define UP(number, name) void up_to_##name(volatile int *); WAITER("up_to_" #name, SPIN "addq $1, %rax\ncmpq %" #name ", %rax\n" END);
#define OTHERS(f) \
    f(RCX, rcx) f(RDX, rdx) f(RBX, rbx) f(RBP, rbp) f(RSI, rsi) f(R8, r8) f(R9, r9) f(R10, r10) \
    f(R11, r11) f(R12, r12) f(R13, r13) f(R14, r14) f(R15, r15)
OTHERS(UP)
void up_to_rax(volatile int *);
WAITER("up_to_rax", SPIN "addq $1, %rcx\ncmpq %rax, %rcx\n" END);
// The flag's address and a counter change places.
void down_rdi(volatile int *);
WAITER("down_rdi", "xchg %rdi, %rsi\n1: pause\ncmpl $0, (%rsi)\njne 2f\nsubq $1, %rdi\njne 1b\n2: xchg %rdi, %rsi\n");
// On the stack, and half a register, whose upper half becomes zero.
void down_slot(volatile int *);
WAITER("down_slot", SPIN "subq $1, -8(%rsp)\n" END);
void down_half(volatile int *);
WAITER("down_half", SPIN "subl $1, %r9d\n" END);
// Up to what memory holds.
void up_to_memory(volatile int *);
WAITER("up_to_memory", SPIN "addq $1, %r11\ncmpq limit(%rip), %r11\n" END);

static void *run(void *loop) {
    ((void (*)(volatile int *))loop)(&flag);
    return NULL;
}

static int failed;

// Runs a loop, with `before` as it is to be at the start; `now` is where the counter is, and becomes `end`.
static void moves(const char *name, void *loop, uint64_t *now, uint64_t end) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, loop);
    pthread_join(thread, NULL);
    *now = end;
    if (!is_kept()) {
        printf("%s\n", name);
        failed = 1;
    }
}

int main(void) {
    if (!__builtin_cpu_supports("avx")) {
        puts("no AVX");
        return 77;
    }
    unsigned round = 0;
    uint64_t *general = before.general;
#define RUN_DOWN(number, name) fill(round++); general[number] = ROUNDS; moves("down_" #name, down_##name, &general[number], 0);
    REGISTERS(RUN_DOWN)
#define RUN_UP(number, name) \
    fill(round++); general[RAX] = 7; general[number] = ROUNDS; moves("up_to_" #name, up_to_##name, &general[RAX], ROUNDS);
    OTHERS(RUN_UP)
    fill(round++), general[RCX] = 7, general[RAX] = ROUNDS, moves("up_to_rax", up_to_rax, &general[RCX], ROUNDS);
    fill(round++), general[RSI] = ROUNDS, moves("down_rdi", down_rdi, &general[RSI], 0);
    fill(round++), before.red_zone[15] = ROUNDS, moves("down_slot", down_slot, &before.red_zone[15], 0);
    fill(round++), general[R9] = 0xffffffff, moves("down_half", down_half, &general[R9], 0);
    fill(round++), general[R11] = 7, moves("up_to_memory", up_to_memory, &general[R11], ROUNDS);
    return failed;
}
