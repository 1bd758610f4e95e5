//! Which CPU a thread stays on, and whether that is a slow one.
//!
//! With `--pin` thread i stays on the i-th of `--cpus`, in their order and in turn; so threads are spread evenly, and a
//! thread has the class of its CPU for the whole run. Threads that move have no class, so `--little` asks for `--pin`.
//! An empty `--little=` says that none of the CPUs is slow, where others were: threads then pay and are counted as in those runs.

#ifndef MANX_ENGINES_CLASSES_H
#define MANX_ENGINES_CLASSES_H

#include "options.h"

static bool option_pin = false;
static const char *option_little = NULL;

static cpu_set_t class_little;
static unsigned class_cpu[CPU_SETSIZE], class_cpus;

/// Restricts the process to `cpus`, a list or null for all that it may use, and reads the options.
static inline void classes_init(const char *cpus) {
    cpu_set_t all;
    if (cpus) {
        cpus_parse("cpus", cpus, &all);
        if (sched_setaffinity(0, sizeof all, &all) != 0)
            fail(1, "--cpus %s: %s", cpus, strerror(errno));
    }
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        fail(1, "the CPUs of this process: %s", strerror(errno));
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all))
            class_cpu[class_cpus++] = cpu;
    CPU_ZERO(&class_little);
    if (!option_little)
        return;
    if (!option_pin)
        fail(2, "--little: --pin is missing, without which threads have no class");
    if (*option_little)
        cpus_parse("little", option_little, &class_little);
    cpu_set_t both;
    CPU_AND(&both, &class_little, &all);
    if (!CPU_EQUAL(&both, &class_little))
        fail(2, "--little %s: not all of them are CPUs that this process may use (--cpus)", option_little);
}

/// Where a thread stays.
static inline unsigned class_cpu_of(unsigned thread) {
    return class_cpu[thread % class_cpus];
}

static inline bool class_is_little(unsigned thread) {
    return option_pin && CPU_ISSET(class_cpu_of(thread), &class_little);
}

/// Keeps the calling thread, which is this one, on its CPU.
static inline void class_pin(unsigned thread) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(class_cpu_of(thread), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        fail(1, "--pin: CPU %u: %s", class_cpu_of(thread), strerror(errno));
}

#endif
