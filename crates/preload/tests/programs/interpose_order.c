// Which thread gets a mutex next, and what the C library's fields say meanwhile: what each kind of lock promises beyond exclusion.
#include "lock_probe.h"

#include <sys/syscall.h>

#define WAITERS 8

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int numbers[WAITERS], next_place, places[WAITERS], let_go, acquired;

/* What of the mutex is Manx's or the C library's own. */
static unsigned word_at(int offset) {
    return __atomic_load_n((unsigned *)((char *)&mutex + offset), __ATOMIC_RELAXED);
}

/* Whether the thread of this number sleeps. */
static int sleeps(int number) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", number);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    char *state = strrchr(text, ')');
    CHECK(state != NULL && state[1] == ' ');
    return state[2] == 'S';
}

static void *stand_in_line(void *argument) {
    int index = (int)(long)argument;
    atomic_store(&numbers[index], gettid());
    IS(pthread_mutex_lock(&mutex), 0);
    places[atomic_fetch_add(&next_place, 1)] = index;
    IS(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

/* Threads come one after the other, each when the one before it sleeps. */
static void line_up(pthread_t *threads) {
    atomic_store(&next_place, 0);
    for (long i = 0; i < WAITERS; i++) {
        atomic_store(&numbers[i], 0);
        threads[i] = start(stand_in_line, (void *)i);
        while (atomic_load(&numbers[i]) == 0 || !sleeps(numbers[i]))
            sleep_us(100);
    }
}

/* Each is served after the one before it. */
static void in_the_order_of_arrival(void) {
    for (int round = 0; round < 5; round++) {
        pthread_t threads[WAITERS];
        IS(pthread_mutex_lock(&mutex), 0);
        line_up(threads);
        IS(pthread_mutex_unlock(&mutex), 0);
        join_all(threads, WAITERS);
        for (int i = 0; i < WAITERS; i++)
            if (places[i] != i)
                FAIL("number %d was served as number %d", places[i], i);
    }
}

static void *wait_once(void *unused) {
    IS(pthread_mutex_lock(&mutex), 0);
    atomic_store(&acquired, 1);
    until(&let_go, 1);
    IS(pthread_mutex_unlock(&mutex), 0);
    return unused;
}

/* In the word: somebody is starving. */
#define MARKED 4u

/* The mutex is handed to a waiter whose window is over: who runs, and released it, cannot take it again before. */
static void nobody_overtakes_the_starving(void) {
    for (int round = 0; round < 20; round++) {
        atomic_store(&let_go, 0);
        atomic_store(&acquired, 0);
        IS(pthread_mutex_lock(&mutex), 0);
        pthread_t thread = start(wait_once, NULL);
        while ((word_at(0) & MARKED) == 0)
            sleep_us(200);
        IS(pthread_mutex_unlock(&mutex), 0);
        IS(pthread_mutex_trylock(&mutex), EBUSY);
        until(&acquired, 1);
        atomic_store(&let_go, 1);
        join(thread);
        IS(pthread_mutex_trylock(&mutex), 0);
        IS(pthread_mutex_unlock(&mutex), 0);
    }
}

/* Without a window nobody is ever starving. */
static void nobody_is_ever_starving(void) {
    atomic_store(&let_go, 1);
    IS(pthread_mutex_lock(&mutex), 0);
    pthread_t thread = start(wait_once, NULL);
    while (word_at(0) != 2)
        sleep_us(200);
    sleep_us(20000);
    CHECK(word_at(0) == 2);
    IS(pthread_mutex_unlock(&mutex), 0);
    join(thread);
}

static void owner_is_the_kernels_number(void *unused) {
    (void)unused;
    for (int i = 0; i < KIND_COUNT; i++) {
        init_kind(&mutex, KINDS[i].type);
        for (int round = 0; round < 2; round++) {
            IS(pthread_mutex_lock(&mutex), 0);
            CHECK(word_at(0) == 1 && (int)word_at(8) == gettid() && word_at(12) == 1);
            IS(pthread_mutex_destroy(&mutex), EBUSY);
            IS(pthread_mutex_unlock(&mutex), 0);
            CHECK(word_at(0) == 0 && word_at(8) == 0 && word_at(12) == 0);
        }
        IS(pthread_mutex_destroy(&mutex), 0);
    }
}

static void *owner_elsewhere(void *unused) {
    owner_is_the_kernels_number(NULL);
    return unused;
}

static void child_of_a_child(void *unused) {
    owner_is_the_kernels_number(unused);
    join(start(owner_elsewhere, NULL));
    reap(child(owner_is_the_kernels_number, NULL));
}

/* In the thread, in others, in a child of a fork, in its threads, and in its children. */
static void owners_have_the_kernels_numbers(void) {
    owner_is_the_kernels_number(NULL);
    join(start(owner_elsewhere, NULL));
    reap(child(child_of_a_child, NULL));
    owner_is_the_kernels_number(NULL);
}

static void *mostly_sleeps(void *unused) {
    IS(pthread_mutex_lock(&mutex), 0);
    IS(pthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void pass_on(void *unused) {
    (void)unused;
    pthread_t threads[4];
    IS(pthread_mutex_unlock(&mutex), 0);
    // Nobody but this thread is there, so to try succeeds, however many waited in the parent.
    for (int round = 0; round < 20; round++) {
        IS(pthread_mutex_trylock(&mutex), 0);
        IS(pthread_mutex_unlock(&mutex), 0);
    }
    for (int round = 0; round < 100; round++) {
        IS(pthread_mutex_lock(&mutex), 0);
        start_all(threads, 4, mostly_sleeps, NULL);
        IS(pthread_mutex_unlock(&mutex), 0);
        join_all(threads, 4);
    }
    CHECK(word_at(0) == 0);
}

/* A child's only thread holds a mutex for which its parent's threads stand in line. */
static void nobody_waits_for_ghosts(void) {
    for (int round = 0; round < 4; round++) {
        pthread_t threads[WAITERS];
        IS(pthread_mutex_lock(&mutex), 0);
        line_up(threads);
        // In later rounds all of them are starving.
        sleep_us(round * 2000);
        pid_t pid = child(pass_on, NULL);
        IS(pthread_mutex_unlock(&mutex), 0);
        join_all(threads, WAITERS);
        reap(pid);
    }
}

PROBES(P(in_the_order_of_arrival), P(nobody_overtakes_the_starving), P(nobody_is_ever_starving),
       P(owners_have_the_kernels_numbers), P(nobody_waits_for_ghosts))
