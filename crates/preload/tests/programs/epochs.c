// Epochs that a program marks itself, through weak symbols: nothing of Manx is linked.
//
// What is asked for is the first argument; the program exits with 0 if all went as that says.

#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

extern void manx_epoch_start(uint64_t id) __attribute__((weak));
extern void manx_epoch_end(uint64_t id, uint64_t slo_ns) __attribute__((weak));
extern void manx_epoch_end_at(uint64_t id, uint64_t slo_ns, double percentile) __attribute__((weak));
extern void manx_epoch_abandon(uint64_t id) __attribute__((weak));
extern uint64_t manx_epoch_window_ns(void) __attribute__((weak));

/// A target that each epoch meets, on the busiest machine too.
#define LONG_NS 60000000000u

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t passed;

static void handler(int signal) {
    (void)signal;
    for (uint64_t id = 1; id <= 3; id++) {
        manx_epoch_start(id);
        manx_epoch_end(id, LONG_NS);
    }
    manx_epoch_end(4, LONG_NS);
}

/// Handlers that begin and end the same epochs as what they interrupt: some go unseen, and nothing breaks.
static void interrupted(void) {
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 50}, {0, 50}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (uint64_t i = 0; i < 3000000; i++) {
        uint64_t id = i % 5;
        manx_epoch_start(id);
        manx_epoch_start(id + 1);
        manx_epoch_end(id, LONG_NS);
        manx_epoch_end(id + 1, LONG_NS);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    for (uint64_t id = 0; id <= 5; id++)
        manx_epoch_abandon(id);
    CHECK(manx_epoch_window_ns() == UINT64_MAX);
}

/// So many requests as a program has them, with three lines for Manx.
static void requests(uint64_t id, uint64_t slo_ns, int count) {
    for (int i = 0; i < count; i++) {
        if (manx_epoch_start)
            manx_epoch_start(id);
        pthread_mutex_lock(&mutex);
        passed++;
        pthread_mutex_unlock(&mutex);
        if (manx_epoch_end)
            manx_epoch_end(id, slo_ns);
    }
}

/// The window that the next epoch will have.
static uint64_t window_ns(uint64_t id) {
    manx_epoch_start(id);
    uint64_t window_ns = manx_epoch_window_ns();
    manx_epoch_abandon(id);
    return window_ns;
}

static void *thread(void *argument) {
    requests(7, LONG_NS, 10);
    CHECK(window_ns(7) > 0);
    return argument;
}

static long mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    long lines = 0;
    for (int c; (c = getc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

static void threads(int count) {
    for (int i = 0; i < count; i++) {
        pthread_t one;
        CHECK(pthread_create(&one, NULL, thread, NULL) == 0);
        CHECK(pthread_join(one, NULL) == 0);
    }
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "alone")) {
        CHECK(!manx_epoch_start && !manx_epoch_end && !manx_epoch_end_at && !manx_epoch_window_ns);
        requests(7, LONG_NS, 1000);
        CHECK(passed == 1000);
        return 0;
    }
    CHECK(manx_epoch_start && manx_epoch_end && manx_epoch_end_at && manx_epoch_abandon && manx_epoch_window_ns);
    if (!strcmp(what, "windows")) {
        CHECK(manx_epoch_window_ns() == UINT64_MAX);
        requests(7, LONG_NS, 20);
        requests(8, 0, 20);
        CHECK(window_ns(7) == 100000000);
        CHECK(window_ns(8) == 0);
        manx_epoch_start(7);
        manx_epoch_start(8);
        CHECK(manx_epoch_window_ns() == 0);
        manx_epoch_end(7, LONG_NS);
        CHECK(manx_epoch_window_ns() == 0);
        manx_epoch_end(8, 0);
        manx_epoch_end(8, 0);
        CHECK(manx_epoch_window_ns() == UINT64_MAX);
        for (int i = 0; i < 20; i++) {
            manx_epoch_start(9);
            manx_epoch_end_at(9, LONG_NS, i % 2 ? 99.99 : 50);
            manx_epoch_start(10);
            manx_epoch_end_at(10, LONG_NS, i % 2 ? 100 : 0.0 / 0.0);
        }
        CHECK(window_ns(9) == 100000000);
        CHECK(window_ns(10) == 0);
    } else if (!strcmp(what, "overridden")) {
        requests(7, LONG_NS, 20);
        requests(8, 0, 20);
        CHECK(window_ns(7) == 0);
        CHECK(window_ns(8) == 100000000);
    } else if (!strcmp(what, "interrupted")) {
        interrupted();
    } else if (!strcmp(what, "threads")) {
        threads(10);
        long before = mappings();
        threads(500);
        CHECK(mappings() < before + 20);
        CHECK(passed == 5100);
    } else {
        fprintf(stderr, "%s: not understood\n", what);
        return 2;
    }
    return 0;
}
