/* Busy-wait loops, one for each way into a loop's copy, and, if NO_WAY is defined, one that no jump fits in. All return when
 * *word is no longer zero.
 *
 * | function | a jump fits |
 * | --- | --- |
 * | wait_by_whole | in the place of one instruction, also while other threads run |
 * | wait_by_row | in the place of several instructions, while no other thread can stand between them |
 * | wait_by_short | through the dead bytes behind the function, also while other threads run |
 * | wait_in_no_way | nowhere |
 */
#ifndef LOOPS_H
#define LOOPS_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(...) (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define CHECK(condition) ((condition) ? (void)0 : (void)FAIL("%s", #condition))

void wait_by_whole(volatile int *word);
void wait_by_row(volatile int *word);
void wait_by_short(volatile int *word);
void wait_in_no_way(volatile int *word);

#ifdef NO_WAY
#define FUNCTION_NO_WAY FUNCTION("wait_in_no_way", BLOCKS CODE(60))
#else
#define FUNCTION_NO_WAY
#endif
#define CODE(instructions) ".rept " #instructions "\n addl $1, %eax\n .endr\n"
#define FUNCTION(name, body) \
    ".globl " name "\n.type " name ",@function\n" name ":\n.cfi_startproc\n" body "ret\n.cfi_endproc\n" \
    ".size " name ", . - " name "\n"
/* Seven bytes, `cmpl $0, 0(%rdi)`, at the start of an aligned word. */
#define WHOLE ".balign 8\n .byte 0x66, 0x0f, 0x1f, 0x44, 0, 0\n1: pause\n .byte 0x83, 0xbf, 0, 0, 0, 0, 0\n je 1b\n"
/* Instructions of two bytes. */
#define ROW "1: pause\n movl (%rdi), %eax\n testl %eax, %eax\n je 1b\n"
/* Blocks of four bytes: no five bytes are without a jump's target between them. */
#define BLOCKS "1: pause\n jmp 2f\n2: movl (%rdi), %eax\n jmp 3f\n3: testl %eax, %eax\n je 1b\n"

/* Padding in front of an aligned function is dead. There are 9 bytes of it behind wait_by_short, and none in reach of the
 * two loops before it. */
__asm__(".pushsection .text.loops,\"ax\",@progbits\n.balign 16\n"
        FUNCTION("before_the_loops", CODE(60))
        FUNCTION("wait_by_row", ROW CODE(60))
        FUNCTION_NO_WAY
        ".balign 16\n"
        FUNCTION("wait_by_whole", WHOLE)
        ".balign 16\n"
        FUNCTION("wait_by_short", CODE(62) BLOCKS)
        ".balign 16\n"
        FUNCTION("behind_the_loops", CODE(60))
        ".popsection\n");

#include "one_cpu.h"
#include "threads.h"

typedef void loop(volatile int *);

static inline loop *loop_named(const char *name) {
    if (strcmp(name, "whole") == 0) return wait_by_whole;
    if (strcmp(name, "short") == 0) return wait_by_short;
    CHECK(strcmp(name, "row") == 0);
    return wait_by_row;
}

/* The first PAUSE of a function, as its text was written. */
static inline volatile unsigned char *pause_in(loop *function) {
    volatile unsigned char *at = (volatile unsigned char *)function;
    while (at[0] != 0xf3 || at[1] != 0x90) at++;
    return at;
}

/* The routine of a thread that sets a word when it has yielded for a while. */
static inline void *sets_soon(void *word) {
    for (int round = 0; round < 20; round++)
        sched_yield();
    *(volatile int *)word = 1;
    return NULL;
}

/* Waits in a loop until another thread has set its word. */
static inline void wait_in(loop *waits) {
    volatile int word = 0;
    pthread_t thread = start(sets_soon, (void *)&word);
    waits(&word);
    CHECK(pthread_join(thread, NULL) == 0);
}

#endif
