/* How often a thread sleeps. To be included behind what defines CHECK and FAIL. */
#ifndef SLEEPS_H
#define SLEEPS_H

#include <sys/resource.h>

/* How often the calling thread has gone to sleep (voluntary switches): a yield is no such thing. */
static inline long switches(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_nvcsw;
}

static inline void must_sleep(long slept) {
    if (slept < 5)
        FAIL("slept %ld times", slept);
}

static inline void must_not_sleep(long slept) {
    if (slept != 0)
        FAIL("slept %ld times", slept);
}

#endif
