/* A library with loops is opened while another thread runs. Then both threads wait there, and that thread with every
 * signal blocked. */
#include "loops.h"
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

static int begun[2], opened[2];
static loop *loops[4];
enum { ROUNDS = 10 };
static volatile int words[4 * ROUNDS], ready = 1;
static volatile int waiting = -1;

static void *other(void *unused) {
    char byte = 0;
    CHECK(write(begun[1], &byte, 1) == 1 && read(opened[0], &byte, 1) == 1);
    sigset_t all, seen;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    for (int n = 0; n < 4 * ROUNDS; n++) {
        loops[n % 4](&ready);
        waiting = n;
        loops[n % 4](&words[n]);
    }
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &seen) == 0 && sigismember(&seen, SIGTERM) == 1);
    return unused;
}

int main(int count, char **arguments) {
    char byte = 0;
    CHECK(count == 2 && pipe(begun) == 0 && pipe(opened) == 0);
    pthread_t thread = start(other, NULL);
    CHECK(read(begun[0], &byte, 1) == 1);
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) FAIL("%s", dlerror());
    const char *names[] = {"wait_by_whole", "wait_by_row", "wait_by_short", "wait_in_no_way"};
    for (int n = 0; n < 4; n++) {
        *(void **)&loops[n] = dlsym(library, names[n]);
        CHECK(loops[n] != NULL && (void *)loops[n] != dlsym(RTLD_DEFAULT, names[n]));
    }
    /* The row's first instruction has become a jump. */
    CHECK(*(volatile unsigned char *)loops[1] == 0xe9);
    CHECK(write(opened[1], &byte, 1) == 1);
    for (int n = 0; n < 4 * ROUNDS; n++) {
        loops[n % 4](&ready);
        while (waiting < n) usleep(100);
        usleep(2000);
        words[n] = 1;
    }
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
