// A thread with the smallest stack that there is, another one on a page of a coroutine's, wait.
#include "loops.h"

#include <limits.h>
#include <ucontext.h>

static volatile int word;
static loop *waits;
static ucontext_t caller, coroutine;
static char stack[4096] __attribute__((aligned(64)));

static void *setter(void *unused) {
    for (int round = 0; round < 2000; round++)
        sched_yield();
    word = 1;
    return unused;
}

static void wait_here(void) { waits(&word); }

static void *waiter(void *unused) {
    waits(&word);
    return unused;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    one_cpu();
    waits = loop_named(arguments[1]);
    pthread_attr_t small;
    pthread_t thread, other = start(setter, NULL);
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN) == 0);
    CHECK(pthread_create(&thread, &small, waiter, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && pthread_join(other, NULL) == 0);
    word = 0;
    other = start(setter, NULL);
    CHECK(getcontext(&coroutine) == 0);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = sizeof stack;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, wait_here, 0);
    CHECK(swapcontext(&caller, &coroutine) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    return 0;
}
