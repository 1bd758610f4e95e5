/* Loops with a bound that is a timeout: they end in an error, and only after about their author's time.
 *
 * `timeouts measure`: how long each takes while nothing comes, in microseconds, one line each.
 * `timeouts check NAME US...`: each ends with an error, not far before that time and within some hundred times of it; and without
 * one if what it waits for comes after a part of that time. */
#include "kinds.h"
#include "../threads.h"
#include <poll.h>

enum { TRIES = 200000 };
static int status;
static unsigned tries_max = TRIES;

#define READY (__atomic_load_n(&status, __ATOMIC_ACQUIRE) != 0)
#define TIMEOUT(name) static NOINLINE int name(void)

TIMEOUT(plain) {
    for (int i = 0; i < TRIES; i++) {
        if (READY) return 0;
        PAUSE;
    }
    return -1;
}

TIMEOUT(down) {
    unsigned i = TRIES;
    while (--i) {
        PAUSE;
        if (READY) return 0;
    }
    return -1;
}

TIMEOUT(by_global) {
    for (unsigned i = 0; i < __atomic_load_n(&tries_max, __ATOMIC_RELAXED); i++) {
        if (READY) return 0;
        PAUSE;
    }
    return -1;
}

/* A round is much longer than a PAUSE. */
TIMEOUT(long_rounds) {
#define FOUR PAUSE; PAUSE; PAUSE; PAUSE;
    for (int i = 0; i < TRIES / 16; i++) {
        if (READY) return 0;
        FOUR FOUR FOUR FOUR
    }
    return -1;
}

TIMEOUT(flags) {
    uint64_t i = TRIES;
    __asm__ volatile goto(
        "1: cmpl $0, %1\n"
        "jne %l[ready]\n"
        "decq %0\n"
        "pause\n"
        "jnz 1b\n"
        : "+r"(i)
        : "m"(status)
        : "cc", "memory"
        : ready);
    return -1;
ready:
    return 0;
}

TIMEOUT(nops) {
    for (int i = 0; i < 10 * TRIES; i++) {
        if (READY) return 0;
        __asm__ volatile("nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop");
    }
    return -1;
}

/* A loop that only passes time takes it. */
TIMEOUT(delay) {
    for (unsigned i = 0; i < __atomic_load_n(&tries_max, __ATOMIC_RELAXED); i++) PAUSE;
    return READY ? 0 : -1;
}

/* Not counted in a general register. */
TIMEOUT(by_double) {
    for (double i = 0; i < TRIES; i += 1) {
        if (READY) return 0;
        PAUSE;
    }
    return -1;
}

/* What comes behind the loop blocks, or might: for something else. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long timeouts;
#define THEN(name, ...) \
    TIMEOUT(name) { \
        for (int i = 0; i < TRIES; i++) { \
            if (READY) return 0; \
            PAUSE; \
        } \
        __VA_ARGS__; \
        return -1; \
    }
THEN(then_locks, pthread_mutex_lock(&mutex), timeouts++, pthread_mutex_unlock(&mutex))
THEN(then_sleeps, usleep(1))
THEN(then_polls, poll(NULL, 0, 0))
THEN(then_yields, sched_yield())
THEN(then_asks, syscall(SYS_gettid))

/* A number of tries. */
TIMEOUT(tries_with_yields) {
    for (int tries = 0; tries < 10; tries++) {
        for (int i = 0; i < TRIES / 10; i++) {
            if (READY) return 0;
            PAUSE;
        }
        sched_yield();
    }
    return -1;
}

TIMEOUT(by_clock) {
    uint64_t begin = __builtin_ia32_rdtsc();
    while (__builtin_ia32_rdtsc() - begin < 20000000) {
        if (READY) return 0;
        PAUSE;
    }
    return -1;
}

TIMEOUT(by_clock_alone) {
    uint64_t begin = __builtin_ia32_rdtsc();
    while (!READY) {
        if (__builtin_ia32_rdtsc() - begin >= 20000000) return -1;
    }
    return 0;
}

#define WAY(name) {#name, name}
static const struct way {
    const char *name;
    int (*wait)(void);
} ways[] = {
    WAY(plain), WAY(down), WAY(by_global), WAY(long_rounds), WAY(flags), WAY(nops), WAY(delay),
    WAY(by_double),
    WAY(then_locks), WAY(then_sleeps), WAY(then_polls), WAY(then_yields), WAY(then_asks), WAY(tries_with_yields),
    WAY(by_clock), WAY(by_clock_alone),
};
enum { WAYS = sizeof ways / sizeof *ways };

static long came_us;

static void *comes_later(void *us) {
    usleep((long)us);
    __atomic_store_n(&status, 1, __ATOMIC_SEQ_CST);
    came_us = now_us();
    return NULL;
}

static long measure(const struct way *way) {
    long begin = now_us();
    CHECK(way->wait() == -1);
    return now_us() - begin;
}

int main(int count, char **arguments) {
    pthread_t thread;
    one_thread();
    if (strcmp(arguments[1], "measure") == 0) {
        for (const struct way *way = ways; way < ways + WAYS; way++) {
            /* The shortest: the thread may have been away in the others. */
            long least = measure(way);
            for (int i = 0; i < 4; i++) {
                long again = measure(way);
                if (again < least) least = again;
            }
            printf("%ld\n", least);
        }
        return 0;
    }
    CHECK(count == 2 + WAYS);
    /* A PAUSE takes two to three times as long when the other thread of the core is busy. */
    for (int n = 0; n < WAYS; n++) {
        long author_us = atol(arguments[2 + n]);
        status = 0;
        long took_us;
        /* On a busy machine the thread may be away for long, but not each time. */
        for (int tries = 0;; tries++) {
            took_us = measure(&ways[n]);
            printf("%s: %ld us of %ld\n", ways[n].name, took_us, author_us);
            fflush(stdout);
            CHECK(took_us >= author_us / 6 && tries < 10);
            if (took_us <= author_us * 300) break;
        }
        long begin_us = now_us();
        CHECK(pthread_create(&thread, NULL, comes_later, (void *)(author_us / 20)) == 0);
        int result = ways[n].wait();
        CHECK(pthread_join(thread, NULL) == 0);
        /* On a busy machine it may come late. */
        CHECK(result == 0 || came_us - begin_us >= author_us / 6);
    }
    return 0;
}
