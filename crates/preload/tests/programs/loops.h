/* Two busy-wait loops: one with dead bytes beside it, where a jump fits, and one packed between code, where
 * only a breakpoint does. Both return when *word is no longer zero. */
#ifndef LOOPS_H
#define LOOPS_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(...) (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define CHECK(condition) ((condition) ? (void)0 : (void)FAIL("%s", #condition))

void wait_by_trap(volatile int *word);
void wait_by_jump(volatile int *word);

#define CODE(instructions) ".rept " #instructions "\n addl $1, %eax\n .endr\n"
#define LOOP "1: pause\n movl (%rdi), %eax\n testl %eax, %eax\n je 1b\n"
#define FUNCTION(name, body) \
    ".globl " name "\n.type " name ",@function\n" name ":\n.cfi_startproc\n" body "ret\n.cfi_endproc\n" \
    ".size " name ", . - " name "\n"

/* Padding in front of an aligned function is dead; wait_by_jump ends 9 bytes before the next one. */
__asm__(".pushsection .text.loops,\"ax\",@progbits\n.balign 16\n"
        FUNCTION("before_the_loop", CODE(60))
        FUNCTION("wait_by_trap", LOOP CODE(60))
        ".balign 16\n"
        FUNCTION("wait_by_jump", CODE(58) LOOP)
        ".balign 16\n"
        FUNCTION("behind_the_loop", CODE(60))
        ".popsection\n");

/* Only one CPU: a thread that spins keeps the one that it waits for from running. */
static inline void one_cpu(void) {
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

typedef void loop(volatile int *);

static inline loop *loop_named(const char *name) {
    return strcmp(name, "trap") == 0 ? wait_by_trap : wait_by_jump;
}

static inline pthread_t start(void *(*routine)(void *), void *argument) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, routine, argument);
    if (error != 0) FAIL("pthread_create: %s", strerror(error));
    return thread;
}

#endif
