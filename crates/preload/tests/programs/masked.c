/* A worker that blocks every signal waits busily for the main thread, which has one CPU with it. */
#include "loops.h"
#include <signal.h>
#include <unistd.h>

static volatile int ready[50], arrived;
static loop *wait_for;

static void *worker(void *unused) {
    (void)unused;
    sigset_t all, seen;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    for (int n = 0; n < 50; n++) {
        arrived = n + 1;
        wait_for(&ready[n]);
    }
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &seen) == 0);
    CHECK(sigismember(&seen, SIGTERM) == 1 && sigismember(&seen, SIGUSR1) == 1);
    CHECK(sigismember(&seen, SIGKILL) == 0);
    return NULL;
}

int main(int count, char **arguments) {
    (void)count;
    wait_for = loop_named(arguments[1]);
    one_cpu();
    pthread_t thread = start(worker, NULL);
    for (int n = 0; n < 50; n++) {
        /* On a loaded machine the worker may come late: then it would have nothing to wait for. */
        while (arrived <= n) usleep(100);
        usleep(300);
        ready[n] = 1;
    }
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
