/* What random functions share, and how they are run.
 *
 * A function waits for words of `never`, and gives up after a number of rounds, and for words of `soon`, which another thread writes
 * soon. What it returns depends on neither thread's speed.
 *
 * `PROGRAM [NUMBER...]` runs all functions, or these, and prints a line for each: its number; what it returns if no word of `never`
 * is written; the same if all were before; how long the former took, in nanoseconds, or 0 if it waits for the other thread. Each then
 * runs while the other thread writes the words, and checks its own counters. */
#ifndef FUZZ_H
#define FUZZ_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
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
#define NOPS __asm__ volatile("nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop")
#define NOIPA __attribute__((noipa_or_noinline))
#ifdef __clang__
#define noipa_or_noinline noinline
#else
#define noipa_or_noinline noipa
#endif
/* The compiler must not know what a variable holds. */
#define UNKNOWN(variable) __asm__ volatile("" : "+r"(variable))
#define LIKELY(what) __builtin_expect(!!(what), 1)
#define RARE(what) __builtin_expect(!!(what), 0)

enum { WORDS = 8, TABLE = 32 };
typedef double vector __attribute__((vector_size(32)));

struct env {
    __attribute__((aligned(64))) volatile int never[WORDS];
    __attribute__((aligned(64))) volatile int soon[WORDS];
    __attribute__((aligned(64))) volatile long table[TABLE];
    volatile long out[WORDS];
    volatile unsigned n;
    volatile double x;
};

struct function {
    uint64_t (*run)(struct env *);
    int waits;
};
extern const struct function functions[];
extern const int functions_count;

static struct env env;
static pthread_mutex_t fuzz_mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile long late;

static inline uint64_t mix(uint64_t sum, uint64_t value) {
    sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 29;
}

static inline uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

NOIPA static inline void relax(void) { PAUSE; }
NOIPA static inline uint64_t look(uint64_t value) { return value * 3 + 1; }
NOIPA __attribute__((cold)) static inline void rare(struct env *e) { e->out[0]++; }
NOIPA static inline void publish(void *address) { __asm__ volatile("" : : "r"(address) : "memory"); }
#ifdef __cplusplus
NOIPA static inline uint64_t may_throw(uint64_t value, uint64_t least) {
    if (value < least) throw value;
    return value;
}
#endif

static sem_t go, done;
static volatile unsigned after_us;
static volatile int writes_never;

static void *partner(void *unused) {
    for (;;) {
        sem_wait(&go);
        if (after_us != 0) usleep(after_us);
        for (int i = 0; i < WORDS; i++) {
            if (writes_never) __atomic_store_n(&env.never[i], 1, __ATOMIC_RELEASE);
            __atomic_store_n(&env.soon[i], 1, __ATOMIC_RELEASE);
        }
        sem_post(&done);
    }
    return unused;
}

static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

// Of a function: the time by the clock, and the CPU time.
struct took {
    int64_t ns, cpu_ns;
};

static uint64_t run_once(const struct function *function, int never, int helped, struct took *took) {
    for (int i = 0; i < WORDS; i++) env.never[i] = never, env.soon[i] = 0, env.out[i] = 0;
    for (int i = 0; i < TABLE; i++) env.table[i] = i * i - 7;
    env.n = 5, env.x = 1.25, late = 0;
    if (helped) sem_post(&go);
    int64_t began = now_ns(CLOCK_MONOTONIC), began_cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t result = function->run(&env);
    took->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - began_cpu, took->ns = now_ns(CLOCK_MONOTONIC) - began;
    if (helped) sem_wait(&done);
    result = mix(result, (uint64_t)late);
    for (int i = 0; i < WORDS; i++) result = mix(result, (uint64_t)env.out[i]);
    return result;
}

static void run_all(int number) {
    const struct function *function = &functions[number];
    struct took least = {INT64_MAX, INT64_MAX}, took;
    uint64_t first = 0;
    for (int again = 0; again < 3; again++) {
        after_us = 20 * again, writes_never = 0;
        uint64_t result = run_once(function, 0, function->waits, &took);
        if (again == 0) first = result;
        CHECK(result == first);
        if (took.ns < least.ns) least.ns = took.ns;
        if (took.cpu_ns < least.cpu_ns) least.cpu_ns = took.cpu_ns;
    }
    uint64_t before = run_once(function, 1, function->waits, &took);
    for (unsigned again = 0; again < 3; again++) {
        after_us = again == 0 ? 0 : (first >> 8 * again & 255), writes_never = 1;
        run_once(function, 0, 1, &took);
    }
    if (function->waits) least = (struct took){0, 0};
    printf("%d %llx %llx %lld %lld\n", number, (unsigned long long)first, (unsigned long long)before,
           (long long)least.ns, (long long)least.cpu_ns);
    fflush(stdout);
}

int main(int count, char **arguments) {
    pthread_t thread;
    CHECK(sem_init(&go, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
    CHECK(pthread_create(&thread, NULL, partner, NULL) == 0);
    for (int i = 1; i < count; i++) run_all(atoi(arguments[i]));
    for (int number = 0; count == 1 && number < functions_count; number++) run_all(number);
    return 0;
}

#endif
