/* Two threads that hand a word to each other. */
#ifndef TURNS_H
#define TURNS_H

#include "kinds.h"

typedef void wait_function(struct cell *, int);
static struct cell turn;
static long turns_max;
static wait_function *wait_for_turn;
static void (*also_wake)(void);

static inline void pass(int value) {
    hand(&turn, value);
    if (also_wake != NULL) also_wake();
}

static void *second(void *unused) {
    for (int next = 1;; next += 2) {
        wait_for_turn(&turn, next);
        pass(next + 1);
        if (next + 1 >= __atomic_load_n(&turns_max, __ATOMIC_RELAXED)) return unused;
    }
}

/* So many times, or for so many microseconds: the first two arguments. Returns how often. */
static long hand_over(wait_function *wait, char **arguments) {
    long until_us = now_us() + atol(arguments[2]);
    pthread_t thread;
    wait_for_turn = wait, turn.word = 0, turns_max = 2 * atol(arguments[1]);
    CHECK(pthread_create(&thread, NULL, second, NULL) == 0);
    for (int next = 0;; next += 2) {
        pass(next + 1);
        wait(&turn, next + 2);
        if (next + 2 >= turns_max) break;
        /* The other thread sees it with its next turn, or with the one behind. */
        if (now_us() > until_us) __atomic_store_n(&turns_max, next + 4, __ATOMIC_RELAXED);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    return turn.word / 2;
}

#endif
