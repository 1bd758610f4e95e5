/* A handler leaves a busy wait by siglongjmp, again and again; the wait is given up in the middle. */
#include "loops.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int never, ready = 1;
static volatile sig_atomic_t left;
static loop *wait_for;

static void handler(int signal) {
    (void)signal;
    left++;
    siglongjmp(back, 1);
}

int main(int count, char **arguments) {
    (void)count;
    wait_for = loop_named(arguments[1]);
    one_thread();
    struct sigaction action = {.sa_handler = handler};
    sigfillset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    while (left < 40) {
        if (sigsetjmp(back, 1) == 0) {
            /* Sooner or later: while it spins, yields or sleeps. */
            struct itimerval once = {.it_value = {.tv_usec = 50 + 150 * left}};
            setitimer(ITIMER_REAL, &once, NULL);
            wait_for(&never);
            FAIL("came back");
        }
        wait_for(&ready);
    }
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    CHECK(sigismember(&now, SIGTERM) == 0 && sigismember(&now, SIGALRM) == 0);
    return 0;
}
