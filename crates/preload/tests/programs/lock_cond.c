// Condition variables: who is woken, by which clock a wait ends, and that the mutex is held again afterwards.
#include "lock_probe.h"

static void signal_wakes(void) {
    for (int round = 0; round < 50; round++) {
        struct gate gate = GATE;
        pthread_t threads[4];
        start_all(threads, 4, wait_at, &gate);
        until_waiting(&gate, 4);
        for (int i = 0; i < 4; i++) {
            open_for(&gate, 1);
            IS(pthread_cond_signal(&gate.cond), 0);
        }
        join_all(threads, 4);
        CHECK(gate.passed == 4 && gate.open == 0);
        IS(pthread_cond_destroy(&gate.cond), 0);
    }
}

static void broadcast_wakes_all(void) {
    for (int round = 0; round < 10; round++) {
        struct gate gate = GATE;
        pthread_t threads[100];
        start_all(threads, 100, wait_at, &gate);
        until_waiting(&gate, 100);
        open_for(&gate, 100);
        IS(pthread_cond_broadcast(&gate.cond), 0);
        join_all(threads, 100);
        CHECK(gate.passed == 100);
    }
}

static void zero_filled_and_reinitialised(void) {
    struct gate *gate = calloc(1, sizeof *gate);
    for (int round = 0; round < 20; round++) {
        if (round % 2)
            memset(gate, 0, sizeof *gate);
        else
            IS(pthread_cond_init(&gate->cond, NULL), 0);
        gate->waiting = 0;
        pthread_t thread = start(wait_at, gate);
        until_waiting(gate, 1);
        open_for(gate, 1);
        IS(pthread_cond_signal(&gate->cond), 0);
        join(thread);
        IS(pthread_cond_destroy(&gate->cond), 0);
    }
}

static void signals_are_not_remembered(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    IS(pthread_mutex_lock(&mutex), 0);
    for (int i = 0; i < 10; i++) {
        IS(pthread_cond_signal(&cond), 0);
        IS(pthread_cond_broadcast(&cond), 0);
    }
    struct timespec deadline = after_ns(CLOCK_REALTIME, 3 * MS);
    int result;
    // A wait may end without reason, but not for ever.
    while ((result = pthread_cond_timedwait(&cond, &mutex, &deadline)) == 0)
        CHECK(!is_over(CLOCK_REALTIME, &deadline));
    CHECK(result == ETIMEDOUT);
    IS(pthread_mutex_unlock(&mutex), 0);
}

static int waits_until(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, int by_clock, long ns) {
    struct timespec deadline = after_ns(clock, ns);
    int result;
    do
        result = by_clock ? pthread_cond_clockwait(cond, mutex, clock, &deadline)
                          : pthread_cond_timedwait(cond, mutex, &deadline);
    while (result == 0 && !is_over(clock, &deadline));
    if (result == ETIMEDOUT && !is_over(clock, &deadline))
        FAIL("a wait ended %s", "before its deadline");
    return result;
}

static void timedwait_expires_with_the_mutex_held(void) {
    pthread_mutex_t mutex;
    init_kind(&mutex, PTHREAD_MUTEX_ERRORCHECK);
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    IS(pthread_mutex_lock(&mutex), 0);
    for (int round = 0; round < 5; round++) {
        IS(waits_until(&cond, &mutex, CLOCK_REALTIME, 0, round * MS), ETIMEDOUT);
        IS(pthread_mutex_lock(&mutex), EDEADLK);
        IS(elsewhere(pthread_mutex_trylock, &mutex), EBUSY);
    }
    IS(pthread_mutex_unlock(&mutex), 0);
    IS(pthread_mutex_destroy(&mutex), 0);
    IS(pthread_cond_destroy(&cond), 0);
}

static void attribute_clock_is_kept(void) {
    pthread_condattr_t attributes;
    clockid_t clock;
    int shared;
    IS(pthread_condattr_init(&attributes), 0);
    IS(pthread_condattr_getclock(&attributes, &clock), 0);
    CHECK(clock == CLOCK_REALTIME);
    IS(pthread_condattr_setclock(&attributes, CLOCK_PROCESS_CPUTIME_ID), EINVAL);
    IS(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC), 0);
    IS(pthread_condattr_getclock(&attributes, &clock), 0);
    CHECK(clock == CLOCK_MONOTONIC);
    IS(pthread_condattr_getpshared(&attributes, &shared), 0);
    CHECK(shared == PTHREAD_PROCESS_PRIVATE);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    IS(pthread_cond_init(&cond, &attributes), 0);
    IS(pthread_condattr_destroy(&attributes), 0);
    IS(pthread_mutex_lock(&mutex), 0);
    IS(waits_until(&cond, &mutex, CLOCK_MONOTONIC, 0, 3 * MS), ETIMEDOUT);
    // The time since 1970 is far in the future of the other clock: who mixes them up sleeps for years.
    IS(waits_until(&cond, &mutex, CLOCK_REALTIME, 1, 3 * MS), ETIMEDOUT);
    IS(waits_until(&cond, &mutex, CLOCK_MONOTONIC, 0, -1 * MS), ETIMEDOUT);
    IS(pthread_mutex_unlock(&mutex), 0);
    IS(pthread_cond_destroy(&cond), 0);
}

static void clockwait_by_both_clocks(void) {
    pthread_mutex_t mutex;
    init_kind(&mutex, PTHREAD_MUTEX_ERRORCHECK);
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    IS(pthread_mutex_lock(&mutex), 0);
    for (int round = 0; round < 6; round++) {
        IS(waits_until(&cond, &mutex, round % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC, 1, round * MS / 2), ETIMEDOUT);
        IS(pthread_mutex_trylock(&mutex), EBUSY);
    }
    struct timespec deadline = after_ns(CLOCK_REALTIME, MS), bad[] = {{0, -1}, {0, 1000000000}};
    IS(pthread_cond_clockwait(&cond, &mutex, CLOCK_PROCESS_CPUTIME_ID, &deadline), EINVAL);
    IS(pthread_cond_clockwait(&cond, &mutex, 77, &deadline), EINVAL);
    for (int i = 0; i < 2; i++) {
        IS(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &bad[i]), EINVAL);
        IS(pthread_cond_timedwait(&cond, &mutex, &bad[i]), EINVAL);
    }
    // What is refused has not released the mutex.
    IS(pthread_mutex_unlock(&mutex), 0);
}

static void *pass_by_clock(void *argument) {
    struct gate *gate = argument;
    IS(pthread_mutex_lock(&gate->mutex), 0);
    clockid_t clock = gate->waiting++ % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    struct timespec deadline = after_ns(clock, 40000 * MS);
    while (gate->open == 0)
        IS(pthread_cond_clockwait(&gate->cond, &gate->mutex, clock, &deadline), 0);
    gate->open--;
    gate->passed++;
    IS(pthread_mutex_unlock(&gate->mutex), 0);
    return NULL;
}

static void clockwait_releases_the_mutex_and_is_woken(void) {
    for (int round = 0; round < 20; round++) {
        struct gate gate = GATE;
        pthread_t threads[6];
        start_all(threads, 6, pass_by_clock, &gate);
        until_waiting(&gate, 6);
        open_for(&gate, 6);
        for (int i = 0; i < 6; i++)
            IS(pthread_cond_signal(&gate.cond), 0);
        join_all(threads, 6);
        CHECK(gate.passed == 6);
    }
}

static void any_kind_of_mutex(void) {
    for (int i = 0; i < KIND_COUNT; i++) {
        struct gate gate = {.cond = PTHREAD_COND_INITIALIZER};
        // Recursive ones at depth one: what a deeper one means is not defined.
        init_kind(&gate.mutex, KINDS[i].type);
        pthread_t threads[5];
        start_all(threads, 5, wait_at, &gate);
        until_waiting(&gate, 5);
        open_for(&gate, 5);
        IS(pthread_cond_broadcast(&gate.cond), 0);
        join_all(threads, 5);
        CHECK(gate.passed == 5);
        IS(pthread_mutex_destroy(&gate.mutex), 0);
    }
}

static void mutex_that_is_not_held(void) {
    pthread_mutex_t mutex;
    init_kind(&mutex, PTHREAD_MUTEX_ERRORCHECK);
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    struct timespec deadline = after_ns(CLOCK_REALTIME, 5 * MS);
    IS(pthread_cond_wait(&cond, &mutex), EPERM);
    IS(pthread_cond_timedwait(&cond, &mutex, &deadline), EPERM);
    // And the failed wait counts as none.
    struct gate gate = {.cond = cond};
    init_kind(&gate.mutex, PTHREAD_MUTEX_ERRORCHECK);
    pthread_t thread = start(wait_at, &gate);
    until_waiting(&gate, 1);
    open_for(&gate, 1);
    IS(pthread_cond_signal(&gate.cond), 0);
    join(thread);
}

static void *wait_and_leave(void *argument) {
    struct gate *gate = argument;
    pthread_mutex_t *mutex = &gate->mutex;
    IS(pthread_mutex_lock(mutex), 0);
    gate->waiting++;
    // The flag lies elsewhere than the condition variable, which is gone by the time of a second look.
    while (gate->open == 0)
        IS(pthread_cond_wait(*(pthread_cond_t **)(gate + 1), mutex), 0);
    IS(pthread_mutex_unlock(mutex), 0);
    return NULL;
}

static void freed_right_after_broadcast(void) {
    struct {
        struct gate gate;
        pthread_cond_t *cond;
    } place;
    for (int round = 0; round < 300; round++) {
        memset(&place, 0, sizeof place);
        place.cond = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(place.cond != MAP_FAILED);
        IS(pthread_cond_init(place.cond, NULL), 0);
        pthread_t threads[4];
        start_all(threads, 4, wait_and_leave, &place.gate);
        until_waiting(&place.gate, 4);
        IS(pthread_mutex_lock(&place.gate.mutex), 0);
        place.gate.open = 1;
        IS(pthread_cond_broadcast(place.cond), 0);
        if (round % 2)
            IS(pthread_mutex_unlock(&place.gate.mutex), 0);
        IS(pthread_cond_destroy(place.cond), 0);
        CHECK(munmap(place.cond, 4096) == 0);
        if (round % 2 == 0)
            IS(pthread_mutex_unlock(&place.gate.mutex), 0);
        join_all(threads, 4);
    }
}

#define ITEMS 30000
#define ROOM 8

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    int items[ROOM], head, count, next, taken;
    char seen[ITEMS];
} belt = {.mutex = PTHREAD_MUTEX_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER, .not_full = PTHREAD_COND_INITIALIZER};

static void *produce(void *unused) {
    (void)unused;
    for (;;) {
        IS(pthread_mutex_lock(&belt.mutex), 0);
        while (belt.count == ROOM && belt.next < ITEMS)
            IS(pthread_cond_wait(&belt.not_full, &belt.mutex), 0);
        int over = belt.next >= ITEMS;
        if (!over)
            belt.items[(belt.head + belt.count++) % ROOM] = belt.next++;
        IS(over ? pthread_cond_broadcast(&belt.not_full) : pthread_cond_signal(&belt.not_empty), 0);
        IS(pthread_mutex_unlock(&belt.mutex), 0);
        if (over)
            return NULL;
    }
}

static void *consume(void *unused) {
    (void)unused;
    for (;;) {
        IS(pthread_mutex_lock(&belt.mutex), 0);
        while (belt.count == 0 && belt.taken < ITEMS)
            IS(pthread_cond_wait(&belt.not_empty, &belt.mutex), 0);
        int over = belt.taken >= ITEMS;
        if (!over) {
            int item = belt.items[belt.head];
            belt.head = (belt.head + 1) % ROOM;
            belt.count--;
            CHECK(!belt.seen[item]);
            belt.seen[item] = 1;
            if (++belt.taken == ITEMS)
                IS(pthread_cond_broadcast(&belt.not_empty), 0);
        }
        IS(pthread_cond_signal(&belt.not_full), 0);
        IS(pthread_mutex_unlock(&belt.mutex), 0);
        if (over)
            return NULL;
    }
}

static void every_item_passes_once(void) {
    pthread_t threads[10];
    start_all(threads, 5, produce, NULL);
    start_all(threads + 5, 5, consume, NULL);
    join_all(threads, 10);
    CHECK(belt.taken == ITEMS && belt.count == 0);
}

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int tokens, taken, over;
} purse = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};

static void *take_tokens(void *patient) {
    unsigned seed = (unsigned)((size_t)&seed >> 12);
    IS(pthread_mutex_lock(&purse.mutex), 0);
    while (purse.tokens > 0 || !purse.over) {
        if (purse.tokens > 0) {
            purse.tokens--;
            purse.taken++;
        } else if (patient != NULL) {
            IS(pthread_cond_wait(&purse.cond, &purse.mutex), 0);
        } else {
            // About as long as it takes until the next signal.
            clockid_t clock = rand_r(&seed) % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
            struct timespec deadline = after_ns(clock, rand_r(&seed) % 200000);
            int result = pthread_cond_clockwait(&purse.cond, &purse.mutex, clock, &deadline);
            CHECK(result == 0 || (result == ETIMEDOUT && is_over(clock, &deadline)));
        }
    }
    IS(pthread_mutex_unlock(&purse.mutex), 0);
    return NULL;
}

static void timeouts_race_with_signals(void) {
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        threads[i] = start(take_tokens, i < 3 ? "patient" : NULL);
    for (int round = 0; round < 3000; round++) {
        IS(pthread_mutex_lock(&purse.mutex), 0);
        purse.tokens++;
        if (round % 2)
            IS(pthread_cond_signal(&purse.cond), 0);
        IS(pthread_mutex_unlock(&purse.mutex), 0);
        if (round % 2 == 0)
            IS(pthread_cond_signal(&purse.cond), 0);
        if (round % 16 == 0)
            sleep_us(rand() % 100);
        // One by one: a signal that is lost is not made up for by the next.
        for (int taken = 0; round % 8 == 0 && taken != round + 1; sched_yield()) {
            IS(pthread_mutex_lock(&purse.mutex), 0);
            taken = purse.taken;
            IS(pthread_mutex_unlock(&purse.mutex), 0);
        }
    }
    IS(pthread_mutex_lock(&purse.mutex), 0);
    purse.over = 1;
    IS(pthread_cond_broadcast(&purse.cond), 0);
    IS(pthread_mutex_unlock(&purse.mutex), 0);
    join_all(threads, 6);
    CHECK(purse.taken == 3000 && purse.tokens == 0);
}

static atomic_int handled;

static void on_signal(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void signals_do_not_end_a_wait_with_an_error(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    struct gate gate = GATE;
    pthread_t threads[2] = {start(wait_at, &gate), start(pass_by_clock, &gate)};
    until_waiting(&gate, 2);
    for (int round = 0; round < 40; round++) {
        IS(pthread_kill(threads[round % 2], SIGUSR1), 0);
        sleep_us(300);
    }
    while (atomic_load(&handled) == 0)
        sleep_us(100);
    CHECK(gate.passed == 0);
    open_for(&gate, 2);
    IS(pthread_cond_broadcast(&gate.cond), 0);
    join_all(threads, 2);
}

PROBES(P(signal_wakes), P(broadcast_wakes_all), P(zero_filled_and_reinitialised), P(signals_are_not_remembered),
       P(timedwait_expires_with_the_mutex_held), P(attribute_clock_is_kept), P(clockwait_by_both_clocks),
       P(clockwait_releases_the_mutex_and_is_woken), P(any_kind_of_mutex), P(mutex_that_is_not_held),
       P(freed_right_after_broadcast), P(timeouts_race_with_signals), P(every_item_passes_once),
       P(signals_do_not_end_a_wait_with_an_error))
