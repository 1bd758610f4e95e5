//! Measures an operation again and again, and prints what the suite reads: the rate, and the tail in nanoseconds.

#ifndef MANX_HARM_TAIL_H
#define MANX_HARM_TAIL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TAIL_WARM_UP 3

static inline uint64_t tail_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline int tail_order(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/// Calls `operate` for this time, and at least once.
static inline void tail_measure(double seconds, void (*operate)(void)) {
    for (int i = 0; i < TAIL_WARM_UP; i++)
        operate();
    size_t count = 0, room = 1u << 20;
    uint64_t *took = (uint64_t *)malloc(room * sizeof *took);
    uint64_t begin = tail_now(), before = begin, end = begin + (uint64_t)(seconds * 1e9);
    while (took && (count == 0 || before < end)) {
        operate();
        uint64_t now = tail_now();
        if (count == room)
            took = (uint64_t *)realloc(took, (room *= 2) * sizeof *took);
        if (took)
            took[count++] = now - before;
        before = now;
    }
    if (!took) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    qsort(took, count, sizeof *took, tail_order);
    printf("rate %f p50 %llu p99 %llu max %llu\n", (double)count * 1e9 / (double)(before - begin),
           (unsigned long long)took[count / 2], (unsigned long long)took[count * 99 / 100],
           (unsigned long long)took[count - 1]);
    free(took);
}

#endif
