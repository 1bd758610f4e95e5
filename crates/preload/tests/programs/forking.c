// A timer's handler forks, in the middle of whatever its thread does: opening, searching and closing a library.
#include "loops.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int children;

static void forks(int signal_number) {
    (void)signal_number;
    int error = errno;
    pid_t child = fork();
    if (child == 0) _exit(0);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    children++;
    errno = error;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    one_thread();
    signal(SIGALRM, forks);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    struct itimerval timer = {{0, 397}, {0, 397}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    for (int round = 0; round < 200 || (children == 0 && round < 100000); round++) {
        // The loader is not made for handlers that fork in its middle; what is called behind it is.
        sigprocmask(SIG_BLOCK, &alarm, NULL);
        void *library = dlopen(arguments[1], RTLD_NOW);
        CHECK(library != NULL);
        sigprocmask(SIG_UNBLOCK, &alarm, NULL);
        one_thread();
        sigprocmask(SIG_BLOCK, &alarm, NULL);
        CHECK(dlclose(library) == 0);
        sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    }
    CHECK(children > 0);
    // At the end of a program the C library takes a lock that its fork takes, too.
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    return 0;
}
