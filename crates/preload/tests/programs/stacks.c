/* Busy waits on alternate stacks that are as small as the constant allows, and on small thread stacks. */
#include "loops.h"
#include <limits.h>
#include <signal.h>
#include <unistd.h>

static volatile int words[20], ready = 1, handled;
static loop *wait_for;

/* A handler on an alternate stack of the usual size waits itself. */
static void on_stack(int signal) {
    volatile char here = (char)signal;
    stack_t now;
    CHECK(sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK) != 0 && here != 0);
    for (int n = 0; n < 3; n++) wait_for(&ready);
    handled++;
}

static void *usual(void *unused) {
    static char stack[8192];
    struct sigaction action = {.sa_handler = on_stack, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) == 0);
    raise(SIGUSR1);
    CHECK(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL) == 0);
    return unused;
}

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

int main(int count, char **arguments) {
    (void)count;
    wait_for = loop_named(arguments[1]);
    one_cpu();
    one_thread();
    pthread_join(start(usual, NULL), NULL);
    CHECK(handled == 1);
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
