// Binds a thread to each CPU of the mask, and has as many as it found. The argument is how many that must be; 0: all.
// A thread that is bound stays bound by what it is told, and what it is told of the process does not change.
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

static cpu_set_t mask;
static long online;

static void *bound(void *cpu) {
    cpu_set_t one, told;
    CPU_ZERO(&one);
    CPU_SET((long)cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(sched_getcpu() == (long)cpu);
    CHECK(sched_getaffinity(0, sizeof told, &told) == 0 && CPU_EQUAL(&told, &one));
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof told, &told) == 0 && CPU_EQUAL(&told, &one));
    // Past the time for which a count is kept.
    usleep(150 * 1000);
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) == online);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int expected = atoi(argv[1]);
    online = sysconf(_SC_NPROCESSORS_ONLN);
    CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
    CHECK(expected == 0 || CPU_COUNT(&mask) == expected);
    for (long cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mask))
            continue;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, bound, (void *)cpu) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    // A mask that was asked for can be put back.
    CHECK(sched_setaffinity(0, sizeof mask, &mask) == 0);
    return 0;
}
