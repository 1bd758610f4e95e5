/* To be included behind what defines CHECK. */
#ifndef ONE_CPU_H
#define ONE_CPU_H

#include <sched.h>

/* Only one CPU: a thread that spins keeps the one that it waits for from running. */
static inline void one_cpu(void) {
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

#endif
