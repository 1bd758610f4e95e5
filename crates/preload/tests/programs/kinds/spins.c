/* Two threads hand a word to each other, thousands of times. Each waits in a loop without a bound, or with one that is a
 * clock's and then blocks. `spins ROUNDS US [NAME]` */
#include "turns.h"
#include <cpuid.h>
#include <immintrin.h>

#define EIGHT_NOPS __asm__ volatile("nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop" ::: "memory")

KIND(pauses) {
    while (!SEEN(cell, want)) PAUSE;
}

KIND(pauses_behind) {
    do PAUSE;
    while (!SEEN(cell, want));
}

KIND(nops) {
    while (!SEEN(cell, want)) EIGHT_NOPS;
}

KIND(empty) {
    volatile int *word = &cell->word;
    while (*word != want) {}
}

KIND(empty_for_ever) {
    for (;;)
        if (SEEN(cell, want)) return;
}

/* What all the others have left to do. */
static struct cell others[4];
static int others_count = 4;
KIND(sum_of_others) {
    for (;;) {
        int pending = __atomic_load_n(&cell->word, __ATOMIC_ACQUIRE) ^ want;
        for (int i = 0; i < others_count; i++) pending += __atomic_load_n(&others[i].word, __ATOMIC_RELAXED);
        if (pending == 0) return;
    }
}

/* What it adds up is kept from round to round. */
KIND(sum_of_rounds) {
    unsigned long sum = 0, rounds = 0;
    do {
        for (int i = 0; i < others_count; i++) sum += 1 + (unsigned)__atomic_load_n(&others[i].word, __ATOMIC_RELAXED);
        rounds++;
        UNKNOWN(rounds);
    } while (!SEEN(cell, want));
    CHECK(sum == rounds * 4);
}

static NOINLINE void relax(void) { PAUSE; }
KIND(called) {
    while (!SEEN(cell, want)) relax();
}

static NOINLINE void relax_more(int rounds) {
    for (int i = 0; i < rounds; i++) PAUSE;
}
KIND(called_longer) {
    for (int rounds = 1; !SEEN(cell, want); rounds = rounds < 64 ? 2 * rounds : rounds) relax_more(rounds);
}

KIND(yields) {
    while (!SEEN(cell, want)) sched_yield();
}

KIND(pauses_then_yields) {
    for (int i = 0; !SEEN(cell, want); i++) {
        if (i % 100 == 99) sched_yield();
        else PAUSE;
    }
}

/* Several conditions, of which one is met. */
static int never;
KIND(two_conditions) {
    while (!SEEN(cell, want) && !__atomic_load_n(&never, __ATOMIC_RELAXED)) {
        PAUSE;
        PAUSE;
    }
    CHECK(SEEN(cell, want));
}

/* What the loop counts is used behind it. */
KIND(counts) {
    long rounds = 0;
    while (!SEEN(cell, want)) {
        rounds++;
        PAUSE;
    }
    CHECK(rounds >= 0);
}

/* Values in many registers live through the wait. */
KIND(registers) {
    uint64_t a = want, b = want * 3, c = want * 5, d = want * 7, e = want * 11;
    double x = want, y = want * 0.5, z = want * 0.25;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
    __asm__ volatile("" : "+x"(x), "+x"(y), "+x"(z));
    while (!SEEN(cell, want)) PAUSE;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
    __asm__ volatile("" : "+x"(x), "+x"(y), "+x"(z));
    CHECK(a == (uint64_t)want && b == 3 * a && c == 5 * a && d == 7 * a && e == 11 * a);
    CHECK(x == want && y == want * 0.5 && z == want * 0.25);
}

/* Flags that were set before PAUSE are read behind it. */
KIND(flags) {
    __asm__ volatile(
        "1: cmpl %1, (%0)\n"
        "pause\n"
        "jne 1b\n"
        :
        : "r"(&cell->word), "r"(want)
        : "cc", "memory");
}

/* A compare-and-swap in every round. */
KIND(swaps) {
    int expected = want;
    while (!__atomic_compare_exchange_n(&cell->word, &expected, want, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        expected = want;
        PAUSE;
    }
}

KIND(clock_with_pause) {
    uint64_t begin = __builtin_ia32_rdtsc();
    while (__builtin_ia32_rdtsc() - begin < 20000) {
        if (SEEN(cell, want)) return;
        PAUSE;
    }
    block(cell, want);
}

KIND(clock_alone) {
    uint64_t end = __builtin_ia32_rdtsc() + 20000;
    while (!SEEN(cell, want)) {
        if (__builtin_ia32_rdtsc() > end) {
            block(cell, want);
            return;
        }
    }
}

KIND(clock_called) {
    long end_us = now_us() + 10;
    while (!SEEN(cell, want)) {
        if (now_us() > end_us) {
            block(cell, want);
            return;
        }
        PAUSE;
    }
}

/* Only where the CPU has it. */
static int has_tpause;
__attribute__((target("waitpkg"))) KIND(timed_pauses) {
    if (!has_tpause) {
        pauses(cell, want);
        return;
    }
    for (int i = 0; i < 20; i++) {
        if (SEEN(cell, want)) return;
        _tpause(0, __builtin_ia32_rdtsc() + 1000);
    }
    block(cell, want);
}

static pthread_spinlock_t spinlock;
KIND(spinlocks) {
    for (;;) {
        pthread_spin_lock(&spinlock);
        int seen = SEEN(cell, want);
        pthread_spin_unlock(&spinlock);
        if (seen) return;
        PAUSE;
    }
}

static const struct way ways[] = {
    WAY(pauses), WAY(pauses_behind), WAY(nops), WAY(empty), WAY(empty_for_ever), WAY(sum_of_others), WAY(sum_of_rounds), WAY(called), WAY(called_longer),
    WAY(yields), WAY(pauses_then_yields), WAY(two_conditions), WAY(counts), WAY(registers), WAY(flags), WAY(swaps),
    WAY(clock_with_pause), WAY(clock_alone), WAY(clock_called), WAY(timed_pauses), WAY(spinlocks),
};

int main(int count, char **arguments) {
    unsigned a, b, c = 0, d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) has_tpause = c >> 5 & 1;
    pthread_spin_init(&spinlock, 0);
    hand_over_by(ways, sizeof ways / sizeof *ways, NULL, count, arguments);
    return 0;
}
