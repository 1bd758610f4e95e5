// 1500 mutexes, each of which one thread waits for.
#include "lock_probe.h"

#define COUNT 1500

static pthread_mutex_t mutexes[COUNT];

static void *wait_for_each(void *unused) {
    for (int i = 0; i < COUNT; i++) {
        IS(pthread_mutex_lock(&mutexes[i]), 0);
        IS(pthread_mutex_unlock(&mutexes[i]), 0);
    }
    return unused;
}

/* Whether a thread sleeps at this mutex: the C library's own word for it, which any other keeps. */
static int is_waited_for(pthread_mutex_t *mutex) {
    return __atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) > 1;
}

int main(void) {
    set_alarm();
    for (int i = 0; i < COUNT; i++)
        IS(pthread_mutex_lock(&mutexes[i]), 0);
    pthread_t waiter = start(wait_for_each, NULL);
    for (int i = 0; i < COUNT; i++) {
        while (!is_waited_for(&mutexes[i]))
            sched_yield();
        IS(pthread_mutex_unlock(&mutexes[i]), 0);
    }
    join(waiter);
    return 0;
}
