// Loops of sched_yield, and what is none.
#include "lock_probe.h"
#include "sleeps.h"

#include <sched.h>
#include <threads.h>

/* What a waiter waits for comes after this many looks, however long each of them takes. */
#define LOOKS 300

static atomic_int arrived, looks;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin_lock;

static void *arrive(void *unused) {
    while (atomic_load(&looks) < LOOKS)
        sleep_us(1000);
    atomic_store(&arrived, 1);
    return unused;
}

/* Whether the thread has arrived. */
static int is_there(void) {
    atomic_fetch_add(&looks, 1);
    return atomic_load(&arrived);
}

static long wait_by(int (*yield)(void)) {
    atomic_store(&arrived, 0);
    atomic_store(&looks, 0);
    pthread_t thread = start(arrive, NULL);
    long before = switches();
    errno = 77;
    while (!is_there())
        IS(yield(), 0);
    CHECK(errno == 77);
    long slept = switches() - before;
    join(thread);
    return slept;
}

static void a_loop_of_yields_sleeps(void) {
    must_sleep(wait_by(sched_yield));
}

static void the_other_names_sleep(void) {
    atomic_store(&arrived, 0);
    atomic_store(&looks, 0);
    pthread_t thread = start(arrive, NULL);
    long before = switches();
    while (!is_there())
        thrd_yield();
    must_sleep(switches() - before);
    join(thread);
}

static void a_loop_of_yields_does_not_sleep(void) {
    must_not_sleep(wait_by(sched_yield));
}

static void a_lock_in_between_is_work(void) {
    long before = switches();
    IS(pthread_spin_init(&spin_lock, PTHREAD_PROCESS_PRIVATE), 0);
    for (int round = 0; round < 5000; round++) {
        if (round % 2 == 0) {
            IS(pthread_mutex_lock(&mutex), 0);
            IS(pthread_mutex_unlock(&mutex), 0);
        } else {
            IS(pthread_spin_lock(&spin_lock), 0);
            IS(pthread_spin_unlock(&spin_lock), 0);
        }
        sched_yield();
    }
    must_not_sleep(switches() - before);
}

static void two_places_are_no_loop(void) {
    long before = switches();
    for (int round = 0; round < 5000; round++) {
        sched_yield();
        __asm__ volatile("" ::: "memory");
        sched_yield();
    }
    must_not_sleep(switches() - before);
}

static void work_in_between_is_work(void) {
    long before = switches();
    for (int round = 0; round < 2000; round++) {
        work_ns(CLOCK_MONOTONIC, 20000);
        sched_yield();
    }
    must_not_sleep(switches() - before);
}

static void a_real_time_thread_does_not_sleep(void) {
    struct sched_param priority = {.sched_priority = 1};
    if (pthread_setschedparam(pthread_self(), SCHED_RR, &priority) != 0)
        SKIP("no right to a real-time class");
    long before = switches();
    for (int round = 0; round < 5000; round++)
        sched_yield();
    must_not_sleep(switches() - before);
}

PROBES(P(a_loop_of_yields_sleeps), P(the_other_names_sleep), P(a_loop_of_yields_does_not_sleep),
       P(a_lock_in_between_is_work), P(two_places_are_no_loop), P(work_in_between_is_work),
       P(a_real_time_thread_does_not_sleep))
