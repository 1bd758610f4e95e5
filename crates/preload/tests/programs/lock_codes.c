// What the mutex functions return, kind by kind: as POSIX has it, or as the C library does where that leaves a choice.
#include "lock_probe.h"

#include <limits.h>

/* A free mutex is of this kind: what its owner, and somebody else, get for locking and unlocking it again. */
static void is_of_kind(pthread_mutex_t *mutex, int type) {
    IS(pthread_mutex_lock(mutex), 0);
    IS(elsewhere(pthread_mutex_trylock, mutex), EBUSY);
    IS(pthread_mutex_trylock(mutex), type == PTHREAD_MUTEX_RECURSIVE ? 0 : EBUSY);
    if (type == PTHREAD_MUTEX_RECURSIVE)
        IS(pthread_mutex_unlock(mutex), 0);
    if (type == PTHREAD_MUTEX_ERRORCHECK)
        IS(pthread_mutex_lock(mutex), EDEADLK);
    if (type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK)
        IS(elsewhere(pthread_mutex_unlock, mutex), EPERM);
    IS(pthread_mutex_unlock(mutex), 0);
    if (type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK)
        IS(pthread_mutex_unlock(mutex), EPERM);
    IS(elsewhere(pthread_mutex_trylock, mutex), 0);
}

static void static_initialisers(void) {
    static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
    static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
    pthread_mutex_t *all[] = {&normal, &recursive, &checking, &adaptive};
    for (int i = 0; i < KIND_COUNT; i++) {
        is_of_kind(all[i], KINDS[i].type);
        IS(pthread_mutex_destroy(all[i]), 0);
    }
}

static void zero_filled_memory(void) {
    pthread_mutex_t *heap = calloc(1, sizeof *heap);
    pthread_mutex_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static pthread_mutex_t bss;
    CHECK(heap != NULL && page != MAP_FAILED);
    pthread_mutex_t *all[] = {heap, page, &bss};
    for (int i = 0; i < 3; i++) {
        IS(pthread_mutex_lock(all[i]), 0);
        IS(elsewhere(pthread_mutex_trylock, all[i]), EBUSY);
        IS(pthread_mutex_unlock(all[i]), 0);
        IS(elsewhere(pthread_mutex_lock, all[i]), 0);
    }
}

static void reinitialised_after_destroy(void) {
    pthread_mutex_t mutex;
    for (int round = 0; round < 40; round++) {
        init_kind(&mutex, KINDS[round % KIND_COUNT].type);
        is_of_kind(&mutex, KINDS[round % KIND_COUNT].type);
        IS(pthread_mutex_destroy(&mutex), 0);
    }
}

static void *blocks_once(void *mutex) {
    IS(pthread_mutex_lock(mutex), 0);
    IS(pthread_mutex_unlock(mutex), 0);
    return NULL;
}

static void reinitialised_without_destroy(void) {
    pthread_mutex_t mutex;
    for (int round = 0; round < 40; round++) {
        // Whatever the memory holds: a locked mutex, zeroes, or anything.
        if (round % 3 != 0)
            memset(&mutex, round % 3 == 1 ? 0 : 0xa5, sizeof mutex);
        init_kind(&mutex, KINDS[round % KIND_COUNT].type);
        is_of_kind(&mutex, KINDS[round % KIND_COUNT].type);
        IS(pthread_mutex_lock(&mutex), 0);
        pthread_t waiter = start(blocks_once, &mutex);
        IS(elsewhere(pthread_mutex_trylock, &mutex), EBUSY);
        IS(pthread_mutex_unlock(&mutex), 0);
        join(waiter);
        IS(pthread_mutex_lock(&mutex), 0);
    }
}

static void codes_normal_and_adaptive(void) {
    int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP};
    for (int i = 0; i < 2; i++) {
        pthread_mutex_t mutex;
        init_kind(&mutex, types[i]);
        IS(pthread_mutex_trylock(&mutex), 0);
        IS(pthread_mutex_trylock(&mutex), EBUSY);
        IS(elsewhere(pthread_mutex_trylock, &mutex), EBUSY);
        // Locked once more by the owner is a deadlock that a deadline ends.
        struct timespec soon = after_ns(CLOCK_REALTIME, 5 * MS);
        IS(pthread_mutex_timedlock(&mutex, &soon), ETIMEDOUT);
        IS(pthread_mutex_unlock(&mutex), 0);
        IS(pthread_mutex_lock(&mutex), 0);
        IS(pthread_mutex_unlock(&mutex), 0);
        IS(pthread_mutex_destroy(&mutex), 0);
    }
}

static void codes_errorcheck(void) {
    pthread_mutex_t mutex;
    init_kind(&mutex, PTHREAD_MUTEX_ERRORCHECK);
    struct timespec soon = after_ns(CLOCK_REALTIME, 5 * MS), monotonic = after_ns(CLOCK_MONOTONIC, 5 * MS);
    IS(pthread_mutex_unlock(&mutex), EPERM);
    IS(pthread_mutex_lock(&mutex), 0);
    IS(pthread_mutex_lock(&mutex), EDEADLK);
    IS(pthread_mutex_trylock(&mutex), EBUSY);
    IS(pthread_mutex_timedlock(&mutex, &soon), EDEADLK);
    IS(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &monotonic), EDEADLK);
    IS(elsewhere(pthread_mutex_unlock, &mutex), EPERM);
    IS(elsewhere(pthread_mutex_trylock, &mutex), EBUSY);
    IS(pthread_mutex_unlock(&mutex), 0);
    IS(pthread_mutex_unlock(&mutex), EPERM);
    IS(elsewhere(pthread_mutex_lock, &mutex), 0);
    IS(pthread_mutex_trylock(&mutex), 0);
    IS(pthread_mutex_lock(&mutex), EDEADLK);
    IS(pthread_mutex_unlock(&mutex), 0);
    IS(pthread_mutex_destroy(&mutex), 0);
}

static void codes_recursive(void) {
    pthread_mutex_t mutex;
    init_kind(&mutex, PTHREAD_MUTEX_RECURSIVE);
    struct timespec soon = after_ns(CLOCK_REALTIME, 5 * MS), monotonic = after_ns(CLOCK_MONOTONIC, 5 * MS);
    IS(pthread_mutex_unlock(&mutex), EPERM);
    for (int i = 0; i < 100; i++)
        IS(pthread_mutex_lock(&mutex), 0);
    IS(pthread_mutex_trylock(&mutex), 0);
    IS(pthread_mutex_timedlock(&mutex, &soon), 0);
    IS(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &monotonic), 0);
    IS(elsewhere(pthread_mutex_trylock, &mutex), EBUSY);
    IS(elsewhere(pthread_mutex_unlock, &mutex), EPERM);
    for (int i = 0; i < 102; i++)
        IS(pthread_mutex_unlock(&mutex), 0);
    IS(elsewhere(pthread_mutex_trylock, &mutex), EBUSY);
    IS(pthread_mutex_unlock(&mutex), 0);
    IS(elsewhere(pthread_mutex_trylock, &mutex), 0);
    IS(pthread_mutex_unlock(&mutex), EPERM);
    IS(pthread_mutex_destroy(&mutex), 0);
}

static void recursion_overflows(void) {
    pthread_mutex_t mutex;
    init_kind(&mutex, PTHREAD_MUTEX_RECURSIVE);
    IS(pthread_mutex_lock(&mutex), 0);
    CHECK(mutex.__data.__count == 1);
    mutex.__data.__count = UINT_MAX;
    struct timespec soon = after_ns(CLOCK_REALTIME, 5 * MS);
    IS(pthread_mutex_lock(&mutex), EAGAIN);
    IS(pthread_mutex_trylock(&mutex), EAGAIN);
    IS(pthread_mutex_timedlock(&mutex, &soon), EAGAIN);
    mutex.__data.__count = 1;
    IS(pthread_mutex_unlock(&mutex), 0);
    IS(elsewhere(pthread_mutex_trylock, &mutex), 0);
}

static void destroy_while_locked(void) {
    for (int i = 0; i < KIND_COUNT; i++) {
        pthread_mutex_t mutex;
        init_kind(&mutex, KINDS[i].type);
        IS(pthread_mutex_lock(&mutex), 0);
        IS(pthread_mutex_destroy(&mutex), EBUSY);
        IS(elsewhere(pthread_mutex_trylock, &mutex), EBUSY);
        IS(pthread_mutex_unlock(&mutex), 0);
        IS(pthread_mutex_trylock(&mutex), 0);
        IS(pthread_mutex_destroy(&mutex), EBUSY);
        IS(pthread_mutex_unlock(&mutex), 0);
        // After contention, too: nothing of it stays behind.
        IS(pthread_mutex_lock(&mutex), 0);
        pthread_t waiter = start(blocks_once, &mutex);
        sleep_us(2000);
        IS(pthread_mutex_unlock(&mutex), 0);
        join(waiter);
        IS(pthread_mutex_destroy(&mutex), 0);
    }
}

static void trylock_from_elsewhere(void) {
    for (int i = 0; i < KIND_COUNT; i++) {
        pthread_mutex_t mutex;
        init_kind(&mutex, KINDS[i].type);
        IS(elsewhere(pthread_mutex_trylock, &mutex), 0);
        IS(pthread_mutex_trylock(&mutex), 0);
        IS(elsewhere(pthread_mutex_trylock, &mutex), EBUSY);
        IS(pthread_mutex_unlock(&mutex), 0);
        IS(elsewhere(pthread_mutex_trylock, &mutex), 0);
        IS(pthread_mutex_destroy(&mutex), 0);
    }
}

static void attribute_functions(void) {
    pthread_mutexattr_t attributes;
    int value;
    IS(pthread_mutexattr_init(&attributes), 0);
    IS(pthread_mutexattr_gettype(&attributes, &value), 0);
    CHECK(value == PTHREAD_MUTEX_DEFAULT);
    IS(pthread_mutexattr_settype(&attributes, 77), EINVAL);
    IS(pthread_mutexattr_settype(&attributes, -1), EINVAL);
    for (int i = 0; i < KIND_COUNT; i++) {
        IS(pthread_mutexattr_settype(&attributes, KINDS[i].type), 0);
        IS(pthread_mutexattr_gettype(&attributes, &value), 0);
        CHECK(value == KINDS[i].type);
    }
    IS(pthread_mutexattr_setpshared(&attributes, 5), EINVAL);
    IS(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    IS(pthread_mutexattr_getpshared(&attributes, &value), 0);
    CHECK(value == PTHREAD_PROCESS_SHARED);
    IS(pthread_mutexattr_setrobust(&attributes, 5), EINVAL);
    IS(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), 0);
    IS(pthread_mutexattr_getrobust(&attributes, &value), 0);
    CHECK(value == PTHREAD_MUTEX_ROBUST);
    IS(pthread_mutexattr_setprotocol(&attributes, 5), EINVAL);
    IS(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT), 0);
    IS(pthread_mutexattr_getprotocol(&attributes, &value), 0);
    CHECK(value == PTHREAD_PRIO_INHERIT);
    IS(pthread_mutexattr_setprioceiling(&attributes, 1000), EINVAL);
    IS(pthread_mutexattr_setprioceiling(&attributes, 10), 0);
    IS(pthread_mutexattr_getprioceiling(&attributes, &value), 0);
    CHECK(value == 10);
    IS(pthread_mutexattr_gettype(&attributes, &value), 0);
    CHECK(value == PTHREAD_MUTEX_ADAPTIVE_NP);
    IS(pthread_mutexattr_destroy(&attributes), 0);
    pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
    IS(pthread_mutex_getprioceiling(&plain, &value), EINVAL);
    IS(pthread_mutex_consistent(&plain), EINVAL);
}

static void *fails_and_waits(void *mutex) {
    errno = 4711;
    IS(pthread_mutex_lock(mutex), 0);
    CHECK(errno == 4711);
    IS(pthread_mutex_unlock(mutex), 0);
    CHECK(errno == 4711);
    return NULL;
}

static void errno_is_preserved(void) {
    for (int i = 0; i < KIND_COUNT; i++) {
        pthread_mutex_t mutex;
        pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
        init_kind(&mutex, KINDS[i].type);
        errno = 4711;
        IS(pthread_mutex_lock(&mutex), 0);
        CHECK(errno == 4711);
        // Waiters long enough that they spin, sleep, and are starving.
        pthread_t waiters[3];
        start_all(waiters, 3, fails_and_waits, &mutex);
        errno = 4711;
        struct timespec soon = after_ns(CLOCK_REALTIME, 5 * MS), never = {0, -1};
        CHECK(pthread_mutex_timedlock(&mutex, &soon) >= 0 && errno == 4711);
        if (KINDS[i].type == PTHREAD_MUTEX_RECURSIVE)
            IS(pthread_mutex_unlock(&mutex), 0);
        CHECK(pthread_mutex_destroy(&mutex) == EBUSY && errno == 4711);
        IS(pthread_mutex_unlock(&mutex), 0);
        CHECK(errno == 4711);
        join_all(waiters, 3);
        errno = 4711;
        IS(pthread_mutex_lock(&mutex), 0);
        soon = after_ns(CLOCK_REALTIME, 2 * MS);
        IS(pthread_cond_timedwait(&cond, &mutex, &soon), ETIMEDOUT);
        CHECK(errno == 4711);
        IS(pthread_cond_timedwait(&cond, &mutex, &never), EINVAL);
        IS(pthread_cond_signal(&cond), 0);
        IS(pthread_cond_broadcast(&cond), 0);
        IS(pthread_mutex_unlock(&mutex), 0);
        IS(pthread_mutex_destroy(&mutex), 0);
        CHECK(errno == 4711);
    }
}

PROBES(P(static_initialisers), P(zero_filled_memory), P(reinitialised_after_destroy),
       P(reinitialised_without_destroy), P(codes_normal_and_adaptive), P(codes_errorcheck), P(codes_recursive),
       P(recursion_overflows), P(destroy_while_locked), P(trylock_from_elsewhere), P(attribute_functions),
       P(errno_is_preserved))
