// One holder at a time, whatever the kind, the way of locking, the memory and the number of threads; and that an unlock
// touches nothing any more once the next owner can have the mutex.
#include "lock_probe.h"

#include <fcntl.h>

#define ROUNDS 4000

static void *contend(void *argument) {
    struct owned *owned = argument;
    unsigned seed = (unsigned)((size_t)&seed >> 12);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned how = rand_r(&seed) % 16;
        if (how == 0) {
            while (pthread_mutex_trylock(&owned->mutex) != 0)
                sched_yield();
        } else if (how == 1) {
            struct timespec deadline = after_ns(CLOCK_REALTIME, 40000 * MS);
            IS(pthread_mutex_timedlock(&owned->mutex, &deadline), 0);
        } else if (how == 2) {
            struct timespec deadline = after_ns(CLOCK_MONOTONIC, 40000 * MS);
            IS(pthread_mutex_clocklock(&owned->mutex, CLOCK_MONOTONIC, &deadline), 0);
        } else {
            IS(pthread_mutex_lock(&owned->mutex), 0);
        }
        enter(owned);
        if (how == 3)
            sched_yield();
        leave(owned);
        IS(pthread_mutex_unlock(&owned->mutex), 0);
    }
    return NULL;
}

static void exclusion(int type) {
    struct owned owned = {.count = 0};
    init_kind(&owned.mutex, type);
    run_all(16, contend, &owned);
    CHECK(owned.count == 16 * ROUNDS);
    IS(pthread_mutex_destroy(&owned.mutex), 0);
}

static void exclusion_normal(void) {
    exclusion(PTHREAD_MUTEX_NORMAL);
}

static void exclusion_recursive(void) {
    exclusion(PTHREAD_MUTEX_RECURSIVE);
}

static void exclusion_errorcheck(void) {
    exclusion(PTHREAD_MUTEX_ERRORCHECK);
}

static void exclusion_adaptive(void) {
    exclusion(PTHREAD_MUTEX_ADAPTIVE_NP);
}

static void *hold_long(void *argument) {
    for (int round = 0; round < 12; round++)
        hold_us(argument, 1500);
    return NULL;
}

/* Holds longer than any window: every waiter sleeps, is starving, and is handed the mutex. */
static void holds_longer_than_the_window(void) {
    for (int i = 0; i < KIND_COUNT; i++) {
        struct owned owned = {.count = 0};
        init_kind(&owned.mutex, KINDS[i].type);
        run_all(8, hold_long, &owned);
        CHECK(owned.count == 8 * 12);
        IS(pthread_mutex_destroy(&owned.mutex), 0);
    }
}

struct nested {
    struct owned owned;
    int depth;
};

static void *go_deep(void *argument) {
    struct nested *nested = argument;
    for (int round = 0; round < 500; round++) {
        int depth = 1 + round % 7;
        for (int i = 0; i < depth; i++) {
            IS(i % 3 == 2 ? pthread_mutex_trylock(&nested->owned.mutex) : pthread_mutex_lock(&nested->owned.mutex), 0);
            CHECK(nested->depth++ == i);
        }
        enter(&nested->owned);
        leave(&nested->owned);
        for (int i = depth; i > 0; i--) {
            CHECK(nested->depth-- == i);
            IS(pthread_mutex_unlock(&nested->owned.mutex), 0);
        }
    }
    return NULL;
}

static void recursion_under_contention(void) {
    struct nested nested = {.depth = 0};
    init_kind(&nested.owned.mutex, PTHREAD_MUTEX_RECURSIVE);
    run_all(8, go_deep, &nested);
    CHECK(nested.owned.count == 8 * 500 && nested.depth == 0);
}

static void memory_of_every_kind(void) {
    char name[] = "/tmp/lock-probe-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, 4096) == 0);
    struct owned on_stack = {.count = 0};
    struct owned *places[] = {
        &on_stack,
        calloc(1, sizeof(struct owned)),
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0),
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0),
    };
    for (int i = 0; i < 6; i++) {
        CHECK(places[i] != NULL && places[i] != MAP_FAILED);
        IS(pthread_mutex_init(&places[i]->mutex, NULL), 0);
        run_all(4, contend, places[i]);
        CHECK(places[i]->count == 4 * ROUNDS);
    }
}

/* A reference count in memory that the last owner gives back: an unlock that looked at the mutex after another
 * thread could have it would fault. */
struct counted {
    pthread_mutex_t mutex;
    int references;
};

static void *drop_reference(void *argument) {
    struct counted *counted = argument;
    IS(pthread_mutex_lock(&counted->mutex), 0);
    int last = --counted->references == 0;
    IS(pthread_mutex_unlock(&counted->mutex), 0);
    if (last) {
        IS(pthread_mutex_destroy(&counted->mutex), 0);
        CHECK(munmap(counted, 4096) == 0);
    }
    return NULL;
}

static struct {
    _Atomic(struct counted *) next[4];
    atomic_int over;
} feed;

static void *drop_many(void *argument) {
    _Atomic(struct counted *) *next = argument;
    for (;;) {
        struct counted *counted = atomic_exchange(next, NULL);
        if (counted != NULL)
            drop_reference(counted);
        else if (atomic_load(&feed.over))
            return NULL;
        else
            sched_yield();
    }
}

static void unlock_then_unmap_by_the_next_owner(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = start(drop_many, (void *)&feed.next[i]);
    for (int round = 0; round < 3000; round++) {
        struct counted *counted =
            mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(counted != MAP_FAILED);
        init_kind(&counted->mutex, KINDS[round % KIND_COUNT].type);
        counted->references = 5;
        IS(pthread_mutex_lock(&counted->mutex), 0);
        for (int i = 0; i < 4; i++)
            while (atomic_load(&feed.next[i]) != NULL)
                sched_yield();
        for (int i = 0; i < 4; i++)
            atomic_store(&feed.next[i], counted);
        if (round % 4 == 0)
            sched_yield();
        if (round % 100 == 0)
            sleep_us(3000);
        int last = --counted->references == 0;
        IS(pthread_mutex_unlock(&counted->mutex), 0);
        CHECK(!last);
    }
    atomic_store(&feed.over, 1);
    join_all(threads, 4);
}

static struct {
    pthread_rwlock_t rwlock;
    pthread_spinlock_t spinlock;
    pthread_barrier_t barrier;
    atomic_int readers, writers, spinners, last;
    volatile long written, spun;
} others = {.rwlock = PTHREAD_RWLOCK_INITIALIZER};

static void *use_the_others(void *unused) {
    for (int round = 0; round < 1000; round++) {
        if (round % 4 == 0) {
            IS(pthread_rwlock_wrlock(&others.rwlock), 0);
            CHECK(atomic_fetch_add(&others.writers, 1) == 0 && atomic_load(&others.readers) == 0);
            others.written = others.written + 1;
            atomic_fetch_sub(&others.writers, 1);
        } else {
            IS(pthread_rwlock_rdlock(&others.rwlock), 0);
            atomic_fetch_add(&others.readers, 1);
            CHECK(atomic_load(&others.writers) == 0);
            atomic_fetch_sub(&others.readers, 1);
        }
        IS(pthread_rwlock_unlock(&others.rwlock), 0);
        IS(pthread_spin_lock(&others.spinlock), 0);
        CHECK(atomic_fetch_add(&others.spinners, 1) == 0);
        others.spun = others.spun + 1;
        atomic_fetch_sub(&others.spinners, 1);
        IS(pthread_spin_unlock(&others.spinlock), 0);
        if (round % 100 == 0 && pthread_barrier_wait(&others.barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            atomic_fetch_add(&others.last, 1);
    }
    return unused;
}

/* Those that are the C library's in every mode. */
static void rwlocks_spinlocks_and_barriers(void) {
    IS(pthread_spin_init(&others.spinlock, PTHREAD_PROCESS_PRIVATE), 0);
    IS(pthread_barrier_init(&others.barrier, NULL, 4), 0);
    run_all(4, use_the_others, NULL);
    CHECK(others.written == 1000 && others.spun == 4000 && others.last == 10);
}

static struct owned crowd_mutex;
static struct gate crowd_gate = GATE;

static void *one_of_a_crowd(void *unused) {
    wait_at(&crowd_gate);
    for (int round = 0; round < 3; round++)
        pass_through(&crowd_mutex);
    return unused;
}

#define CROWD 5000

static void five_thousand_threads(void) {
    static pthread_t threads[CROWD];
    pthread_attr_t attributes;
    IS(pthread_attr_init(&attributes), 0);
    IS(pthread_attr_setstacksize(&attributes, 64 << 10), 0);
    int count = 0;
    while (count < CROWD && pthread_create(&threads[count], &attributes, one_of_a_crowd, NULL) == 0)
        count++;
    until_waiting(&crowd_gate, count);
    // All of them asleep in the condition variable, then all of them before one mutex.
    IS(pthread_mutex_lock(&crowd_mutex.mutex), 0);
    open_for(&crowd_gate, count);
    IS(pthread_cond_broadcast(&crowd_gate.cond), 0);
    sleep_us(50000);
    IS(pthread_mutex_unlock(&crowd_mutex.mutex), 0);
    join_all(threads, count);
    CHECK(crowd_mutex.count == 3L * count);
    if (count < CROWD)
        SKIP("only %d threads could be created", count);
}

static void *short_life(void *argument) {
    struct owned *owned = argument;
    for (int i = 0; i < KIND_COUNT; i++)
        pass_through(&owned[i]);
    return NULL;
}

static void more_than_ten_thousand_threads_ever(void) {
    struct owned owned[KIND_COUNT] = {{.count = 0}};
    for (int i = 0; i < KIND_COUNT; i++)
        init_kind(&owned[i].mutex, KINDS[i].type);
    pthread_t threads[32];
    int all = 0;
    while (all < 10500) {
        start_all(threads, 32, short_life, owned);
        join_all(threads, 32);
        all += 32;
    }
    for (int i = 0; i < KIND_COUNT; i++)
        CHECK(owned[i].count == all);
}

static void *realtime(void *argument) {
    struct sched_param priority = {.sched_priority = 5};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) != 0)
        return (void *)"no";
    struct owned *owned = argument;
    for (int round = 0; round < 3000; round++) {
        pass_through(owned);
        if (round % 50 == 0)
            sleep_us(100);
    }
    return NULL;
}

static void with_a_realtime_thread(void) {
    struct owned owned = {.count = 0};
    IS(pthread_mutex_init(&owned.mutex, NULL), 0);
    pthread_t fifo = start(realtime, &owned), others[6];
    start_all(others, 6, contend, &owned);
    join_all(others, 6);
    if (join(fifo) != NULL)
        SKIP("no right to a real-time class");
    CHECK(owned.count == 6 * ROUNDS + 3000);
}

PROBES(P(exclusion_normal), P(exclusion_recursive), P(exclusion_errorcheck), P(exclusion_adaptive),
       P(holds_longer_than_the_window), P(recursion_under_contention), P(memory_of_every_kind),
       P(unlock_then_unmap_by_the_next_owner), P(rwlocks_spinlocks_and_barriers), P(five_thousand_threads),
       P(more_than_ten_thousand_threads_ever), P(with_a_realtime_thread))
