// A library whose constructor locks, waits and starts threads before the preload library's own constructor has run,
// and whose destructor does so after the preload library's own has.
#include "lock_probe.h"

#include "lock_early.h"

pthread_mutex_t early_normal = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t early_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_mutex_t early_checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

static struct owned shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t done = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_t waiters[3];
static int ended, armed;

static void *contend(void *unused) {
    for (int round = 0; round < 2000; round++) {
        IS(pthread_mutex_lock(&shared.mutex), 0);
        enter(&shared);
        if (round % 64 == 0)
            sched_yield();
        leave(&shared);
        IS(pthread_mutex_unlock(&shared.mutex), 0);
    }
    IS(pthread_mutex_lock(&done), 0);
    ended++;
    IS(pthread_cond_signal(&changed), 0);
    IS(pthread_mutex_unlock(&done), 0);
    return unused;
}

static void contend_with_threads(void) {
    pthread_t threads[4];
    ended = 0;
    start_all(threads, 4, contend, NULL);
    IS(pthread_mutex_lock(&done), 0);
    while (ended < 4)
        IS(pthread_cond_wait(&changed, &done), 0);
    IS(pthread_mutex_unlock(&done), 0);
    join_all(threads, 4);
}

static void *wait_for(void *mutex) {
    IS(pthread_mutex_lock(mutex), 0);
    IS(pthread_mutex_unlock(mutex), 0);
    return NULL;
}

__attribute__((constructor(101))) static void begin(void) {
    probe_name = "a constructor";
    set_alarm();
    contend_with_threads();
    pthread_mutex_t *held[] = {&early_normal, &early_recursive, &early_checking};
    for (int i = 0; i < 3; i++) {
        IS(pthread_mutex_lock(held[i]), 0);
        waiters[i] = start(wait_for, held[i]);
    }
    IS(pthread_mutex_lock(&early_recursive), 0);
}

int early_finish(void) {
    join_all(waiters, 3);
    return (int)shared.count;
}

void early_arm(void) {
    armed = 1;
}

__attribute__((destructor(101))) static void end(void) {
    if (!armed)
        return;
    contend_with_threads();
    IS(pthread_mutex_destroy(&shared.mutex), 0);
    IS(pthread_cond_destroy(&changed), 0);
    _exit(0);
}
