// What must reach the C library untouched: mutexes and condition variables shared by processes, robust mutexes, those
// that inherit or protect priorities. And forks while mutexes are held and waited for.
#include "lock_probe.h"

static void *common_page(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

#define UPDATES 20000

static void update(void *argument) {
    struct owned *owned = argument;
    for (int i = 0; i < UPDATES; i++) {
        IS(pthread_mutex_lock(&owned->mutex), 0);
        enter(owned);
        if (i % 100 == 0)
            sched_yield();
        leave(owned);
        IS(pthread_mutex_unlock(&owned->mutex), 0);
    }
}

static void *update_thread(void *argument) {
    update(argument);
    return NULL;
}

static void processes_lose_no_updates(void) {
    for (int robust = 0; robust < 2; robust++) {
        struct owned *owned = common_page();
        init_with(&owned->mutex, PTHREAD_PROCESS_SHARED, robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED,
                  PTHREAD_PRIO_NONE);
        pid_t children[3];
        for (int i = 0; i < 3; i++)
            children[i] = child(update, owned);
        run_all(2, update_thread, owned);
        for (int i = 0; i < 3; i++)
            reap(children[i]);
        CHECK(owned->count == 5L * UPDATES);
        IS(pthread_mutex_destroy(&owned->mutex), 0);
    }
}

struct table {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn;
};

static void take_turns(struct table *table, int mine) {
    for (int round = 0; round < 1000; round++) {
        IS(pthread_mutex_lock(&table->mutex), 0);
        while (table->turn != mine) {
            struct timespec deadline = after_ns(CLOCK_MONOTONIC, 40000 * MS);
            IS(round % 2 ? pthread_cond_wait(&table->cond, &table->mutex)
                         : pthread_cond_timedwait(&table->cond, &table->mutex, &deadline),
               0);
        }
        table->turn = (mine + 1) % 3;
        IS(pthread_cond_broadcast(&table->cond), 0);
        IS(pthread_mutex_unlock(&table->mutex), 0);
    }
}

static void first_turns(void *table) {
    take_turns(table, 0);
}

static void second_turns(void *table) {
    take_turns(table, 1);
}

static void condition_variable_across_processes(void) {
    struct table *table = common_page();
    init_with(&table->mutex, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    pthread_condattr_t attributes;
    IS(pthread_condattr_init(&attributes), 0);
    IS(pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    IS(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC), 0);
    IS(pthread_cond_init(&table->cond, &attributes), 0);
    pid_t first = child(first_turns, table), second = child(second_turns, table);
    take_turns(table, 2);
    reap(first);
    reap(second);
    IS(pthread_cond_destroy(&table->cond), 0);
}

static void *die_holding(void *mutex) {
    IS(pthread_mutex_lock(mutex), 0);
    return NULL;
}

static void robust_owner_died(void) {
    pthread_mutex_t mutex;
    struct timespec later = after_ns(CLOCK_REALTIME, 40000 * MS), monotonic = after_ns(CLOCK_MONOTONIC, 40000 * MS);
    init_with(&mutex, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
    for (int how = 0; how < 4; how++) {
        join(start(die_holding, &mutex));
        IS(how == 0   ? pthread_mutex_lock(&mutex)
           : how == 1 ? pthread_mutex_trylock(&mutex)
           : how == 2 ? pthread_mutex_timedlock(&mutex, &later)
                      : pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &monotonic),
           EOWNERDEAD);
        IS(pthread_mutex_consistent(&mutex), 0);
        IS(pthread_mutex_unlock(&mutex), 0);
        IS(pthread_mutex_lock(&mutex), 0);
        IS(elsewhere(pthread_mutex_trylock, &mutex), EBUSY);
        IS(pthread_mutex_unlock(&mutex), 0);
    }
    join(start(die_holding, &mutex));
    IS(pthread_mutex_lock(&mutex), EOWNERDEAD);
    IS(pthread_mutex_unlock(&mutex), 0);
    IS(pthread_mutex_lock(&mutex), ENOTRECOVERABLE);
    IS(pthread_mutex_trylock(&mutex), ENOTRECOVERABLE);
    IS(pthread_mutex_destroy(&mutex), 0);
}

struct robust_pair {
    pthread_mutex_t mutex;
    atomic_int held;
};

static void hold_until_killed(void *argument) {
    struct robust_pair *pair = argument;
    IS(pthread_mutex_lock(&pair->mutex), 0);
    atomic_store(&pair->held, 1);
    for (;;)
        pause();
}

static void robust_across_processes(void) {
    struct robust_pair *pair = common_page();
    init_with(&pair->mutex, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
    for (int round = 0; round < 5; round++) {
        atomic_store(&pair->held, 0);
        pid_t holder = child(hold_until_killed, pair);
        until(&pair->held, 1);
        IS(pthread_mutex_trylock(&pair->mutex), EBUSY);
        CHECK(kill(holder, SIGKILL) == 0 && waitpid(holder, NULL, 0) == holder);
        IS(pthread_mutex_lock(&pair->mutex), EOWNERDEAD);
        IS(pthread_mutex_consistent(&pair->mutex), 0);
        IS(pthread_mutex_unlock(&pair->mutex), 0);
    }
}

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int waiting;
} left = {.cond = PTHREAD_COND_INITIALIZER};

static void *wait_for_the_dead(void *unused) {
    (void)unused;
    IS(pthread_mutex_lock(&left.mutex), 0);
    left.waiting = 1;
    int result;
    while ((result = pthread_cond_wait(&left.cond, &left.mutex)) == 0)
        ;
    IS(result, EOWNERDEAD);
    IS(pthread_mutex_consistent(&left.mutex), 0);
    IS(pthread_mutex_unlock(&left.mutex), 0);
    return NULL;
}

static void *signal_and_die(void *unused) {
    (void)unused;
    IS(pthread_mutex_lock(&left.mutex), 0);
    IS(pthread_cond_signal(&left.cond), 0);
    return NULL;
}

static void robust_in_a_wait(void) {
    init_with(&left.mutex, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
    pthread_t waiter = start(wait_for_the_dead, NULL);
    until_under(&left.mutex, &left.waiting, 1);
    join(start(signal_and_die, NULL));
    join(waiter);
    IS(pthread_mutex_lock(&left.mutex), 0);
    IS(pthread_mutex_unlock(&left.mutex), 0);
}

static void priority_inheritance(void) {
    struct owned owned = {.count = 0};
    int ceiling;
    init_with(&owned.mutex, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
    IS(pthread_mutex_lock(&owned.mutex), 0);
    // The kernel can only lend a priority to an owner that the futex names.
    CHECK((owned.mutex.__data.__lock & 0x3fffffff) == gettid());
    IS(pthread_mutex_getprioceiling(&owned.mutex, &ceiling), EINVAL);
    IS(elsewhere(pthread_mutex_trylock, &owned.mutex), EBUSY);
    IS(pthread_mutex_unlock(&owned.mutex), 0);
    run_all(4, update_thread, &owned);
    CHECK(owned.count == 4L * UPDATES);
    IS(pthread_mutex_destroy(&owned.mutex), 0);
}

static void priority_ceiling(void) {
    pthread_mutex_t mutex;
    int ceiling;
    pthread_mutexattr_t attributes;
    IS(pthread_mutexattr_init(&attributes), 0);
    IS(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT), 0);
    IS(pthread_mutexattr_setprioceiling(&attributes, 20), 0);
    IS(pthread_mutex_init(&mutex, &attributes), 0);
    IS(pthread_mutex_getprioceiling(&mutex, &ceiling), 0);
    CHECK(ceiling == 20);
    struct sched_param base = {.sched_priority = 10}, high = {.sched_priority = 40}, low = {.sched_priority = 0};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &base) == EPERM)
        SKIP("no right to a real-time priority");
    IS(pthread_mutex_lock(&mutex), 0);
    // The kernel's own word for it: the owner runs at the ceiling.
    struct sched_param now;
    CHECK(sched_getparam(0, &now) == 0 && now.sched_priority == 20);
    IS(elsewhere(pthread_mutex_trylock, &mutex), EBUSY);
    IS(pthread_mutex_unlock(&mutex), 0);
    CHECK(sched_getparam(0, &now) == 0 && now.sched_priority == 10);
    int before;
    IS(pthread_mutex_setprioceiling(&mutex, 30, &before), 0);
    CHECK(before == 20);
    IS(pthread_mutex_getprioceiling(&mutex, &ceiling), 0);
    CHECK(ceiling == 30);
    // Above its ceiling no thread may lock it.
    IS(pthread_setschedparam(pthread_self(), SCHED_FIFO, &high), 0);
    IS(pthread_mutex_lock(&mutex), EINVAL);
    IS(pthread_setschedparam(pthread_self(), SCHED_FIFO, &base), 0);
    IS(pthread_mutex_lock(&mutex), 0);
    IS(pthread_mutex_unlock(&mutex), 0);
    IS(pthread_setschedparam(pthread_self(), SCHED_OTHER, &low), 0);
    IS(pthread_mutex_destroy(&mutex), 0);
}

/* Those that know their owner (recursive, error-checking) do not know it in a child, whose thread has another number:
 * there the C library cannot release them, so only the others go over a fork. */
static const int FORKED[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_NORMAL};
#define FORKED_COUNT 3
static struct owned forked[FORKED_COUNT];
static atomic_int over;

static void take_all(void) {
    for (int i = 0; i < FORKED_COUNT; i++)
        IS(pthread_mutex_lock(&forked[i].mutex), 0);
}

static void release_all(void) {
    for (int i = FORKED_COUNT; i-- > 0;)
        IS(pthread_mutex_unlock(&forked[i].mutex), 0);
}

static void *hammer(void *unused) {
    (void)unused;
    for (int round = 0; !atomic_load(&over); round++)
        hold_us(&forked[round % FORKED_COUNT], round % 8 < 4 ? 50 : 0);
    return NULL;
}

static void *lock_a_while(void *argument) {
    for (int round = 0; round < 50; round++)
        hold_us(argument, round == 0 ? 2000 : 0);
    return NULL;
}

/* What a child does with the mutexes of its parent, whose waiters are not in it. */
static void go_on(void *unused) {
    (void)unused;
    for (int i = 0; i < FORKED_COUNT; i++) {
        pthread_t threads[3];
        start_all(threads, 3, lock_a_while, &forked[i]);
        lock_a_while(&forked[i]);
        join_all(threads, 3);
        IS(pthread_mutex_destroy(&forked[i].mutex), 0);
    }
}

static void fork_while_others_hold(void) {
    for (int i = 0; i < FORKED_COUNT; i++)
        init_kind(&forked[i].mutex, FORKED[i]);
    IS(pthread_atfork(take_all, release_all, release_all), 0);
    pthread_t threads[6];
    start_all(threads, 6, hammer, NULL);
    for (int round = 0; round < 15; round++) {
        reap(child(go_on, NULL));
        sleep_us(300);
    }
    atomic_store(&over, 1);
    join_all(threads, 6);
}

static void fork_by_the_holder_while_others_wait(void) {
    for (int i = 0; i < FORKED_COUNT; i++)
        init_kind(&forked[i].mutex, FORKED[i]);
    for (int round = 0; round < 12; round++) {
        take_all();
        pthread_t threads[2 * FORKED_COUNT];
        for (int i = 0; i < 2 * FORKED_COUNT; i++)
            threads[i] = start(lock_a_while, &forked[i % FORKED_COUNT]);
        // Some of them spin, some sleep, some have waited for longer than a window.
        sleep_us(round % 4 * 1200);
        pid_t pid = fork();
        CHECK(pid >= 0);
        release_all();
        if (pid == 0) {
            set_alarm();
            go_on(NULL);
            _exit(0);
        }
        join_all(threads, 2 * FORKED_COUNT);
        reap(pid);
    }
}

static void *fork_often(void *unused) {
    (void)unused;
    for (int round = 0; round < 25; round++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            // Only mutexes of its own, condition variables and memory: those of others may be held for ever.
            set_alarm();
            pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
            pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
            IS(pthread_mutex_lock(&mutex), 0);
            struct timespec soon = after_ns(CLOCK_REALTIME, MS);
            int result = pthread_cond_timedwait(&cond, &mutex, &soon);
            CHECK(result == ETIMEDOUT || result == 0);
            IS(pthread_mutex_unlock(&mutex), 0);
            free(malloc(1000));
            _exit(0);
        }
        reap(pid);
    }
    return NULL;
}

/* Threads fork while others lock, none of them with handlers. */
static void fork_from_threads_among_locks(void) {
    for (int i = 0; i < FORKED_COUNT; i++)
        init_kind(&forked[i].mutex, FORKED[i]);
    pthread_t threads[4], forkers[2];
    start_all(threads, 4, hammer, NULL);
    start_all(forkers, 2, fork_often, NULL);
    join_all(forkers, 2);
    atomic_store(&over, 1);
    join_all(threads, 4);
}

PROBES(P(processes_lose_no_updates), P(condition_variable_across_processes), P(robust_owner_died),
       P(robust_across_processes), P(robust_in_a_wait), P(priority_inheritance), P(priority_ceiling),
       P(fork_while_others_hold), P(fork_by_the_holder_while_others_wait), P(fork_from_threads_among_locks))
