// Exclusion, conditions and forks beneath pthread mutexes, checked by what the holders see. More threads than CPUs.
//
// Each check ends the program with the line that failed. No check is about time, but for waits that must end at all.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            _Exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

enum { THREADS = 6, ROUNDS = 100, TURNS = 30 };

// What a mutex protects: its holder, plainly written, and a count in two halves that must agree.
struct owned {
    pthread_mutex_t mutex;
    volatile long owner;
    volatile long count, mirror;
};

static void enter(struct owned *owned, long me) {
    CHECK(owned->owner == 0 && owned->count == owned->mirror);
    owned->owner = me;
    owned->count++;
}

static void leave(struct owned *owned, long me) {
    owned->mirror++;
    CHECK(owned->owner == me && owned->count == owned->mirror);
    owned->owner = 0;
}

static struct timespec after_s(clockid_t clock, time_t seconds) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += seconds;
    return time;
}

static void init(pthread_mutex_t *mutex, int type) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0 && pthread_mutexattr_settype(&attributes, type) == 0);
    CHECK(pthread_mutex_init(mutex, &attributes) == 0);
    CHECK(pthread_mutexattr_destroy(&attributes) == 0);
}

static void run(unsigned threads, void *(*routine)(void *), void *argument) {
    pthread_t all[16];
    for (unsigned i = 0; i < threads; i++)
        CHECK(pthread_create(&all[i], NULL, routine, argument) == 0);
    for (unsigned i = 0; i < threads; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

static void *contend(void *argument) {
    struct owned *owned = argument;
    long me = (long)&owned + 1;
    unsigned seed = (unsigned)me;
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned how = rand_r(&seed) % 8;
        if (how == 0) {
            int result;
            while ((result = pthread_mutex_trylock(&owned->mutex)) != 0) {
                CHECK(result == EBUSY);
                sched_yield();
            }
        } else if (how == 1) {
            struct timespec time = after_s(CLOCK_REALTIME, 600);
            CHECK(pthread_mutex_timedlock(&owned->mutex, &time) == 0);
        } else if (how == 2) {
            struct timespec time = after_s(CLOCK_MONOTONIC, 600);
            CHECK(pthread_mutex_clocklock(&owned->mutex, CLOCK_MONOTONIC, &time) == 0);
        } else {
            CHECK(pthread_mutex_lock(&owned->mutex) == 0);
        }
        enter(owned, me);
        if (how == 3)
            sched_yield();
        leave(owned, me);
        CHECK(pthread_mutex_unlock(&owned->mutex) == 0);
        if (how >= 6)
            sched_yield();
    }
    return NULL;
}

static struct owned fixed = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void exclusion(void) {
    run(THREADS, contend, &fixed);
    CHECK(fixed.count == THREADS * ROUNDS);
    int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
    for (unsigned i = 0; i < 4; i++) {
        struct owned *owned = calloc(1, sizeof *owned);
        init(&owned->mutex, types[i]);
        run(THREADS, contend, owned);
        CHECK(owned->count == THREADS * ROUNDS);
        CHECK(pthread_mutex_destroy(&owned->mutex) == 0);
        free(owned);
    }
}

// What each kind promises its owner, and what a mutex says while another thread has it.
static void *meet(void *argument) {
    pthread_mutex_t *mutex = argument;
    struct timespec past = {1, 0}, wrong = {1, 1000000000};
    CHECK(pthread_mutex_trylock(mutex) == EBUSY);
    CHECK(pthread_mutex_timedlock(mutex, &past) == ETIMEDOUT);
    CHECK(pthread_mutex_timedlock(mutex, &wrong) == EINVAL);
    CHECK(pthread_mutex_destroy(mutex) == EBUSY);
    return NULL;
}

static void kinds(void) {
    pthread_mutex_t mutex;
    init(&mutex, PTHREAD_MUTEX_RECURSIVE);
    for (unsigned i = 0; i < 3; i++)
        CHECK((i == 1 ? pthread_mutex_trylock(&mutex) : pthread_mutex_lock(&mutex)) == 0);
    for (unsigned i = 0; i < 3; i++) {
        run(1, meet, &mutex);
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    CHECK(pthread_mutex_unlock(&mutex) == EPERM);
    CHECK(pthread_mutex_destroy(&mutex) == 0);
    init(&mutex, PTHREAD_MUTEX_ERRORCHECK);
    CHECK(pthread_mutex_unlock(&mutex) == EPERM);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_mutex_lock(&mutex) == EDEADLK && pthread_mutex_trylock(&mutex) == EBUSY);
    struct timespec time = after_s(CLOCK_REALTIME, 600);
    CHECK(pthread_mutex_timedlock(&mutex, &time) == EDEADLK);
    run(1, meet, &mutex);
    CHECK(pthread_mutex_unlock(&mutex) == 0 && pthread_mutex_destroy(&mutex) == 0);
    // Locks held at once, and released in the order in which they were taken.
    enum { MANY = 3000 };
    pthread_mutex_t *many = calloc(MANY, sizeof *many);
    for (unsigned i = 0; i < MANY; i++)
        CHECK(pthread_mutex_lock(&many[i]) == 0);
    for (unsigned i = 0; i < MANY; i++)
        CHECK(pthread_mutex_unlock(&many[i]) == 0 && pthread_mutex_destroy(&many[i]) == 0);
    free(many);
}

// Threads take turns by one condition variable each, and by one for all.
struct turns {
    pthread_mutex_t mutex;
    pthread_cond_t each[THREADS], all;
    unsigned turn, done;
    atomic_uint next;
};

static void *take_turns(void *argument) {
    struct turns *turns = argument;
    unsigned me = atomic_fetch_add(&turns->next, 1);
    CHECK(pthread_mutex_lock(&turns->mutex) == 0);
    for (unsigned round = 0; round < TURNS; round++) {
        while (turns->turn % THREADS != me) {
            int result = 0;
            if (round % 3 == 0) {
                CHECK(pthread_cond_wait(&turns->each[me], &turns->mutex) == 0);
            } else if (round % 3 == 1) {
                struct timespec time = after_s(CLOCK_REALTIME, 600);
                result = pthread_cond_timedwait(&turns->each[me], &turns->mutex, &time);
            } else {
                struct timespec time = after_s(CLOCK_MONOTONIC, 600);
                result = pthread_cond_clockwait(&turns->each[me], &turns->mutex, CLOCK_MONOTONIC, &time);
            }
            CHECK(result == 0);
        }
        turns->turn++;
        CHECK(pthread_cond_signal(&turns->each[turns->turn % THREADS]) == 0);
    }
    turns->done++;
    CHECK(pthread_cond_broadcast(&turns->all) == 0);
    while (turns->done < THREADS)
        CHECK(pthread_cond_wait(&turns->all, &turns->mutex) == 0);
    CHECK(pthread_mutex_unlock(&turns->mutex) == 0);
    return NULL;
}

static void conditions(void) {
    int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE};
    for (unsigned i = 0; i < 2; i++) {
        struct turns turns = {.turn = 0};
        init(&turns.mutex, types[i]);
        pthread_condattr_t attributes;
        CHECK(pthread_condattr_init(&attributes) == 0);
        for (unsigned j = 0; j < THREADS; j++)
            CHECK(pthread_cond_init(&turns.each[j], &attributes) == 0);
        CHECK(pthread_cond_init(&turns.all, NULL) == 0);
        run(THREADS, take_turns, &turns);
        CHECK(turns.turn == THREADS * TURNS);
        for (unsigned j = 0; j < THREADS; j++)
            CHECK(pthread_cond_destroy(&turns.each[j]) == 0);
        CHECK(pthread_cond_destroy(&turns.all) == 0 && pthread_mutex_destroy(&turns.mutex) == 0);
    }
    // By each clock a wait without a signal ends, with the mutex held.
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    for (unsigned i = 0; i < 2; i++) {
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_cond_t variable;
        pthread_condattr_t attributes;
        CHECK(pthread_condattr_init(&attributes) == 0 && pthread_condattr_setclock(&attributes, clocks[i]) == 0);
        CHECK(pthread_cond_init(&variable, &attributes) == 0);
        struct timespec time, wrong = {1, -1};
        clock_gettime(clocks[i], &time);
        time.tv_nsec += time.tv_nsec < 990000000 ? 5000000 : 0;
        CHECK(pthread_mutex_lock(&mutex) == 0);
        CHECK(pthread_cond_timedwait(&variable, &mutex, &time) == ETIMEDOUT);
        CHECK(pthread_cond_timedwait(&variable, &mutex, &wrong) == EINVAL);
        CHECK(pthread_mutex_trylock(&mutex) == EBUSY && pthread_mutex_unlock(&mutex) == 0);
        CHECK(pthread_cond_destroy(&variable) == 0);
    }
}

// A child goes on with the mutex that its parent held for it, while other threads wait for that mutex in the parent.
static struct owned forked = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t elsewhere = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool forks_over;

static void *wait_beside_forks(void *argument) {
    (void)argument;
    long me = (long)&argument;
    while (!forks_over) {
        CHECK(pthread_mutex_lock(&forked.mutex) == 0);
        enter(&forked, me);
        leave(&forked, me);
        CHECK(pthread_mutex_unlock(&forked.mutex) == 0);
        sched_yield();
    }
    return NULL;
}

static void before_fork(void) {
    CHECK(pthread_mutex_lock(&forked.mutex) == 0);
}

static void after_fork(void) {
    CHECK(pthread_mutex_unlock(&forked.mutex) == 0);
}

static void forks(void) {
    CHECK(pthread_atfork(before_fork, after_fork, after_fork) == 0);
    CHECK(pthread_mutex_lock(&elsewhere) == 0 && pthread_mutex_unlock(&elsewhere) == 0);
    pthread_t waiters[3];
    for (unsigned i = 0; i < 3; i++)
        CHECK(pthread_create(&waiters[i], NULL, wait_beside_forks, NULL) == 0);
    for (unsigned i = 0; i < 8; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            forked.owner = 0;
            forked.mirror = forked.count;
            run(2, contend, &forked);
            CHECK(pthread_mutex_lock(&elsewhere) == 0 && pthread_mutex_unlock(&elsewhere) == 0);
            _Exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    forks_over = true;
    for (unsigned i = 0; i < 3; i++)
        CHECK(pthread_join(waiters[i], NULL) == 0);
}

// What is the C library's keeps working: a mutex and a condition variable that two processes share.
#include <sys/mman.h>

static void shared(void) {
    struct both {
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        int value;
    } *both = mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(both != MAP_FAILED);
    pthread_mutexattr_t mutex;
    pthread_condattr_t changed;
    CHECK(pthread_mutexattr_init(&mutex) == 0 && pthread_condattr_init(&changed) == 0);
    CHECK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_condattr_setpshared(&changed, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&both->mutex, &mutex) == 0 && pthread_cond_init(&both->changed, &changed) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(pthread_mutex_lock(&both->mutex) == 0);
        both->value = 1;
        CHECK(pthread_cond_broadcast(&both->changed) == 0);
        _Exit(0); // with the mutex held: it is robust
    }
    int result = pthread_mutex_lock(&both->mutex);
    while (result == 0 && both->value == 0)
        result = pthread_cond_wait(&both->changed, &both->mutex);
    if (result == EOWNERDEAD)
        CHECK(pthread_mutex_consistent(&both->mutex) == 0);
    else
        CHECK(result == 0);
    CHECK(both->value == 1 && pthread_mutex_unlock(&both->mutex) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"exclusion", exclusion}, {"kinds", kinds}, {"conditions", conditions}, {"forks", forks}, {"shared", shared}};
    CHECK(argc == 2);
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].name, argv[1]) == 0) {
            parts[i].run();
            puts("well");
            return 0;
        }
    CHECK(!"a part");
}
