// Threads whose target cannot be reached take a mutex in the order in which they came.
//
// The main thread holds the mutex while the others come, each when the one before it sleeps. Then it releases the
// mutex and asks for it again at once, as the last one.

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern void manx_epoch_start(uint64_t id) __attribute__((weak));
extern void manx_epoch_end(uint64_t id, uint64_t slo_ns) __attribute__((weak));
extern uint64_t manx_epoch_window_ns(void) __attribute__((weak));

enum { THREADS = 5, ROUNDS = 20 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int order[THREADS + 1], count;
static atomic_int comes;

/// Begins an epoch with a target of 0, with which windows end.
static void begin(void) {
    for (int i = 0; i < 20; i++) {
        manx_epoch_start(8);
        manx_epoch_end(8, 0);
    }
    manx_epoch_start(8);
    CHECK(manx_epoch_window_ns() == 0);
}

static void *take(void *argument) {
    begin();
    atomic_store(&comes, (int)syscall(SYS_gettid));
    CHECK(pthread_mutex_lock(&mutex) == 0);
    order[count++] = (int)(intptr_t)argument;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    manx_epoch_end(8, 0);
    return NULL;
}

/// Waits until this thread sleeps.
static void until_asleep(int thread) {
    char name[64], text[256];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", thread);
    for (;;) {
        FILE *file = fopen(name, "r");
        CHECK(file && fgets(text, sizeof text, file));
        fclose(file);
        if (strstr(text, ") S "))
            return;
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
}

int main(void) {
    begin();
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        count = 0;
        CHECK(pthread_mutex_lock(&mutex) == 0);
        for (intptr_t i = 0; i < THREADS; i++) {
            atomic_store(&comes, 0);
            CHECK(pthread_create(&threads[i], NULL, take, (void *)i) == 0);
            while (atomic_load(&comes) == 0)
                nanosleep(&(struct timespec){0, 100000}, NULL);
            until_asleep(atomic_load(&comes));
        }
        CHECK(pthread_mutex_unlock(&mutex) == 0);
        CHECK(pthread_mutex_lock(&mutex) == 0);
        order[count++] = THREADS;
        CHECK(pthread_mutex_unlock(&mutex) == 0);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(count == THREADS + 1);
        for (int i = 0; i <= THREADS; i++)
            CHECK(order[i] == i);
    }
    return 0;
}
