// A loop keeps something in every register, in the flags and below its stack pointer while it waits; all of
// it must be as it was when the wait is over.
#include "registers.h"

#include <pthread.h>
#include <unistd.h>

volatile int ready;

// The carry flag goes round with the loop. The block of the PAUSE has an instruction of seven bytes (`lea 0(%rsi), %rsi`) that
// begins an aligned word; or several short ones; or too few, but dead bytes behind the loop.
void wait_by_whole(volatile int *flag);
void wait_by_row(volatile int *flag);
void wait_by_short(volatile int *flag);
#define LOOP(spins, padding) "1: cmpl $0, (%rdi)\njne 2f\nstc\n" spins "jc 1b\nud2\n" padding "2:\n"
WAITER("wait_by_whole", LOOP("pause\n.balign 8\n.byte 0x48, 0x8d, 0xb6, 0, 0, 0, 0\n", ""));
WAITER("wait_by_row", LOOP("pause\n", ""));
WAITER("wait_by_short", LOOP("jmp 4f\n4: pause\n", ".balign 64\n"));

static void *waiter(void *wait) {
    ((void (*)(volatile int *))wait)(&ready);
    return NULL;
}

int main(int count, char **arguments) {
    void *wait = wait_by_row;
    if (count > 1 && strcmp(arguments[1], "whole") == 0) wait = wait_by_whole;
    if (count > 1 && strcmp(arguments[1], "short") == 0) wait = wait_by_short;
    if (!__builtin_cpu_supports("avx")) {
        puts("no AVX");
        return 77;
    }
    for (unsigned round = 0; round < 20; round++) {
        fill(round);
        ready = 0;
        pthread_t thread;
        pthread_create(&thread, NULL, waiter, wait);
        usleep(5000); // long enough to spin, yield and sleep
        ready = 1;
        pthread_join(thread, NULL);
        if (!is_kept()) return 1;
    }
    return 0;
}
