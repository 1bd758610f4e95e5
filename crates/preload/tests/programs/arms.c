/* A library with a loop that needs a breakpoint is opened while another thread runs, which has blocked every
 * signal ("blocked") or none ("open"). */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition) ((condition) ? (void)0 : (fprintf(stderr, "%d: %s\n", __LINE__, #condition), exit(1)))

static int blocks, started[2], ended[2];
static void (*wait_by_trap)(volatile int *);
static volatile int ready = 1;

static void *other(void *unused) {
    char byte = 0;
    sigset_t all, seen;
    sigfillset(&all);
    if (blocks) CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    CHECK(write(started[1], &byte, 1) == 1 && read(ended[0], &byte, 1) == 1);
    for (int n = 0; n < 3; n++) wait_by_trap(&ready);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &seen) == 0 && sigismember(&seen, SIGTRAP) == blocks);
    /* From now on the library is there. */
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    for (int n = 0; n < 3; n++) wait_by_trap(&ready);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &seen) == 0 && sigismember(&seen, SIGTRAP) == 1);
    return unused;
}

int main(int count, char **arguments) {
    char byte = 0;
    CHECK(count == 3 && pipe(started) == 0 && pipe(ended) == 0);
    blocks = strcmp(arguments[1], "blocked") == 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0 && read(started[0], &byte, 1) == 1);
    void *library = dlopen(arguments[2], RTLD_NOW);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    *(void **)&wait_by_trap = dlsym(library, "wait_by_trap");
    CHECK(wait_by_trap != NULL);
    for (int n = 0; n < 3; n++) wait_by_trap(&ready);
    CHECK(write(ended[1], &byte, 1) == 1 && pthread_join(thread, NULL) == 0);
    return 0;
}
