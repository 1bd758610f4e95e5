/*
 * libmanx and the preload library in one process have the same epochs, and libmanx's locks wait as long as these say.
 *
 * The argument says whether the preload library is there: "together" or "alone".
 */
#define _GNU_SOURCE
#include "../../../preload/tests/programs/check.h"
#include <dlfcn.h>
#include <manx_range.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define WINDOW_NS UINT64_C(100000000)

static void (*other_start)(uint64_t);
static void (*other_end)(uint64_t, uint64_t);
static uint64_t (*other_window_ns)(void);

static manx_mutex_t mutex = MANX_MUTEX_INIT;
static manx_range_t *ranges;
static uint64_t began_ns;

/* The waiters of a mutex whose window is over, as the mutex counts them. */
static uint32_t starving(void) {
    return __atomic_load_n(&mutex.side, __ATOMIC_SEQ_CST) & 0x7ffe;
}

/* Whether a waiter for a range may not be overtaken any more, as the lock's dump says. */
static int range_starving(void) {
    char text[1000];
    CHECK(manx_range_dump(ranges, MANX_RANGE_JSON, text, sizeof text) < sizeof text);
    return strstr(text, "\"overdue\":true") != NULL;
}

/* Waits for the mutex, or for a range, in an epoch with a window of 100 ms. */
static void *waiter(void *range) {
    for (int i = 0; i < 20; i++) {
        other_start(8);
        other_end(8, SECOND_NS);
    }
    other_start(8);
    CHECK(manx_epoch_window_ns() == WINDOW_NS);
    __atomic_store_n(&began_ns, manx_now_ns(), __ATOMIC_SEQ_CST);
    if (range) {
        manx_range_held_t held;
        CHECK(manx_range_lock(ranges, 0, 1, &held) == 0 && manx_range_unlock(&held) == 0);
    } else {
        manx_mutex_lock(&mutex);
        manx_mutex_unlock(&mutex);
    }
    other_end(8, SECOND_NS);
    return NULL;
}

/* A waiter in an epoch with a window of 100 ms is not starving before 100 ms are over; without the epoch it would be after one. */
static void a_mutex_knows_the_window(void) {
    pthread_t thread;
    manx_mutex_lock(&mutex);
    CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0);
    while (starving() == 0) {
    }
    uint64_t starving_ns = manx_now_ns();
    CHECK(starving_ns - __atomic_load_n(&began_ns, __ATOMIC_SEQ_CST) >= WINDOW_NS);
    manx_mutex_unlock(&mutex);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* So is a waiter for a range. */
static void a_range_lock_knows_the_window(void) {
    pthread_t thread;
    manx_range_held_t held;
    CHECK(manx_range_create(&ranges, NULL) == 0 && manx_range_lock(ranges, 0, 1, &held) == 0);
    __atomic_store_n(&began_ns, 0, __ATOMIC_SEQ_CST);
    CHECK(pthread_create(&thread, NULL, waiter, &ranges) == 0);
    while (!range_starving())
        sched_yield();
    uint64_t starving_ns = manx_now_ns();
    CHECK(starving_ns - __atomic_load_n(&began_ns, __ATOMIC_SEQ_CST) >= WINDOW_NS);
    CHECK(manx_range_unlock(&held) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(manx_range_destroy(ranges) == 0);
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    CHECK(found);
    return found;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    void *library = dlopen("libmanx_preload.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!strcmp(arguments[1], "together")) {
        CHECK(library);
        *(void **)&other_start = symbol(library, "manx_epoch_start");
        *(void **)&other_end = symbol(library, "manx_epoch_end");
        *(void **)&other_window_ns = symbol(library, "manx_epoch_window_ns");
    } else {
        CHECK(!library);
        other_start = manx_epoch_start;
        other_end = manx_epoch_end;
        other_window_ns = manx_epoch_window_ns;
    }
    /* An epoch that begins here is known there, and the other way round. */
    manx_epoch_start(1);
    CHECK(other_window_ns() != UINT64_MAX);
    manx_epoch_end(1, SECOND_NS);
    CHECK(other_window_ns() == UINT64_MAX);
    for (int i = 0; i < 20; i++) {
        manx_epoch_start(1);
        other_end(1, SECOND_NS);
    }
    other_start(1);
    CHECK(manx_epoch_window_ns() == WINDOW_NS);
    manx_epoch_start(2);
    manx_epoch_end_at(2, SECOND_NS, 50);
    CHECK(other_window_ns() == WINDOW_NS);
    manx_epoch_abandon(1);
    CHECK(other_window_ns() == UINT64_MAX);
    a_mutex_knows_the_window();
    a_range_lock_knows_the_window();
    return 0;
}
