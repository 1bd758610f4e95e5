/* Blocks every signal by a system call of its own, as runtimes without a C library do. */
#include "loops.h"
#include <unistd.h>

static volatile int ready = 1, word;

static void *worker(void *unused) {
    unsigned long all = ~0ul;
    long result;
    register long size __asm__("r10") = 8;
    __asm__ volatile("movl $14, %%eax\n syscall" : "=a"(result) : "D"(0), "S"(&all), "d"(0), "r"(size) : "rcx", "r11", "memory");
    CHECK(result == 0);
    wait_by_jump(&word);
    wait_by_trap(&ready);
    wait_by_jump(&ready);
    return unused;
}

int main(void) {
    one_cpu();
    pthread_t thread = start(worker, NULL);
    wait_by_trap(&ready);
    usleep(3000);
    word = 1;
    return pthread_join(thread, NULL);
}
