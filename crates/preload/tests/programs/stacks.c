/* Busy waits on alternate stacks that are as small as the constant allows, and on small thread stacks. */
#include "loops.h"
#include <limits.h>
#include <signal.h>
#include <unistd.h>

static volatile int words[20], ready = 1;
static loop *wait_for;

static void *worker(void *unused) {
    char small[2048];
    stack_t stack = {.ss_sp = small, .ss_size = sizeof small}, seen;
    CHECK(sigaltstack(&stack, NULL) == 0);
    CHECK(sigaltstack(NULL, &seen) == 0 && seen.ss_sp == small && seen.ss_size == sizeof small);
    for (int n = 0; n < 20; n++) wait_for(&words[n]);
    CHECK(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, &seen) == 0 && seen.ss_sp == small);
    CHECK(sigaltstack(NULL, &seen) == 0 && seen.ss_flags == SS_DISABLE);
    wait_for(&ready);
    return unused;
}

static void *nothing(void *unused) { return unused; }

int main(int count, char **arguments) {
    (void)count;
    wait_for = loop_named(arguments[1]);
    one_cpu();
    pthread_join(start(nothing, NULL), NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, 20480) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, worker, NULL) == 0);
    for (int n = 0; n < 20; n++) {
        usleep(500);
        words[n] = 1;
    }
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
