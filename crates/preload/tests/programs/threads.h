/* Threads. To be included behind what defines CHECK. */
#ifndef THREADS_H
#define THREADS_H

#include <pthread.h>

static inline pthread_t start(void *(*routine)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, routine, argument) == 0);
    return thread;
}

static inline void *nothing(void *unused) { return unused; }

/* A thread that begins and ends. */
static inline void one_thread(void) { CHECK(pthread_join(start(nothing, NULL), NULL) == 0); }

#endif
