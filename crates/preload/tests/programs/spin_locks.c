// pthread_spin_lock and its kin, and how their waiters wait.
#include "lock_probe.h"
#include "one_cpu.h"
#include "sleeps.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sched.h>

static pthread_spinlock_t lock;
static volatile long passed;
static atomic_int inside, asked;

static void pass(void) {
    if (atomic_fetch_add(&inside, 1) != 0)
        FAIL("two threads hold the lock");
    passed = passed + 1;
    atomic_fetch_sub(&inside, 1);
}

struct way {
    int (*lock)(pthread_spinlock_t *);
    int (*trylock)(pthread_spinlock_t *);
    int (*unlock)(pthread_spinlock_t *);
};

#define ROUNDS 20000

static void *contend(void *argument) {
    const struct way *way = argument;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 16 == 3)
            while (way->trylock(&lock) != 0)
                sched_yield();
        else
            IS(way->lock(&lock), 0);
        pass();
        IS(way->unlock(&lock), 0);
    }
    return NULL;
}

/* Three threads by ours and three by the C library's own functions, on one word. */
static void both_exclude_each_other(void) {
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    CHECK(libc != NULL);
    struct way ways[2] = {
        {pthread_spin_lock, pthread_spin_trylock, pthread_spin_unlock},
        {(int (*)(pthread_spinlock_t *))dlsym(libc, "pthread_spin_lock"),
         (int (*)(pthread_spinlock_t *))dlsym(libc, "pthread_spin_trylock"),
         (int (*)(pthread_spinlock_t *))dlsym(libc, "pthread_spin_unlock")},
    };
    CHECK(ways[1].lock != NULL && ways[1].trylock != NULL && ways[1].unlock != NULL);
    IS(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE), 0);
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        threads[i] = start(contend, &ways[i % 2]);
    join_all(threads, 6);
    CHECK(passed == 6 * ROUNDS);
    IS(pthread_spin_destroy(&lock), 0);
}

static void codes(void) {
    errno = 77;
    IS(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE), 0);
    IS(pthread_spin_lock(&lock), 0);
    IS(pthread_spin_trylock(&lock), EBUSY);
    IS(pthread_spin_unlock(&lock), 0);
    IS(pthread_spin_trylock(&lock), 0);
    IS(pthread_spin_unlock(&lock), 0);
    CHECK(lock == 1 && errno == 77);
}

static void *wait_once(void *unused) {
    long before = switches();
    atomic_store(&asked, gettid());
    IS(pthread_spin_lock(&lock), 0);
    long slept = switches() - before;
    IS(pthread_spin_unlock(&lock), 0);
    (void)unused;
    return (void *)slept;
}

static pthread_t start_waiter(void) {
    IS(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE), 0);
    IS(pthread_spin_lock(&lock), 0);
    pthread_t thread = start(wait_once, NULL);
    while (atomic_load(&asked) == 0)
        sleep_us(200);
    return thread;
}

/* How often the waiter has gone to sleep until now. */
static long sleeps_of_waiter(void) {
    char path[64], line[256];
    long count = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", atomic_load(&asked));
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, "voluntary_ctxt_switches: %ld", &count);
    fclose(file);
    CHECK(count >= 0);
    return count;
}

static void a_waiter_sleeps(void) {
    pthread_t thread = start_waiter();
    long before = sleeps_of_waiter();
    // The limit on the program's time is what fails if it spins.
    while (sleeps_of_waiter() < before + 10)
        sleep_us(1000);
    IS(pthread_spin_unlock(&lock), 0);
    join(thread);
}

static void a_waiter_spins(void) {
    pthread_t thread = start_waiter();
    sleep_us(30000);
    IS(pthread_spin_unlock(&lock), 0);
    must_not_sleep((long)join(thread));
}

/* A real-time waiter on the CPU of the ordinary holder, which has work to do before it unlocks. */
static void *important(void *unused) {
    struct sched_param priority = {.sched_priority = 1};
    int error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
    if (error != 0) {
        atomic_store(&asked, -1);
        return NULL;
    }
    return wait_once(unused);
}

static void a_real_time_waiter_lets_the_holder_run(void) {
    one_cpu();
    IS(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE), 0);
    IS(pthread_spin_lock(&lock), 0);
    pthread_t thread = start(important, NULL);
    while (atomic_load(&asked) == 0)
        sleep_us(200);
    if (atomic_load(&asked) == -1)
        SKIP("no right to a real-time class");
    work_ns(CLOCK_THREAD_CPUTIME_ID, 5 * MS);
    IS(pthread_spin_unlock(&lock), 0);
    CHECK((long)join(thread) > 0);
}

/* Shared between processes: each adds to one number. */
struct shared {
    pthread_spinlock_t lock;
    volatile long count;
};

static void add(void *argument) {
    struct shared *shared = argument;
    for (int round = 0; round < ROUNDS; round++) {
        IS(pthread_spin_lock(&shared->lock), 0);
        shared->count = shared->count + 1;
        IS(pthread_spin_unlock(&shared->lock), 0);
    }
}

static void processes_share_a_lock(void) {
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    IS(pthread_spin_init(&shared->lock, PTHREAD_PROCESS_SHARED), 0);
    pid_t children[3];
    for (int i = 0; i < 3; i++)
        children[i] = child(add, shared);
    add(shared);
    for (int i = 0; i < 3; i++)
        reap(children[i]);
    CHECK(shared->count == 4 * ROUNDS);
}

/* A thread that locks again and again does not keep a waiter out for much longer than its window. */
static atomic_int stop;

static void *keep(void *unused) {
    while (atomic_load_explicit(&stop, memory_order_relaxed) == 0) {
        IS(pthread_spin_lock(&lock), 0);
        for (int i = 0; i < 200; i++)
            __builtin_ia32_pause();
        IS(pthread_spin_unlock(&lock), 0);
    }
    return unused;
}

static void nobody_is_kept_out(void) {
    IS(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE), 0);
    pthread_t threads[12];
    start_all(threads, 12, keep, NULL);
    // The limit on the program's time is what fails if one of these waits for long.
    for (int round = 0; round < 50; round++) {
        IS(pthread_spin_lock(&lock), 0);
        IS(pthread_spin_unlock(&lock), 0);
        sleep_us(500);
    }
    atomic_store(&stop, 1);
    join_all(threads, 12);
}

PROBES(P(both_exclude_each_other), P(codes), P(a_waiter_sleeps), P(a_waiter_spins),
       P(a_real_time_waiter_lets_the_holder_run), P(processes_share_a_lock), P(nobody_is_kept_out))
