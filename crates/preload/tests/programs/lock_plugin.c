// A library that is opened while the program runs, and locks the program's mutexes.
#include "lock_probe.h"

#ifdef DEEP
#define CONTEND deep_contend
#define WHERE deep_where
#else
#define CONTEND plugin_contend
#define WHERE plugin_where

/* Held by the thread that opens this library, and recursive. */
__attribute__((weak)) extern pthread_mutex_t held_while_opening;

__attribute__((constructor)) static void begin(void) {
    if (&held_while_opening == NULL)
        return;
    IS(pthread_mutex_lock(&held_while_opening), 0);
    IS(pthread_mutex_unlock(&held_while_opening), 0);
}
#endif

void *CONTEND(void *argument);
void *WHERE(void);

void *CONTEND(void *argument) {
    struct owned *owned = argument;
    for (int round = 0; round < 2000; round++) {
        if (round % 16 == 3) {
            while (pthread_mutex_trylock(&owned->mutex) != 0)
                sched_yield();
        } else if (round % 16 == 5) {
            struct timespec deadline = after_ns(CLOCK_REALTIME, 40000 * MS);
            IS(pthread_mutex_timedlock(&owned->mutex, &deadline), 0);
        } else {
            IS(pthread_mutex_lock(&owned->mutex), 0);
        }
        enter(owned);
        if (round % 200 == 0)
            sleep_us(2000);
        else if (round % 32 == 0)
            sched_yield();
        leave(owned);
        IS(pthread_mutex_unlock(&owned->mutex), 0);
    }
    return NULL;
}

#ifdef DEEP
int deep_wait(pthread_cond_t *variable, pthread_mutex_t *mutex);

int deep_wait(pthread_cond_t *variable, pthread_mutex_t *mutex) {
    return pthread_cond_wait(variable, mutex);
}
#endif

/* Where this library finds pthread_mutex_lock. */
void *WHERE(void) {
    return (void *)pthread_mutex_lock;
}
