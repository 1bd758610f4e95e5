// Mutexes with deadlines: never early, never EINTR, and really acquired when released in time.
#include "lock_probe.h"

static int timed(pthread_mutex_t *mutex, clockid_t clock, int way, const struct timespec *deadline) {
    return way == 0 ? pthread_mutex_timedlock(mutex, deadline) : pthread_mutex_clocklock(mutex, clock, deadline);
}

/* Three ways to say the same: timedlock, clocklock by either clock. */
static const struct {
    clockid_t clock;
    int way;
} WAYS[] = {{CLOCK_REALTIME, 0}, {CLOCK_REALTIME, 1}, {CLOCK_MONOTONIC, 1}};

static void *expires(void *mutex) {
    for (int w = 0; w < 3; w++)
        for (int round = 0; round < 3; round++) {
            struct timespec deadline = after_ns(WAYS[w].clock, round * 3 * MS + 100000);
            IS(timed(mutex, WAYS[w].clock, WAYS[w].way, &deadline), ETIMEDOUT);
            CHECK(is_over(WAYS[w].clock, &deadline));
        }
    return NULL;
}

static void timedlock_expires_not_early(void) {
    for (int i = 0; i < KIND_COUNT; i++) {
        pthread_mutex_t mutex;
        init_kind(&mutex, KINDS[i].type);
        IS(pthread_mutex_lock(&mutex), 0);
        pthread_t waiters[3];
        start_all(waiters, 3, expires, &mutex);
        join_all(waiters, 3);
        IS(pthread_mutex_unlock(&mutex), 0);
        IS(elsewhere(pthread_mutex_lock, &mutex), 0);
        IS(pthread_mutex_destroy(&mutex), 0);
    }
}

static void *bad_times(void *mutex) {
    struct timespec bad[] = {{0, -1}, {0, 1000000000}, {1L << 40, 1000000000}, {1L << 40, -1}};
    for (int w = 0; w < 3; w++)
        for (int i = 0; i < 4; i++)
            IS(timed(mutex, WAYS[w].clock, WAYS[w].way, &bad[i]), EINVAL);
    return NULL;
}

// To this CPU, if the process may use it.
static void move_to(int cpu) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    sched_setaffinity(0, sizeof only, &only);
}

static void timedlock_bad_nanoseconds(void) {
    for (int i = 0; i < KIND_COUNT; i++) {
        pthread_mutex_t mutex;
        move_to(1);
        init_kind(&mutex, KINDS[i].type);
        IS(pthread_mutex_lock(&mutex), 0);
        join(start(bad_times, &mutex));
        IS(pthread_mutex_unlock(&mutex), 0);
        // A free mutex is acquired without a look at the time, also where others might be let pass.
        move_to(0);
        struct timespec bad = {0, -1};
        IS(pthread_mutex_timedlock(&mutex, &bad), 0);
        IS(pthread_mutex_unlock(&mutex), 0);
    }
}

static void *past_times(void *mutex) {
    struct timespec past[] = {{0, 0}, {1, 999999999}, {-1, 0}, {-1000000, 5}};
    for (int w = 0; w < 3; w++)
        for (int i = 0; i < 4; i++)
            IS(timed(mutex, WAYS[w].clock, WAYS[w].way, &past[i]), ETIMEDOUT);
    return NULL;
}

static void deadlines_in_the_past(void) {
    for (int i = 0; i < KIND_COUNT; i++) {
        pthread_mutex_t mutex;
        init_kind(&mutex, KINDS[i].type);
        struct timespec past = {1, 0};
        for (int w = 0; w < 3; w++) {
            IS(timed(&mutex, WAYS[w].clock, WAYS[w].way, &past), 0);
            IS(pthread_mutex_unlock(&mutex), 0);
        }
        IS(pthread_mutex_lock(&mutex), 0);
        join(start(past_times, &mutex));
        IS(pthread_mutex_unlock(&mutex), 0);
        IS(pthread_mutex_destroy(&mutex), 0);
    }
}

static void clocklock_invalid_clock(void) {
    clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_BOOTTIME, 77, -5};
    for (int i = 0; i < KIND_COUNT; i++) {
        pthread_mutex_t mutex;
        init_kind(&mutex, KINDS[i].type);
        struct timespec deadline = after_ns(CLOCK_REALTIME, 5 * MS);
        for (int c = 0; c < 5; c++)
            IS(pthread_mutex_clocklock(&mutex, clocks[c], &deadline), EINVAL);
        IS(elsewhere(pthread_mutex_trylock, &mutex), 0);
    }
}

struct release {
    pthread_mutex_t mutex;
    atomic_int trying;
    int way;
};

static void *acquires_in_time(void *argument) {
    struct release *release = argument;
    struct timespec deadline = after_ns(WAYS[release->way].clock, 40000 * MS);
    atomic_fetch_add(&release->trying, 1);
    IS(timed(&release->mutex, WAYS[release->way].clock, WAYS[release->way].way, &deadline), 0);
    CHECK(!is_over(WAYS[release->way].clock, &deadline));
    IS(pthread_mutex_unlock(&release->mutex), 0);
    return NULL;
}

static void timedlock_acquires_on_release(void) {
    for (int i = 0; i < KIND_COUNT; i++)
        for (int w = 0; w < 3; w++) {
            struct release release = {.way = w};
            init_kind(&release.mutex, KINDS[i].type);
            IS(pthread_mutex_lock(&release.mutex), 0);
            pthread_t waiters[4];
            start_all(waiters, 4, acquires_in_time, &release);
            until(&release.trying, 4);
            sleep_us(3000);
            IS(pthread_mutex_unlock(&release.mutex), 0);
            join_all(waiters, 4);
            IS(pthread_mutex_destroy(&release.mutex), 0);
        }
}

static atomic_long acquired, expired;

static void *impatient(void *argument) {
    struct owned *owned = argument;
    unsigned seed = (unsigned)(size_t)&seed >> 12;
    for (int round = 0; round < 300; round++) {
        int w = rand_r(&seed) % 3;
        // From none to about what a turn takes, so that many end just when the mutex is handed to them.
        struct timespec deadline = after_ns(WAYS[w].clock, rand_r(&seed) % 1500000);
        int result = timed(&owned->mutex, WAYS[w].clock, WAYS[w].way, &deadline);
        if (result == 0) {
            enter(owned);
            if (round % 8 == 0)
                sleep_us(100);
            leave(owned);
            IS(pthread_mutex_unlock(&owned->mutex), 0);
            atomic_fetch_add(&acquired, 1);
        } else {
            CHECK(result == ETIMEDOUT && is_over(WAYS[w].clock, &deadline));
            atomic_fetch_add(&expired, 1);
        }
    }
    return NULL;
}

static void timeouts_race_with_releases(void) {
    for (int i = 0; i < KIND_COUNT; i++) {
        struct owned owned = {.count = 0};
        init_kind(&owned.mutex, KINDS[i].type);
        atomic_store(&acquired, 0), atomic_store(&expired, 0);
        run_all(8, impatient, &owned);
        CHECK(acquired + expired == 8 * 300 && owned.count == acquired);
        IS(elsewhere(pthread_mutex_trylock, &owned.mutex), 0);
        IS(pthread_mutex_destroy(&owned.mutex), 0);
    }
}

static atomic_int handled;

static void on_signal(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

struct disturbed {
    pthread_mutex_t mutex;
    atomic_int waiting, released, done;
    int timed;
};

static void *waits_undisturbed(void *argument) {
    struct disturbed *disturbed = argument;
    struct timespec deadline = after_ns(CLOCK_MONOTONIC, 40000 * MS);
    atomic_store(&disturbed->waiting, 1);
    if (disturbed->timed)
        IS(pthread_mutex_clocklock(&disturbed->mutex, CLOCK_MONOTONIC, &deadline), 0);
    else
        IS(pthread_mutex_lock(&disturbed->mutex), 0);
    CHECK(atomic_load(&disturbed->released));
    IS(pthread_mutex_unlock(&disturbed->mutex), 0);
    atomic_store(&disturbed->done, 1);
    return NULL;
}

static void signals_do_not_end_a_wait(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 2 * KIND_COUNT; i++) {
        struct disturbed disturbed = {.timed = i % 2};
        init_kind(&disturbed.mutex, KINDS[i / 2].type);
        IS(pthread_mutex_lock(&disturbed.mutex), 0);
        pthread_t waiter = start(waits_undisturbed, &disturbed);
        until(&disturbed.waiting, 1);
        int before = atomic_load(&handled);
        for (int round = 0; round < 20; round++) {
            IS(pthread_kill(waiter, SIGUSR1), 0);
            sleep_us(300);
        }
        while (atomic_load(&handled) == before)
            sleep_us(100);
        CHECK(!atomic_load(&disturbed.done));
        atomic_store(&disturbed.released, 1);
        IS(pthread_mutex_unlock(&disturbed.mutex), 0);
        join(waiter);
        // A deadline is kept under signals as well.
        IS(pthread_mutex_lock(&disturbed.mutex), 0);
        pthread_t expiring = start(expires, &disturbed.mutex);
        for (int round = 0; round < 10; round++) {
            IS(pthread_kill(expiring, SIGUSR1), 0);
            sleep_us(300);
        }
        join(expiring);
        IS(pthread_mutex_unlock(&disturbed.mutex), 0);
    }
}

PROBES(P(timedlock_expires_not_early), P(timedlock_bad_nanoseconds), P(deadlines_in_the_past),
       P(clocklock_invalid_clock), P(timedlock_acquires_on_release), P(timeouts_race_with_releases),
       P(signals_do_not_end_a_wait))
