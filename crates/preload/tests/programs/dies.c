/* Ends by SIGTRAP in the way that its argument names. */
#include "loops.h"
#include <signal.h>
#include <unistd.h>

static volatile int ready = 1;
static void *nothing(void *unused) { return unused; }
static void handler(int signal) { (void)signal; }

int main(int count, char **arguments) {
    (void)count;
    const char *way = arguments[1];
    pthread_join(start(nothing, NULL), NULL);
    wait_by_trap(&ready);
    sigset_t all;
    sigfillset(&all);
    if (strcmp(way, "raise") == 0) raise(SIGTRAP);
    if (strcmp(way, "kill") == 0) kill(getpid(), SIGTRAP);
    if (strcmp(way, "ignored") == 0) signal(SIGTRAP, SIG_IGN);
    if (strcmp(way, "blocked") == 0) signal(SIGTRAP, handler), sigprocmask(SIG_SETMASK, &all, NULL);
    if (strcmp(way, "unblocked") == 0) {
        sigprocmask(SIG_SETMASK, &all, NULL);
        raise(SIGTRAP);
        wait_by_trap(&ready);
        puts("pending");
        fflush(stdout);
        sigprocmask(SIG_UNBLOCK, &all, NULL);
        _exit(3);
    }
    __asm__ volatile("int3");
    return 4;
}
