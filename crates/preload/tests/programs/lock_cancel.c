// Threads that are cancelled while they wait at a condition variable: they hold the mutex again when their clean-up
// handlers run, and take no wake-up with them that another one needs.
#include "lock_probe.h"

enum way { WAIT, TIMED, CLOCK };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int waiting, cleaned;
    enum way way;
} stage = {.cond = PTHREAD_COND_INITIALIZER};

static void wait_by(enum way way, pthread_cond_t *cond, pthread_mutex_t *mutex) {
    struct timespec real = after_ns(CLOCK_REALTIME, 40000 * MS), monotonic = after_ns(CLOCK_MONOTONIC, 40000 * MS);
    IS(way == WAIT    ? pthread_cond_wait(cond, mutex)
       : way == TIMED ? pthread_cond_timedwait(cond, mutex, &real)
                      : pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &monotonic),
       0);
}

static void clean(void *unused) {
    (void)unused;
    // Held by this very thread, as an error-checking mutex can tell.
    IS(pthread_mutex_trylock(&stage.mutex), EBUSY);
    IS(pthread_mutex_lock(&stage.mutex), EDEADLK);
    stage.cleaned++;
    IS(pthread_mutex_unlock(&stage.mutex), 0);
}

static void *wait_to_be_cancelled(void *unused) {
    (void)unused;
    IS(pthread_mutex_lock(&stage.mutex), 0);
    stage.waiting++;
    pthread_cleanup_push(clean, NULL);
    for (;;)
        wait_by(stage.way, &stage.cond, &stage.mutex);
    pthread_cleanup_pop(1);
}

static void all_wait(int count) {
    until_under(&stage.mutex, &stage.waiting, count);
}

static void cancelled(enum way way) {
    init_kind(&stage.mutex, PTHREAD_MUTEX_ERRORCHECK);
    stage.way = way;
    for (int round = 0; round < 20; round++) {
        stage.waiting = stage.cleaned = 0;
        pthread_t threads[5];
        start_all(threads, 5, wait_to_be_cancelled, NULL);
        all_wait(5);
        // Sometimes the mutex is held meanwhile, and those cancelled have to wait for it.
        if (round % 2)
            IS(pthread_mutex_lock(&stage.mutex), 0);
        for (int i = 0; i < 5; i++)
            IS(pthread_cancel(threads[i]), 0);
        if (round % 2) {
            sleep_us(2500);
            CHECK(stage.cleaned == 0);
            IS(pthread_mutex_unlock(&stage.mutex), 0);
        }
        for (int i = 0; i < 5; i++)
            CHECK(join(threads[i]) == PTHREAD_CANCELED);
        CHECK(stage.cleaned == 5);
        IS(pthread_mutex_lock(&stage.mutex), 0);
        IS(pthread_mutex_unlock(&stage.mutex), 0);
    }
    IS(pthread_cond_destroy(&stage.cond), 0);
    IS(pthread_mutex_destroy(&stage.mutex), 0);
}

static void cancelled_in_wait(void) {
    cancelled(WAIT);
}

static void cancelled_in_timedwait(void) {
    cancelled(TIMED);
}

static void cancelled_in_clockwait(void) {
    cancelled(CLOCK);
}

static void *cancel_me_first(void *unused) {
    (void)unused;
    IS(pthread_mutex_lock(&stage.mutex), 0);
    pthread_cleanup_push(clean, NULL);
    IS(pthread_cancel(pthread_self()), 0);
    wait_by(stage.way, &stage.cond, &stage.mutex);
    FAIL("a wait %s", "returned although a cancellation was pending");
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancelled_before_the_wait(void) {
    init_kind(&stage.mutex, PTHREAD_MUTEX_ERRORCHECK);
    for (int round = 0; round < 30; round++) {
        stage.way = round % 3;
        stage.cleaned = 0;
        CHECK(join(start(cancel_me_first, NULL)) == PTHREAD_CANCELED && stage.cleaned == 1);
    }
}

struct stay {
    int open, type;
};

/* Cannot be cancelled; the type of cancellation is as it was when the wait is over. */
static void *stays(void *argument) {
    struct stay *stay = argument;
    int before;
    IS(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
    IS(pthread_setcanceltype(stay->type, NULL), 0);
    IS(pthread_mutex_lock(&stage.mutex), 0);
    stage.waiting++;
    while (!stay->open)
        wait_by(stage.way, &stage.cond, &stage.mutex);
    IS(pthread_mutex_unlock(&stage.mutex), 0);
    IS(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before), 0);
    CHECK(before == stay->type);
    return stay;
}

static void waits_to_the_end(int type, int cancelled, int (*wake)(pthread_cond_t *)) {
    init_kind(&stage.mutex, PTHREAD_MUTEX_ERRORCHECK);
    for (int round = 0; round < 9; round++) {
        struct stay stay = {.type = type};
        stage.way = round % 3;
        stage.waiting = 0;
        pthread_t thread = start(stays, &stay);
        all_wait(1);
        if (cancelled) {
            IS(pthread_cancel(thread), 0);
            sleep_us(1000);
        }
        IS(pthread_mutex_lock(&stage.mutex), 0);
        stay.open = 1;
        IS(wake(&stage.cond), 0);
        IS(pthread_mutex_unlock(&stage.mutex), 0);
        CHECK(join(thread) == &stay);
    }
}

static void disabled_cancellation_waits(void) {
    waits_to_the_end(PTHREAD_CANCEL_DEFERRED, 1, pthread_cond_signal);
}

static void the_type_of_cancellation_is_kept(void) {
    waits_to_the_end(PTHREAD_CANCEL_ASYNCHRONOUS, 0, pthread_cond_broadcast);
}

static void *locks_while_cancelled(void *argument) {
    struct owned *owned = argument;
    // To lock a mutex is no cancellation point.
    pass_through(owned);
    return owned;
}

static void to_lock_is_no_cancellation_point(void) {
    for (int i = 0; i < 5 * KIND_COUNT; i++) {
        struct owned owned = {.count = 0};
        init_kind(&owned.mutex, KINDS[i % KIND_COUNT].type);
        IS(pthread_mutex_lock(&owned.mutex), 0);
        pthread_t threads[3];
        start_all(threads, 3, locks_while_cancelled, &owned);
        sleep_us(1500);
        for (int t = 0; t < 3; t++)
            IS(pthread_cancel(threads[t]), 0);
        sleep_us(500);
        IS(pthread_mutex_unlock(&owned.mutex), 0);
        for (int t = 0; t < 3; t++)
            CHECK(join(threads[t]) == &owned);
        CHECK(owned.count == 3);
    }
}

static struct gate hall = GATE;

static void let_go(void *unused) {
    (void)unused;
    IS(pthread_mutex_unlock(&hall.mutex), 0);
}

static void *take_token(void *took) {
    IS(pthread_mutex_lock(&hall.mutex), 0);
    hall.waiting++;
    pthread_cleanup_push(let_go, NULL);
    while (hall.open == 0)
        IS(pthread_cond_wait(&hall.cond, &hall.mutex), 0);
    hall.open--;
    hall.passed++;
    *(int *)took = 1;
    pthread_cleanup_pop(1);
    return NULL;
}

/* Two wait, one wake-up is sent, and one of the two is cancelled at the same time. Whichever of them the wake-up
 * was for: the token is taken. A wake-up that vanished with the cancelled leaves the other asleep for ever. */
static void no_wake_up_is_lost(void) {
    for (int round = 0; round < 400; round++) {
        hall.waiting = hall.open = hall.passed = 0;
        int took[2] = {0, 0};
        pthread_t cancelled = start(take_token, &took[0]), other = start(take_token, &took[1]);
        until_waiting(&hall, 2);
        IS(pthread_mutex_lock(&hall.mutex), 0);
        hall.open = 1;
        if (round % 2)
            IS(pthread_cancel(cancelled), 0);
        IS(pthread_cond_signal(&hall.cond), 0);
        IS(pthread_mutex_unlock(&hall.mutex), 0);
        if (round % 2 == 0)
            IS(pthread_cancel(cancelled), 0);
        void *result = join(cancelled);
        CHECK(took[0] || result == PTHREAD_CANCELED);
        if (!took[0]) {
            join(other);
            CHECK(hall.passed == 1);
        } else {
            // It took the token itself; the other gets one of its own.
            IS(pthread_mutex_lock(&hall.mutex), 0);
            CHECK(hall.passed == 1);
            hall.open = 1;
            IS(pthread_cond_signal(&hall.cond), 0);
            IS(pthread_mutex_unlock(&hall.mutex), 0);
            join(other);
            CHECK(hall.passed == 2);
        }
    }
}

PROBES(P(cancelled_in_wait), P(cancelled_in_timedwait), P(cancelled_in_clockwait), P(cancelled_before_the_wait),
       P(disabled_cancellation_waits), P(the_type_of_cancellation_is_kept), P(to_lock_is_no_cancellation_point),
       P(no_wake_up_is_lost))
