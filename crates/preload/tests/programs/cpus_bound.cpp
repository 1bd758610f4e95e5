// A table with a place for each CPU: the count is a bound of the CPUs' numbers. `COUNT` is how the program asks for the
// count, and `CURRENT` how it learns on which CPU a thread runs.
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <thread>
#include <unistd.h>

// Of cpus_asks.c.
extern "C" long library_asks(void);

static inline long by_syscall(void) {
    unsigned cpu = 0;
    CHECK(syscall(SYS_getcpu, &cpu, NULL, NULL) == 0);
    return cpu;
}

int main() {
    long count = COUNT;
    cpu_set_t mask;
    CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
    for (long cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mask))
            continue;
#ifdef BINDS
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        CHECK(BINDS(&one) == 0);
#endif
        CHECK(CURRENT < count);
    }
    return 0;
}
