/* Waiters that handlers of signals keep from going on: stopped for a while, as by a collector of garbage that stops the
 * world; gone by siglongjmp; cancelled in the middle. */
#include "lock_probe.h"
#include <setjmp.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int entered, stopped, go_on;

static void handle(int signal, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(signal, &action, NULL) == 0);
}


static void *locks(void *unused) {
    atomic_fetch_add(&entered, 1);
    IS(pthread_mutex_lock(&mutex), 0);
    IS(pthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void stop(int signal) {
    (void)signal;
    atomic_store(&stopped, 1);
    until(&go_on, 1);
}

/* A thread that waits for the mutex, long past any window, is stopped, and then the mutex is released. */
static pthread_t stopped_waiter(void) {
    handle(SIGUSR1, stop);
    IS(pthread_mutex_lock(&mutex), 0);
    pthread_t waiter = start(locks, NULL);
    until(&entered, 1);
    sleep_us(300 * 1000);
    IS(pthread_kill(waiter, SIGUSR1), 0);
    until(&stopped, 1);
    IS(pthread_mutex_unlock(&mutex), 0);
    return waiter;
}

static void trylock_while_a_waiter_is_stopped(void) {
    pthread_t waiter = stopped_waiter();
    for (int round = 0; round < 5; round++) {
        int result;
        while ((result = pthread_mutex_trylock(&mutex)) != 0)
            IS(result, EBUSY);
        IS(pthread_mutex_unlock(&mutex), 0);
    }
    atomic_store(&go_on, 1);
    join(waiter);
}

static void short_limits_while_a_waiter_is_stopped(void) {
    pthread_t waiter = stopped_waiter();
    for (int round = 0; round < 5; round++) {
        int result;
        do {
            struct timespec soon = after_ns(CLOCK_REALTIME, MS / 5);
            result = pthread_mutex_timedlock(&mutex, &soon);
        } while (result == ETIMEDOUT);
        IS(result, 0);
        IS(pthread_mutex_unlock(&mutex), 0);
    }
    atomic_store(&go_on, 1);
    join(waiter);
}

/* What a waiter that is gone may leave behind stands in nobody's way, and nobody writes to it any more. */
static void others_go_on(void) {
    pthread_t threads[3];
    atomic_store(&entered, 0);
    for (int i = 0; i < 3; i++)
        threads[i] = start(locks, NULL);
    until(&entered, 3);
    sleep_us(20 * 1000);
    IS(pthread_mutex_unlock(&mutex), 0);
    join_all(threads, 3);
    for (int round = 0; round < 3; round++) {
        IS(pthread_mutex_lock(&mutex), 0);
        IS(pthread_mutex_unlock(&mutex), 0);
    }
}

static sigjmp_buf out;
static atomic_int gone, ended;

static void jump(int signal) {
    (void)signal;
    siglongjmp(out, 1);
}

__attribute__((noinline)) static void uses_the_stack(void) {
    volatile unsigned char bytes[16384];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = 0x5a;
    atomic_store(&gone, 1);
    until(&ended, 1);
    for (unsigned i = 0; i < sizeof bytes; i++)
        CHECK(bytes[i] == 0x5a);
}

static void *jumps_out(void *unused) {
    if (sigsetjmp(out, 1) == 0) {
        atomic_store(&entered, 1);
        pthread_mutex_lock(&mutex);
        FAIL("nobody has released it");
    }
    uses_the_stack();
    IS(pthread_mutex_lock(&mutex), 0);
    IS(pthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void a_waiter_jumps_out_of_its_wait(void) {
    handle(SIGUSR1, jump);
    IS(pthread_mutex_lock(&mutex), 0);
    pthread_t waiter = start(jumps_out, NULL);
    until(&entered, 1);
    sleep_us(200 * 1000);
    IS(pthread_kill(waiter, SIGUSR1), 0);
    until(&gone, 1);
    others_go_on();
    atomic_store(&ended, 1);
    join(waiter);
}

static void *can_be_cancelled(void *unused) {
    int before;
    IS(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before), 0);
    atomic_store(&entered, 1);
    pthread_mutex_lock(&mutex);
    FAIL("nobody has released it");
    return unused;
}

static void a_waiter_is_cancelled_in_its_wait(void) {
    IS(pthread_mutex_lock(&mutex), 0);
    pthread_t waiter = start(can_be_cancelled, NULL);
    until(&entered, 1);
    sleep_us(200 * 1000);
    IS(pthread_cancel(waiter), 0);
    CHECK(join(waiter) == PTHREAD_CANCELED);
    others_go_on();
}

PROBES(P(trylock_while_a_waiter_is_stopped), P(short_limits_while_a_waiter_is_stopped),
       P(a_waiter_jumps_out_of_its_wait), P(a_waiter_is_cancelled_in_its_wait))
