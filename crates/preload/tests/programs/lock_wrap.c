// Another library that wraps the functions for locks and passes them on to the next one in order: in front of ours, and
// behind it. Says at the end how often it was asked, if it was told to.
#include "lock_probe.h"

#include <dlfcn.h>

static atomic_long asked;

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (next == NULL) \
        next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); \
    atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed)

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    NEXT(pthread_mutex_lock);
    return next(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    NEXT(pthread_mutex_unlock);
    return next(mutex);
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    NEXT(pthread_cond_wait);
    return next(cond, mutex);
}

int pthread_cond_signal(pthread_cond_t *cond) {
    NEXT(pthread_cond_signal);
    return next(cond);
}

int pthread_cond_broadcast(pthread_cond_t *cond) {
    NEXT(pthread_cond_broadcast);
    return next(cond);
}

__attribute__((constructor)) static void begin(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    IS(pthread_mutex_lock(&mutex), 0);
    IS(pthread_mutex_unlock(&mutex), 0);
}

__attribute__((destructor)) static void end(void) {
    if (getenv("LOCK_WRAP_SAYS") != NULL)
        printf("asked %ld\n", atomic_load(&asked));
}
