// Loops of sched_yield, and what is none.
#include "lock_probe.h"
#include "sleeps.h"

#include <sched.h>
#include <threads.h>

static atomic_int arrived;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin_lock;

static void *arrive(void *unused) {
    sleep_us(30000);
    atomic_store(&arrived, 1);
    return unused;
}

static long wait_by(int (*yield)(void)) {
    atomic_store(&arrived, 0);
    pthread_t thread = start(arrive, NULL);
    long before = switches();
    errno = 77;
    while (atomic_load(&arrived) == 0)
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
    pthread_t thread = start(arrive, NULL);
    long before = switches();
    while (atomic_load(&arrived) == 0)
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
        struct timespec end = after_ns(CLOCK_MONOTONIC, 20000);
        while (!is_over(CLOCK_MONOTONIC, &end))
            continue;
        sched_yield();
    }
    must_not_sleep(switches() - before);
}

static void a_real_time_thread_does_not_sleep(void) {
    struct sched_param priority = {.sched_priority = 1};
    if (pthread_setschedparam(pthread_self(), SCHED_RR, &priority) != 0) {
        fprintf(stderr, "no right to a real-time class\n");
        exit(77);
    }
    long before = switches();
    for (int round = 0; round < 5000; round++)
        sched_yield();
    must_not_sleep(switches() - before);
}

PROBES(P(a_loop_of_yields_sleeps), P(the_other_names_sleep), P(a_loop_of_yields_does_not_sleep),
       P(a_lock_in_between_is_work), P(two_places_are_no_loop), P(work_in_between_is_work),
       P(a_real_time_thread_does_not_sleep))
