// Forks while a timer's handler asks for itself again, as handlers of System V had to.
#include "loops.h"

#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int hits;

static void again(int signal_number) {
    hits++;
    signal(signal_number, again);
}

int main(void) {
    one_thread();
    signal(SIGALRM, again);
    struct itimerval timer = {{0, 97}, {0, 97}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    for (int round = 0; round < 500 || (hits == 0 && round < 100000); round++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        CHECK(child > 0);
        while (waitpid(child, NULL, 0) < 0)
            CHECK(errno == EINTR);
    }
    CHECK(hits > 0);
    return 0;
}
