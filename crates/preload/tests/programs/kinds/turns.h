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

/* Hands over for a number of rounds or of microseconds, the first two arguments. Returns the number
   of hand-overs. */
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

/* The ways to wait for a turn, by name. */
struct way {
    const char *name;
    wait_function *wait;
};
#define WAY(name) {#name, name}

/* Hands over by all of the ways, or by the one that the third argument names. */
static void hand_over_by(const struct way *ways, int ways_count, void (*before)(const struct way *), int count, char **arguments) {
    CHECK(count >= 3);
    for (const struct way *way = ways; way < ways + ways_count; way++) {
        if (before != NULL) before(way);
        if (count == 3 || strcmp(arguments[3], way->name) == 0) printf("%s %ld\n", way->name, hand_over(way->wait, arguments));
        fflush(stdout);
    }
}

/* Not a function, which would be called where nothing is optimised. */
#define SEEN(cell, want) (__atomic_load_n(&(cell)->word, __ATOMIC_ACQUIRE) == (want))
/* A loop stands in a function of its own; `return` leaves it with the word as wanted. */
#define KIND(name) static NOINLINE void name(struct cell *cell, int want)

#endif
