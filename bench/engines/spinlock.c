//! A spinlock that is contended for a short time only: test and test-and-set, with PAUSE between the tests.
//!
//! Each operation works for a while, takes the one lock, holds it for `--hold-ns` on average (uniform from
//! 0 to twice that), and lets go. With no more threads than CPUs the wait is nearly as short as the hold,
//! spinning is right, and whoever makes such a wait longer shows up here.

#include "engine.h"

static double option_hold_ns = 300, option_work_ns = 1000;

static const struct option_spec options[] = {
    {"hold-ns", OPTION_NUMBER, &option_hold_ns, 0, 1e6, NULL, "mean time for which the lock is held (300)"},
    {"work-ns", OPTION_NUMBER, &option_work_ns, 0, 1e6, NULL, "mean time between two holds (1000)"},
    {0},
};

static _Alignas(64) _Atomic uint32_t locked;
static _Alignas(64) uint64_t protected_count;
static double steps_per_ns;

/// Computes; a step takes the same time always, and no PAUSE.
static __attribute__((noinline)) uint64_t compute(uint64_t steps) {
    uint64_t value = steps;
    for (uint64_t i = 0; i < steps; i++) {
        value = value * 6364136223846793005u + i;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

static void calibrate(unsigned threads) {
    (void)threads;
    for (int tries = 0; tries < 20; tries++) { // the fastest is the one without interruption
        uint64_t begin = now_ns();
        compute(100000);
        double rate = 100000 / (double)(now_ns() - begin);
        steps_per_ns = rate > steps_per_ns ? rate : steps_per_ns;
    }
}

static void compute_about(struct random *random, double mean_ns) {
    compute((uint64_t)(random_unit(random) * 2 * mean_ns * steps_per_ns));
}

static __attribute__((noinline)) void lock(void) {
    while (atomic_exchange_explicit(&locked, 1, memory_order_acquire))
        while (atomic_load_explicit(&locked, memory_order_relaxed))
            pause_cpu();
}

static enum outcome operate(struct worker *worker) {
    compute_about(&worker->random, option_work_ns);
    lock();
    compute_about(&worker->random, option_hold_ns);
    protected_count++;
    atomic_store_explicit(&locked, 0, memory_order_release);
    return DONE;
}

int main(int argc, char **argv) {
    const struct engine spinlock = {
        .name = "spinlock",
        .summary = "A shortly contended spinlock; the result is one JSON object on standard output.",
        .options = options,
        .open = calibrate,
        .operate = operate,
    };
    return engine_main(argc, argv, &spinlock);
}
