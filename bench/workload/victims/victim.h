//! What all victims in C have in common: options, and the protocol with the benchmark that `victim.py` describes.
//!
//! One thread measures, which is the one that calls `victim_run`; what other threads do is the operation's business.

#ifndef MANX_VICTIMS_VICTIM_H
#define MANX_VICTIMS_VICTIM_H

#include "options.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#define VICTIM_FLUSH_NS 100000000u
#define VICTIM_WARM_UP 3

static uint64_t victim_operations = 1, victim_threads = 2;
static double victim_seconds = 0;

/// The rows that each victim's table of options begins with.
#define VICTIM_OPTIONS                                                                                  \
    {"operations", OPTION_COUNT, &victim_operations, 1, 1e9, NULL, "the least number of operations (1)"}, \
        {"seconds", OPTION_NUMBER, &victim_seconds, 0, 1e6, NULL, "the least time, in seconds (0)"},          \
        {"threads", OPTION_COUNT, &victim_threads, 1, 1024, NULL, "threads (2)"}

static inline uint64_t victim_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline uint64_t victim_now(void) { return victim_clock(CLOCK_MONOTONIC); }

/// FNV-1a, of all bits of a result.
static inline uint32_t victim_checksum(const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

/// The CPU time of all threads of this process.
static inline uint64_t victim_cpu(void) { return victim_clock(CLOCK_PROCESS_CPUTIME_ID); }

/// Says that it is warm, and waits for the line that lets it begin.
static inline void victim_begin(void) {
    puts("ready");
    fflush(stdout);
    while (getchar() != '\n')
        if (feof(stdin))
            exit(0);
    printf("begin %llu\n", (unsigned long long)victim_now());
}

/// Says that it measured enough.
static inline void victim_done(uint64_t cpu_ns) {
    printf("done %llu %llu\n", (unsigned long long)victim_now(), (unsigned long long)cpu_ns);
    fflush(stdout);
}

/// False once standard input has another line, or is closed.
static inline bool victim_goes_on(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) == 0;
}

/// Measures `operate`, which returns a checksum; `cpu_ns` tells the CPU time of all who take part.
static inline void victim_run(uint32_t (*operate)(void), uint64_t (*cpu_ns)(void)) {
    for (int i = 0; i < VICTIM_WARM_UP; i++)
        operate();
    victim_begin();
    uint64_t cpu = cpu_ns(), end = victim_now(), flushed = end, begin;
    uint64_t least = end + (uint64_t)(victim_seconds * 1e9);
    for (uint64_t count = 0; count < victim_operations || end < least; count++) {
        begin = victim_now();
        uint32_t result = operate();
        end = victim_now();
        printf("op %llu %llu %08x\n", (unsigned long long)end, (unsigned long long)(end - begin), result);
        if (end - flushed > VICTIM_FLUSH_NS) {
            fflush(stdout);
            flushed = end;
        }
    }
    victim_done(cpu_ns() - cpu);
    while (victim_goes_on())
        operate();
}

#endif
