//! A program whose busy waits all end by themselves: delay loops, and spins with a bounded number of tries.
//!
//! An operation is a delay of `--delay` PAUSEs (no memory is read), then a turn with a flag that two threads
//! share: up to `--tries` attempts with a PAUSE between them, then a yield of the CPU, and again. Storage
//! engines wait like this for a write group's leader. Such a program needs no repair; what it shows is what
//! a repair that was not needed costs.

#include "engine.h"

static uint64_t option_delay = 100, option_tries = 200, option_hold = 20;

static const struct option_spec options[] = {
    {"delay", OPTION_COUNT, &option_delay, 0, 1e6, NULL, "PAUSEs of an operation's delay loop (100)"},
    {"tries", OPTION_COUNT, &option_tries, 1, 1e6, NULL, "tries before a yield (200)"},
    {"hold", OPTION_COUNT, &option_hold, 0, 1e6, NULL, "PAUSEs for which the flag is held (20)"},
    {0},
};

/// Pairs of threads share a flag each.
struct flag {
    _Alignas(64) _Atomic uint32_t held;
};

static struct flag *flags;

static void open_flags(unsigned threads) {
    flags = allocate(threads / 2 + 1, sizeof *flags);
}

static __attribute__((noinline)) void delay(uint64_t pauses) {
    for (uint64_t i = 0; i < pauses; i++)
        pause_cpu();
}

static __attribute__((noinline)) bool try_for_a_while(_Atomic uint32_t *held, uint64_t tries) {
    for (uint64_t i = 0; i < tries; i++) {
        if (atomic_load_explicit(held, memory_order_relaxed) == 0 &&
            atomic_exchange_explicit(held, 1, memory_order_acquire) == 0)
            return true;
        pause_cpu();
    }
    return false;
}

static enum outcome operate(struct worker *worker) {
    _Atomic uint32_t *held = &flags[worker->index / 2].held;
    delay(option_delay);
    while (!try_for_a_while(held, option_tries))
        sched_yield();
    delay(option_hold);
    atomic_store_explicit(held, 0, memory_order_release);
    return DONE;
}

int main(int argc, char **argv) {
    const struct engine bounded = {
        .name = "bounded",
        .summary = "Delay loops and bounded spins; the result is one JSON object on standard output.",
        .options = options,
        .open = open_flags,
        .operate = operate,
    };
    return engine_main(argc, argv, &bounded);
}
