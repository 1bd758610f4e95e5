/* What the programs of this folder share: a word that threads hand to each other, and how to block on it. */
#ifndef KINDS_H
#define KINDS_H

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, __func__, #what); \
            abort(); \
        } \
    } while (0)

#define PAUSE __builtin_ia32_pause()
#define NOINLINE __attribute__((noinline))
/* The compiler must not know what a variable holds. */
#define UNKNOWN(variable) __asm__ volatile("" : "+r"(variable))

/* What threads wait for. */
struct cell {
    __attribute__((aligned(64))) int word;
    int sleepers;
};

static inline void futex(int *word, int operation, int value) {
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Sleeps until the word is as wanted. */
static NOINLINE __attribute__((unused)) void block(struct cell *cell, int want) {
    __atomic_add_fetch(&cell->sleepers, 1, __ATOMIC_SEQ_CST);
    int now;
    while ((now = __atomic_load_n(&cell->word, __ATOMIC_SEQ_CST)) != want) futex(&cell->word, FUTEX_WAIT, now);
    __atomic_sub_fetch(&cell->sleepers, 1, __ATOMIC_SEQ_CST);
}

/* Changes the word, and wakes those that sleep. */
static inline void hand(struct cell *cell, int value) {
    __atomic_store_n(&cell->word, value, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&cell->sleepers, __ATOMIC_SEQ_CST) != 0) futex(&cell->word, FUTEX_WAKE, 1 << 30);
}

static inline long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

#endif
