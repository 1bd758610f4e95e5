/* What every function of manx.h returns, and what epochs answer. */
#include "../../../preload/tests/programs/check.h"
#include <errno.h>
#include <manx.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

static manx_mutex_t mutex = MANX_MUTEX_INIT;
static manx_cond_t cond = MANX_COND_INIT;
static manx_rwlock_t rwlock = MANX_RWLOCK_INIT;
static int turns;

static void mutexes(void) {
    manx_mutex_t zero;
    memset(&zero, 0, sizeof zero);
    CHECK(memcmp(&zero, &mutex, sizeof zero) == 0);
    CHECK(sizeof(manx_mutex_t) == 8 && sizeof(manx_cond_t) == 8 && sizeof(manx_rwlock_t) == 8);

    CHECK(manx_mutex_lock(&mutex) == 0);
    errno = 77;
    CHECK(manx_mutex_trylock(&mutex) == EBUSY);
    CHECK(manx_mutex_timedlock(&mutex, 0) == ETIMEDOUT);
    uint64_t deadline_ns = manx_now_ns() + 3000000;
    CHECK(manx_mutex_timedlock(&mutex, deadline_ns) == ETIMEDOUT);
    CHECK(manx_now_ns() >= deadline_ns);
    CHECK(errno == 77);
    CHECK(manx_mutex_unlock(&mutex) == 0);
    CHECK(manx_mutex_trylock(&mutex) == 0);
    CHECK(manx_mutex_unlock(&mutex) == 0);
    /* A free mutex is had whatever the deadline. */
    CHECK(manx_mutex_timedlock(&mutex, 0) == 0);
    CHECK(manx_mutex_unlock(&mutex) == 0);
    CHECK(manx_mutex_timedlock(&mutex, UINT64_MAX) == 0);
    CHECK(manx_mutex_unlock(&mutex) == 0);

    static const uint64_t windows_ns[] = {0, 1, 1000, SECOND_NS, UINT64_MAX};
    for (size_t i = 0; i < sizeof windows_ns / sizeof windows_ns[0]; i++) {
        manx_mutex_t with_window;
        manx_mutex_init(&with_window, windows_ns[i]);
        CHECK((memcmp(&with_window, &zero, sizeof zero) == 0) == (windows_ns[i] == 0));
        CHECK(manx_mutex_lock(&with_window) == 0);
        CHECK(manx_mutex_timedlock(&with_window, 0) == ETIMEDOUT);
        CHECK(manx_mutex_unlock(&with_window) == 0);
    }
}

static void *other(void *argument) {
    CHECK(manx_mutex_lock(&mutex) == 0);
    for (int i = 0; i < 100; i++) {
        while (turns % 2 == 0)
            CHECK(manx_cond_wait(&cond, &mutex) == 0);
        turns++;
        CHECK(manx_cond_signal(&cond) == 0);
    }
    CHECK(manx_mutex_unlock(&mutex) == 0);
    return argument;
}

static void conditions(void) {
    CHECK(manx_cond_signal(&cond) == 0 && manx_cond_broadcast(&cond) == 0);
    CHECK(manx_mutex_lock(&mutex) == 0);
    CHECK(manx_cond_timedwait(&cond, &mutex, 0) == ETIMEDOUT);
    CHECK(manx_cond_timedwait(&cond, &mutex, manx_now_ns() + 1000000) == ETIMEDOUT);
    /* It is held again. */
    CHECK(manx_mutex_trylock(&mutex) == EBUSY);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    for (int i = 0; i < 100; i++) {
        while (turns % 2 == 1)
            CHECK(manx_cond_timedwait(&cond, &mutex, manx_now_ns() + 60 * SECOND_NS) == 0);
        turns++;
        CHECK(manx_cond_broadcast(&cond) == 0);
    }
    CHECK(manx_mutex_unlock(&mutex) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(turns == 200);
}

static void readers_and_writers(void) {
    CHECK(manx_rwlock_rdlock(&rwlock) == 0);
    CHECK(manx_rwlock_tryrdlock(&rwlock) == 0);
    CHECK(manx_rwlock_timedrdlock(&rwlock, 0) == 0);
    CHECK(manx_rwlock_trywrlock(&rwlock) == EBUSY);
    CHECK(manx_rwlock_timedwrlock(&rwlock, manx_now_ns() + 1000000) == ETIMEDOUT);
    CHECK(manx_rwlock_unlock(&rwlock) == 0);
    CHECK(manx_rwlock_rdunlock(&rwlock) == 0);
    CHECK(manx_rwlock_trywrlock(&rwlock) == EBUSY);
    CHECK(manx_rwlock_rdunlock(&rwlock) == 0);
    CHECK(manx_rwlock_wrlock(&rwlock) == 0);
    CHECK(manx_rwlock_tryrdlock(&rwlock) == EBUSY);
    CHECK(manx_rwlock_timedrdlock(&rwlock, manx_now_ns() + 1000000) == ETIMEDOUT);
    CHECK(manx_rwlock_trywrlock(&rwlock) == EBUSY);
    CHECK(manx_rwlock_wrunlock(&rwlock) == 0);
    CHECK(manx_rwlock_timedwrlock(&rwlock, 0) == 0);
    CHECK(manx_rwlock_unlock(&rwlock) == 0);

    /* As after 2^21 readers, if none has left. */
    manx_rwlock_t full = MANX_RWLOCK_INIT;
    full.state = UINT64_C(1) << 21;
    CHECK(manx_rwlock_rdlock(&full) == EAGAIN);
    CHECK(manx_rwlock_tryrdlock(&full) == EAGAIN);
    CHECK(manx_rwlock_timedrdlock(&full, 0) == EAGAIN);
    CHECK(manx_rwlock_trywrlock(&full) == EBUSY);
    CHECK(manx_rwlock_rdunlock(&full) == 0);
    CHECK(manx_rwlock_rdlock(&full) == 0);

    /* With a window of its own, and without. */
    manx_rwlock_t patient;
    for (uint64_t window_ns = 0; window_ns < 3; window_ns++) {
        manx_rwlock_init(&patient, window_ns == 2 ? UINT64_MAX : window_ns);
        CHECK(manx_rwlock_wrlock(&patient) == 0);
        CHECK(manx_rwlock_timedrdlock(&patient, manx_now_ns() + 1000000) == ETIMEDOUT);
        CHECK(manx_rwlock_unlock(&patient) == 0);
        CHECK(manx_rwlock_rdlock(&patient) == 0);
        CHECK(manx_rwlock_unlock(&patient) == 0);
    }
}

/* The window that the next epoch will have. */
static uint64_t window_ns(uint64_t id) {
    manx_epoch_start(id);
    uint64_t window_ns = manx_epoch_window_ns();
    manx_epoch_abandon(id);
    return window_ns;
}

static void *elsewhere(void *argument) {
    CHECK(manx_epoch_window_ns() == UINT64_MAX);
    manx_epoch_end(1, 0);
    manx_epoch_start(1);
    return argument;
}

static void epochs(void) {
    CHECK(manx_epoch_window_ns() == UINT64_MAX);
    for (int i = 0; i < 20; i++) {
        manx_epoch_start(1);
        manx_epoch_end(1, SECOND_NS);
        manx_epoch_start(2);
        manx_epoch_end(2, 0);
        manx_epoch_start(3);
        manx_epoch_end_at(3, SECOND_NS, i % 2 ? 50 : 99.99);
        manx_epoch_start(4);
        manx_epoch_end_at(4, SECOND_NS, i % 2 ? 100 : 49.9);
    }
    CHECK(window_ns(1) == 100000000);
    CHECK(window_ns(2) == 0);
    CHECK(window_ns(3) == 100000000);
    CHECK(window_ns(4) == window_ns(5));

    manx_epoch_start(1);
    manx_epoch_start(2);
    CHECK(manx_epoch_window_ns() == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, elsewhere, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    manx_epoch_end(1, SECOND_NS);
    CHECK(manx_epoch_window_ns() == 0);
    manx_epoch_end(2, 0);
    manx_epoch_end(2, 0);
    manx_epoch_end(99, 0);
    CHECK(manx_epoch_window_ns() == UINT64_MAX);
}

int main(void) {
    mutexes();
    conditions();
    readers_and_writers();
    epochs();
    return 0;
}
