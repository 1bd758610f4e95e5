// The mutexes, condition variables and threads of C11, which the C library builds on its own.
#include "lock_probe.h"

#include <threads.h>

#define ROUNDS 3000

struct shelf {
    mtx_t mutex;
    cnd_t cond;
    atomic_int inside;
    long count;
    int open, waiting;
};

static int contend(void *argument) {
    struct shelf *shelf = argument;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 8 == 7)
            while (mtx_trylock(&shelf->mutex) != thrd_success)
                thrd_yield();
        else
            CHECK(mtx_lock(&shelf->mutex) == thrd_success);
        CHECK(atomic_fetch_add(&shelf->inside, 1) == 0);
        shelf->count++;
        CHECK(atomic_fetch_sub(&shelf->inside, 1) == 1);
        CHECK(mtx_unlock(&shelf->mutex) == thrd_success);
    }
    return 7;
}

static void contended(int type) {
    struct shelf shelf = {.count = 0};
    CHECK(mtx_init(&shelf.mutex, type) == thrd_success);
    thrd_t threads[8];
    for (int i = 0; i < 8; i++)
        CHECK(thrd_create(&threads[i], contend, &shelf) == thrd_success);
    for (int i = 0; i < 8; i++) {
        int result;
        CHECK(thrd_join(threads[i], &result) == thrd_success && result == 7);
    }
    CHECK(shelf.count == 8 * ROUNDS);
    mtx_destroy(&shelf.mutex);
}

static int try_once(void *mutex) {
    int result = mtx_trylock(mutex);
    if (result == thrd_success)
        mtx_unlock(mutex);
    return result;
}

static int elsewhere_11(thrd_start_t run, void *mutex) {
    thrd_t thread;
    int result;
    CHECK(thrd_create(&thread, run, mutex) == thrd_success && thrd_join(thread, &result) == thrd_success);
    return result;
}

static void plain(void) {
    mtx_t mutex;
    CHECK(mtx_init(&mutex, mtx_plain) == thrd_success);
    CHECK(mtx_lock(&mutex) == thrd_success);
    CHECK(elsewhere_11(try_once, &mutex) == thrd_busy);
    CHECK(mtx_unlock(&mutex) == thrd_success);
    CHECK(elsewhere_11(try_once, &mutex) == thrd_success);
    mtx_destroy(&mutex);
    contended(mtx_plain);
}

static int time_out(void *mutex) {
    struct timespec deadline = after_ns(CLOCK_REALTIME, 4 * MS);
    int result = mtx_timedlock(mutex, &deadline);
    CHECK(result != thrd_timedout || is_over(CLOCK_REALTIME, &deadline));
    if (result == thrd_success)
        mtx_unlock(mutex);
    return result;
}

static void timed(void) {
    mtx_t mutex;
    CHECK(mtx_init(&mutex, mtx_timed) == thrd_success);
    CHECK(mtx_lock(&mutex) == thrd_success);
    CHECK(elsewhere_11(time_out, &mutex) == thrd_timedout);
    CHECK(mtx_unlock(&mutex) == thrd_success);
    CHECK(elsewhere_11(time_out, &mutex) == thrd_success);
    mtx_destroy(&mutex);
    contended(mtx_timed);
}

static void recursive(void) {
    mtx_t mutex;
    CHECK(mtx_init(&mutex, mtx_timed | mtx_recursive) == thrd_success);
    struct timespec deadline = after_ns(CLOCK_REALTIME, 1000 * MS);
    CHECK(mtx_lock(&mutex) == thrd_success && mtx_trylock(&mutex) == thrd_success);
    CHECK(mtx_timedlock(&mutex, &deadline) == thrd_success);
    CHECK(elsewhere_11(try_once, &mutex) == thrd_busy);
    for (int i = 0; i < 3; i++)
        CHECK(mtx_unlock(&mutex) == thrd_success);
    CHECK(elsewhere_11(time_out, &mutex) == thrd_success);
    mtx_destroy(&mutex);
    contended(mtx_plain | mtx_recursive);
}

static int pass(void *argument) {
    struct shelf *shelf = argument;
    CHECK(mtx_lock(&shelf->mutex) == thrd_success);
    shelf->waiting++;
    while (shelf->open == 0)
        CHECK(cnd_wait(&shelf->cond, &shelf->mutex) == thrd_success);
    shelf->open--;
    CHECK(mtx_unlock(&shelf->mutex) == thrd_success);
    return 0;
}

static void conditions(void) {
    struct shelf shelf = {.count = 0};
    CHECK(mtx_init(&shelf.mutex, mtx_plain) == thrd_success && cnd_init(&shelf.cond) == thrd_success);
    CHECK(mtx_lock(&shelf.mutex) == thrd_success);
    struct timespec deadline = after_ns(CLOCK_REALTIME, 3 * MS);
    int result;
    while ((result = cnd_timedwait(&shelf.cond, &shelf.mutex, &deadline)) == thrd_success)
        CHECK(!is_over(CLOCK_REALTIME, &deadline));
    CHECK(result == thrd_timedout && is_over(CLOCK_REALTIME, &deadline));
    CHECK(elsewhere_11(try_once, &shelf.mutex) == thrd_busy);
    CHECK(mtx_unlock(&shelf.mutex) == thrd_success);
    for (int round = 0; round < 30; round++) {
        thrd_t threads[5];
        shelf.waiting = 0;
        for (int i = 0; i < 5; i++)
            CHECK(thrd_create(&threads[i], pass, &shelf) == thrd_success);
        for (int waiting = 0; waiting != 5; sleep_us(200)) {
            mtx_lock(&shelf.mutex);
            waiting = shelf.waiting;
            mtx_unlock(&shelf.mutex);
        }
        mtx_lock(&shelf.mutex);
        shelf.open = 5;
        mtx_unlock(&shelf.mutex);
        if (round % 2)
            CHECK(cnd_broadcast(&shelf.cond) == thrd_success);
        else
            for (int i = 0; i < 5; i++)
                CHECK(cnd_signal(&shelf.cond) == thrd_success);
        for (int i = 0; i < 5; i++)
            CHECK(thrd_join(threads[i], NULL) == thrd_success);
    }
    cnd_destroy(&shelf.cond);
    mtx_destroy(&shelf.mutex);
}

static once_flag once = ONCE_FLAG_INIT;
static atomic_int calls;

static void first(void) {
    sleep_us(2000);
    atomic_fetch_add(&calls, 1);
}

static int call_first(void *unused) {
    (void)unused;
    call_once(&once, first);
    return atomic_load(&calls);
}

static void called_once(void) {
    thrd_t threads[6];
    for (int i = 0; i < 6; i++)
        CHECK(thrd_create(&threads[i], call_first, NULL) == thrd_success);
    for (int i = 0; i < 6; i++) {
        int result;
        CHECK(thrd_join(threads[i], &result) == thrd_success && result == 1);
    }
}

PROBES({"plain", plain}, {"timed", timed}, {"recursive", recursive}, {"conditions", conditions},
       {"called_once", called_once})
