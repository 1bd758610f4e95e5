// A thread of a real-time class waits for one that is not, on one CPU: yields never let that one run.
#include "loops.h"

#include <errno.h>

static volatile int flag;

static void *setter(void *unused) {
    (void)unused;
    flag = 1;
    return NULL;
}

static void *waiter(void *unused) {
    (void)unused;
    struct sched_param parameter = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &parameter) != 0) {
        perror("sched_setscheduler");
        exit(77);
    }
    // Created at the normal class, and so never before this thread stops running.
    pthread_attr_t attributes;
    struct sched_param normal = {.sched_priority = 0};
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
    CHECK(pthread_attr_setschedpolicy(&attributes, SCHED_OTHER) == 0);
    CHECK(pthread_attr_setschedparam(&attributes, &normal) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, setter, NULL) == 0);
    wait_by_row(&flag);
    CHECK(pthread_join(thread, NULL) == 0);
    return NULL;
}

int main(void) {
    one_cpu();
    CHECK(pthread_join(start(waiter, NULL), NULL) == 0);
    return 0;
}
