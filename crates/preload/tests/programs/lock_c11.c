// The mutexes, condition variables and threads of C11, which the C library builds on its own.
#include "lock_probe.h"

#include <threads.h>

// What the library takes for granted: these are the objects of POSIX threads by other names.
_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && _Alignof(mtx_t) == _Alignof(pthread_mutex_t), "mtx_t");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t) && _Alignof(cnd_t) == _Alignof(pthread_cond_t), "cnd_t");
_Static_assert(thrd_success == 0 && thrd_busy == 1 && thrd_error == 2 && thrd_nomem == 3 && thrd_timedout == 4, "results");

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
    struct timespec deadline = after_ns(CLOCK_REALTIME, 40000 * MS);
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 8 == 7)
            while (mtx_trylock(&shelf->mutex) != thrd_success)
                thrd_yield();
        else if (round % 8 == 3)
            CHECK(mtx_timedlock(&shelf->mutex, &deadline) == thrd_success);
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

static int unlock_once(void *mutex) {
    return mtx_unlock(mutex);
}

static int at_no_time(void *mutex) {
    struct timespec no_time = {0, 1000000000};
    return mtx_timedlock(mutex, &no_time);
}

static int long_ago(void *mutex) {
    struct timespec before = {1, 0};
    int result = mtx_timedlock(mutex, &before);
    if (result == thrd_success)
        mtx_unlock(mutex);
    return result;
}

static const int TYPES[] = {mtx_plain, mtx_timed, mtx_plain | mtx_recursive, mtx_timed | mtx_recursive};

static void results(void) {
    for (int i = 0; i < 4; i++) {
        mtx_t mutex;
        // What stood in the memory before is of no matter.
        memset(&mutex, 0xa5, sizeof mutex);
        CHECK(mtx_init(&mutex, TYPES[i]) == thrd_success);
        // An invalid time is of no matter where there is no need to wait.
        CHECK(at_no_time(&mutex) == thrd_success);
        CHECK(elsewhere_11(try_once, &mutex) == thrd_busy);
        CHECK(elsewhere_11(at_no_time, &mutex) == thrd_error);
        CHECK(elsewhere_11(long_ago, &mutex) == thrd_timedout);
        if (TYPES[i] & mtx_recursive) {
            CHECK(mtx_trylock(&mutex) == thrd_success && mtx_unlock(&mutex) == thrd_success);
            CHECK(elsewhere_11(unlock_once, &mutex) == thrd_error);
        } else {
            CHECK(mtx_trylock(&mutex) == thrd_busy);
        }
        CHECK(mtx_unlock(&mutex) == thrd_success);
        CHECK(!(TYPES[i] & mtx_recursive) || mtx_unlock(&mutex) == thrd_error);
        CHECK(elsewhere_11(long_ago, &mutex) == thrd_success);
        mtx_destroy(&mutex);
    }
    struct shelf shelf = {.count = 0};
    struct timespec no_time = {0, -1}, before = {1, 0};
    CHECK(mtx_init(&shelf.mutex, mtx_plain) == thrd_success);
    memset(&shelf.cond, 0, sizeof shelf.cond);
    CHECK(cnd_init(&shelf.cond) == thrd_success);
    CHECK(cnd_signal(&shelf.cond) == thrd_success && cnd_broadcast(&shelf.cond) == thrd_success);
    CHECK(mtx_lock(&shelf.mutex) == thrd_success);
    CHECK(cnd_timedwait(&shelf.cond, &shelf.mutex, &no_time) == thrd_error);
    CHECK(cnd_timedwait(&shelf.cond, &shelf.mutex, &before) == thrd_timedout);
    CHECK(mtx_trylock(&shelf.mutex) == thrd_busy);
    CHECK(mtx_unlock(&shelf.mutex) == thrd_success);
    cnd_destroy(&shelf.cond);
    mtx_destroy(&shelf.mutex);
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

static void wait_for_five(struct shelf *shelf) {
    for (int waiting = 0; waiting != 5; sleep_us(200)) {
        CHECK(mtx_lock(&shelf->mutex) == thrd_success);
        waiting = shelf->waiting;
        CHECK(mtx_unlock(&shelf->mutex) == thrd_success);
    }
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
        wait_for_five(&shelf);
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

static int take_turns(struct shelf *shelf, int me) {
    struct timespec deadline = after_ns(CLOCK_REALTIME, 40000 * MS);
    for (int round = 0; round < 1000; round++) {
        CHECK(mtx_lock(&shelf->mutex) == thrd_success);
        while (shelf->open != me)
            CHECK(cnd_timedwait(&shelf->cond, &shelf->mutex, &deadline) == thrd_success);
        CHECK(atomic_fetch_add(&shelf->inside, 1) == 0);
        shelf->open = 1 - me;
        CHECK(cnd_signal(&shelf->cond) == thrd_success);
        CHECK(atomic_fetch_sub(&shelf->inside, 1) == 1);
        CHECK(mtx_unlock(&shelf->mutex) == thrd_success);
    }
    return 0;
}

static int second_turns(void *shelf) {
    return take_turns(shelf, 1);
}

static void recursive_in_a_wait(void) {
    struct shelf shelf = {.count = 0};
    CHECK(mtx_init(&shelf.mutex, mtx_timed | mtx_recursive) == thrd_success && cnd_init(&shelf.cond) == thrd_success);
    thrd_t other;
    int result;
    CHECK(thrd_create(&other, second_turns, &shelf) == thrd_success);
    take_turns(&shelf, 0);
    CHECK(thrd_join(other, &result) == thrd_success && result == 0);
    // With the other thread perhaps still on its way out of its last wait.
    cnd_destroy(&shelf.cond);
    mtx_destroy(&shelf.mutex);
}

static int wait_for_a_while(void *argument) {
    struct shelf *shelf = argument;
    struct timespec deadline = after_ns(CLOCK_REALTIME, 40000 * MS);
    CHECK(mtx_lock(&shelf->mutex) == thrd_success);
    shelf->waiting++;
    while (!shelf->open)
        CHECK(cnd_timedwait(&shelf->cond, &shelf->mutex, &deadline) == thrd_success);
    return mtx_unlock(&shelf->mutex);
}

static void destroyed_right_after_broadcast(void) {
    struct shelf shelf;
    for (int round = 0; round < 50; round++) {
        memset(&shelf, 0, sizeof shelf);
        CHECK(mtx_init(&shelf.mutex, mtx_plain) == thrd_success && cnd_init(&shelf.cond) == thrd_success);
        thrd_t threads[5];
        for (int i = 0; i < 5; i++)
            CHECK(thrd_create(&threads[i], wait_for_a_while, &shelf) == thrd_success);
        wait_for_five(&shelf);
        CHECK(mtx_lock(&shelf.mutex) == thrd_success);
        shelf.open = 1;
        CHECK(cnd_broadcast(&shelf.cond) == thrd_success);
        CHECK(mtx_unlock(&shelf.mutex) == thrd_success);
        // Allowed as soon as nobody waits. Threads that were woken touch it no more.
        cnd_destroy(&shelf.cond);
        memset(&shelf.cond, 0xa5, sizeof shelf.cond);
        for (int i = 0; i < 5; i++) {
            int result;
            CHECK(thrd_join(threads[i], &result) == thrd_success && result == thrd_success);
        }
        mtx_destroy(&shelf.mutex);
    }
}

// By the names of POSIX threads on the one side, by those of C11 on the other.
static pthread_mutex_t *posix_mutex(struct shelf *shelf) {
    return (pthread_mutex_t *)&shelf->mutex;
}

static pthread_cond_t *posix_cond(struct shelf *shelf) {
    return (pthread_cond_t *)&shelf->cond;
}

static void *pass_by_posix(void *argument) {
    struct shelf *shelf = argument;
    IS(pthread_mutex_lock(posix_mutex(shelf)), 0);
    shelf->waiting++;
    while (shelf->open == 0)
        IS(pthread_cond_wait(posix_cond(shelf), posix_mutex(shelf)), 0);
    shelf->open--;
    IS(pthread_mutex_unlock(posix_mutex(shelf)), 0);
    return NULL;
}

static void *pass_by_c11(void *shelf) {
    CHECK(pass(shelf) == 0);
    return NULL;
}

static void mixed_with_posix(void) {
    struct shelf shelf = {.count = 0};
    CHECK(mtx_init(&shelf.mutex, mtx_plain) == thrd_success && cnd_init(&shelf.cond) == thrd_success);
    for (int round = 0; round < 40; round++) {
        pthread_t threads[5];
        shelf.waiting = 0;
        for (int i = 0; i < 5; i++)
            threads[i] = start((i + round) % 2 ? pass_by_posix : pass_by_c11, &shelf);
        wait_for_five(&shelf);
        CHECK(mtx_lock(&shelf.mutex) == thrd_success);
        shelf.open = 5;
        IS(pthread_mutex_unlock(posix_mutex(&shelf)), 0);
        if (round % 4 == 0)
            CHECK(cnd_broadcast(&shelf.cond) == thrd_success);
        else if (round % 4 == 1)
            IS(pthread_cond_broadcast(posix_cond(&shelf)), 0);
        else
            for (int i = 0; i < 5; i++)
                CHECK((round % 4 == 2 ? cnd_signal(&shelf.cond) : pthread_cond_signal(posix_cond(&shelf))) == 0);
        join_all(threads, 5);
    }
    cnd_destroy(&shelf.cond);
    mtx_destroy(&shelf.mutex);
}

static struct shelf stage;
static atomic_int cleaned;

static void clean(void *unused) {
    (void)unused;
    // Held by this very thread: a recursive mutex can be locked once more.
    CHECK(mtx_trylock(&stage.mutex) == thrd_success && mtx_unlock(&stage.mutex) == thrd_success);
    atomic_fetch_add(&cleaned, 1);
    CHECK(mtx_unlock(&stage.mutex) == thrd_success);
}

static void *wait_to_be_cancelled(void *timed) {
    struct timespec deadline = after_ns(CLOCK_REALTIME, 40000 * MS);
    CHECK(mtx_lock(&stage.mutex) == thrd_success);
    stage.waiting++;
    pthread_cleanup_push(clean, NULL);
    for (;;)
        CHECK((timed ? cnd_timedwait(&stage.cond, &stage.mutex, &deadline) : cnd_wait(&stage.cond, &stage.mutex)) ==
              thrd_success);
    pthread_cleanup_pop(1);
}

static void cancelled(void) {
    CHECK(mtx_init(&stage.mutex, mtx_plain | mtx_recursive) == thrd_success && cnd_init(&stage.cond) == thrd_success);
    for (int round = 0; round < 10; round++) {
        pthread_t threads[5];
        stage.waiting = 0;
        atomic_store(&cleaned, 0);
        for (int i = 0; i < 5; i++)
            threads[i] = start(wait_to_be_cancelled, i % 2 ? &stage : NULL);
        wait_for_five(&stage);
        for (int i = 0; i < 5; i++)
            IS(pthread_cancel(threads[i]), 0);
        for (int i = 0; i < 5; i++)
            CHECK(join(threads[i]) == PTHREAD_CANCELED);
        CHECK(atomic_load(&cleaned) == 5);
    }
    cnd_destroy(&stage.cond);
    mtx_destroy(&stage.mutex);
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

PROBES(P(plain), P(timed), P(recursive), P(results), P(conditions), P(recursive_in_a_wait),
       P(destroyed_right_after_broadcast), P(mixed_with_posix), P(cancelled), P(called_once))
