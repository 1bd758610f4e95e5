/* Spinning locks and barriers, and a pool whose workers look for jobs with PAUSEs between: what they protect is
 * checked. `locks THREADS MS` */
#include "kinds.h"

static int threads;
static long until_us;
static volatile int over;

/* A round of work: a thread that may not be alone does it wrong. */
static struct { _Alignas(64) long a, b; } shared;
static void work(void) {
    long a = shared.a;
    __asm__ volatile("" ::: "memory");
    CHECK(a == shared.b);
    shared.a = a + 1, shared.b = a + 1;
}

/* First come, first served. */
static struct { _Alignas(64) unsigned next; _Alignas(64) unsigned serving; } ticket;
static NOINLINE void ticket_lock(void) {
    unsigned mine = __atomic_fetch_add(&ticket.next, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&ticket.serving, __ATOMIC_ACQUIRE) != mine) PAUSE;
}
static void ticket_unlock(void) { __atomic_store_n(&ticket.serving, ticket.serving + 1, __ATOMIC_RELEASE); }

/* First come, first served, each waiting at a word of its own stack. */
struct place { struct place *next; int waits; };
static struct place *last;
static NOINLINE void mcs_lock(struct place *mine) {
    mine->next = NULL, mine->waits = 1;
    struct place *before = __atomic_exchange_n(&last, mine, __ATOMIC_ACQ_REL);
    if (before == NULL) return;
    __atomic_store_n(&before->next, mine, __ATOMIC_RELEASE);
    while (__atomic_load_n(&mine->waits, __ATOMIC_ACQUIRE)) PAUSE;
}
static NOINLINE void mcs_unlock(struct place *mine) {
    struct place *next = __atomic_load_n(&mine->next, __ATOMIC_ACQUIRE), *expected = mine;
    if (next == NULL) {
        if (__atomic_compare_exchange_n(&last, &expected, NULL, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) return;
        while ((next = __atomic_load_n(&mine->next, __ATOMIC_ACQUIRE)) == NULL) PAUSE;
    }
    __atomic_store_n(&next->waits, 0, __ATOMIC_RELEASE);
}

/* Free for all, with longer and longer delays. */
static int free_for_all;
static NOINLINE void backoff_lock(void) {
    for (int delay = 1; __atomic_exchange_n(&free_for_all, 1, __ATOMIC_ACQUIRE) != 0; delay = delay < 256 ? 2 * delay : 256)
        for (int i = 0; i < delay && __atomic_load_n(&free_for_all, __ATOMIC_RELAXED); i++) PAUSE;
}

/* A compare-and-swap in each round. */
static int swapped;
static NOINLINE void cas_lock(void) {
    int expected = 0;
    while (!__atomic_compare_exchange_n(&swapped, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        expected = 0;
        PAUSE;
    }
}

/* Spins, then waits in the kernel. 0 free, 1 held, 2 held and perhaps waited for. */
static struct cell mixed;
static NOINLINE void mixed_lock(void) {
    int now = 0;
    for (int i = 0; i < 200; i++) {
        now = 0;
        if (__atomic_compare_exchange_n(&mixed.word, &now, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
        PAUSE;
    }
    while (__atomic_exchange_n(&mixed.word, 2, __ATOMIC_ACQUIRE) != 0) futex(&mixed.word, FUTEX_WAIT, 2);
}
static void mixed_unlock(void) {
    if (__atomic_exchange_n(&mixed.word, 0, __ATOMIC_RELEASE) == 2) futex(&mixed.word, FUTEX_WAKE, 1);
}

static pthread_spinlock_t spin;

/* One writes, many read again if somebody wrote meanwhile. */
static struct { _Alignas(64) unsigned count; long a, b; } sequence;
static NOINLINE long read_sequence(void) {
    unsigned before, after;
    long a, b;
    do {
        while ((before = __atomic_load_n(&sequence.count, __ATOMIC_ACQUIRE)) & 1) PAUSE;
        a = __atomic_load_n(&sequence.a, __ATOMIC_RELAXED), b = __atomic_load_n(&sequence.b, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        after = __atomic_load_n(&sequence.count, __ATOMIC_RELAXED);
    } while (before != after);
    CHECK(a == b);
    return a;
}
static void write_sequence(void) {
    __atomic_store_n(&sequence.count, sequence.count + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&sequence.a, sequence.a + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&sequence.b, sequence.b + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&sequence.count, sequence.count + 1, __ATOMIC_RELEASE);
}

static void *locking(void *kind) {
    struct place place;
    for (long rounds = 0; !over; rounds++) {
        switch ((long)kind) {
        case 0: ticket_lock(), work(), ticket_unlock(); break;
        case 1: mcs_lock(&place), work(), mcs_unlock(&place); break;
        case 2: backoff_lock(), work(), __atomic_store_n(&free_for_all, 0, __ATOMIC_RELEASE); break;
        case 3: cas_lock(), work(), __atomic_store_n(&swapped, 0, __ATOMIC_RELEASE); break;
        case 4: mixed_lock(), work(), mixed_unlock(); break;
        case 5: pthread_spin_lock(&spin), work(), pthread_spin_unlock(&spin); break;
        case 6:
            ticket_lock();
            write_sequence(), work();
            ticket_unlock();
            for (int i = 0; i < 8; i++) CHECK(read_sequence() > 0);
        }
        if ((rounds & 15) == 0 && now_us() > until_us) over = 1;
    }
    return NULL;
}

/* All threads wait for each other, each time with the sense of the barrier turned around; every second time at the C library's. */
static struct { _Alignas(64) int missing; _Alignas(64) int sense; } sense_barrier;
static pthread_barrier_t barrier;
static int reached[64];
static NOINLINE void wait_for_all(int *sense, int spins) {
    *sense = !*sense;
    if (__atomic_sub_fetch(&sense_barrier.missing, 1, __ATOMIC_ACQ_REL) == 0) {
        sense_barrier.missing = threads;
        __atomic_store_n(&sense_barrier.sense, *sense, __ATOMIC_SEQ_CST);
        futex(&sense_barrier.sense, FUTEX_WAKE, 1 << 30);
        return;
    }
    for (int i = 0; i < spins; i++) {
        if (__atomic_load_n(&sense_barrier.sense, __ATOMIC_ACQUIRE) == *sense) return;
        PAUSE;
    }
    while (__atomic_load_n(&sense_barrier.sense, __ATOMIC_ACQUIRE) != *sense) futex(&sense_barrier.sense, FUTEX_WAIT, !*sense);
}
static void *barrier_threads(void *number) {
    int sense = 0, me = (int)(long)number;
    for (int round = 1;; round++) {
        reached[me] = round;
        wait_for_all(&sense, round % 3 == 0 ? 0 : 5000);
        for (int i = 0; i < threads; i++) CHECK(reached[i] == round);
        if (me == 0 && now_us() > until_us) over = 1;
        if (round % 2 == 0) pthread_barrier_wait(&barrier);
        else wait_for_all(&sense, 5000);
        if (over) return NULL;
        pthread_barrier_wait(&barrier);
    }
}

/* A pool as Eigen has: workers look for jobs in each other's queues with PAUSEs between, and then sleep. */
enum { JOBS = 256 };
static struct { _Alignas(64) int head, tail; pthread_mutex_t mutex; long jobs[JOBS]; } queues[64];
static struct cell work_came;
static long done, posted;
static int take(int queue, long *job) {
    int found = 0;
    if (__atomic_load_n(&queues[queue].head, __ATOMIC_RELAXED) == __atomic_load_n(&queues[queue].tail, __ATOMIC_RELAXED)) return 0;
    pthread_mutex_lock(&queues[queue].mutex);
    if (queues[queue].head != queues[queue].tail) *job = queues[queue].jobs[queues[queue].head++ % JOBS], found = 1;
    pthread_mutex_unlock(&queues[queue].mutex);
    return found;
}
static NOINLINE int steal(int me, long *job) {
    for (int i = 0; i < threads; i++)
        if (take((me + i) % threads, job)) return 1;
    return 0;
}
static NOINLINE int look_for(int me, long *job) {
    for (int i = 0; i < 1000; i++) {
        if (steal(me, job)) return 1;
        if (over) return 0;
        PAUSE;
    }
    return 0;
}
static void *pool_worker(void *number) {
    int me = (int)(long)number;
    long job;
    while (!over) {
        int came = __atomic_load_n(&work_came.word, __ATOMIC_SEQ_CST);
        if (look_for(me, &job)) {
            __atomic_add_fetch(&done, job, __ATOMIC_SEQ_CST);
            continue;
        }
        __atomic_add_fetch(&work_came.sleepers, 1, __ATOMIC_SEQ_CST);
        if (!steal(me, &job)) {
            if (!over) futex(&work_came.word, FUTEX_WAIT, came);
        } else {
            __atomic_add_fetch(&done, job, __ATOMIC_SEQ_CST);
        }
        __atomic_sub_fetch(&work_came.sleepers, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}
static void wake_pool(void) {
    __atomic_add_fetch(&work_came.word, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&work_came.sleepers, __ATOMIC_SEQ_CST)) futex(&work_came.word, FUTEX_WAKE, 1 << 30);
}
/* Waits for the batch as it is waited for everywhere: spinning. */
static NOINLINE void wait_for_batch(void) {
    while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != posted) PAUSE;
}

static void together(void *(*run)(void *), int numbered, long argument, long ms) {
    pthread_t all[64];
    over = 0, until_us = now_us() + 1000 * ms;
    for (long i = 0; i < threads; i++) CHECK(pthread_create(&all[i], NULL, run, (void *)(numbered ? i : argument)) == 0);
    if (run == pool_worker) {
        for (long round = 1; now_us() < until_us; round++) {
            for (int i = 0; i < 2 * threads; i++) {
                int queue = i % threads;
                pthread_mutex_lock(&queues[queue].mutex);
                queues[queue].jobs[queues[queue].tail++ % JOBS] = round;
                pthread_mutex_unlock(&queues[queue].mutex);
                posted += round;
            }
            wake_pool();
            wait_for_batch();
        }
        over = 1;
        wake_pool();
    }
    for (int i = 0; i < threads; i++) CHECK(pthread_join(all[i], NULL) == 0);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    long ms = atol(arguments[2]);
    threads = atoi(arguments[1]);
    pthread_spin_init(&spin, 0);
    pthread_barrier_init(&barrier, NULL, threads);
    sense_barrier.missing = threads;
    sequence.a = sequence.b = 1;
    for (int i = 0; i < 64; i++) pthread_mutex_init(&queues[i].mutex, NULL);
    for (long kind = 0; kind < 7; kind++) {
        shared.a = shared.b = 0;
        together(locking, 0, kind, ms);
        printf("lock %ld: %ld\n", kind, shared.a);
    }
    together(barrier_threads, 1, 0, ms);
    printf("barriers: %d\n", reached[0]);
    together(pool_worker, 1, 0, ms);
    printf("jobs: %ld\n", done);
    CHECK(done == posted);
    return 0;
}
