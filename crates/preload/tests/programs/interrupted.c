/* A handler of a signal has interrupted a wait between two instructions, which one jump would replace, and creates the
 * program's first thread. When it returns, the wait goes on between them. */
#include "loops.h"
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile int word, created;
static pthread_t thread;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    static volatile unsigned char *place;
    if (place == NULL) place = pause_in(wait_by_row);
    unsigned long at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] - (unsigned long)place;
    /* Behind the PAUSE, or behind the load. */
    if (created || (at != 2 && at != 4)) return;
    created = 1;
    thread = start(sets_soon, (void *)&word);
}

static char own[1 << 16];

int main(int count, char **arguments) {
    (void)arguments;
    int flags = SA_SIGINFO | SA_RESTART;
    if (count > 1) {
        stack_t stack = {.ss_sp = own, .ss_size = sizeof own};
        CHECK(sigaltstack(&stack, NULL) == 0);
        flags |= SA_ONSTACK;
    }
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    wait_by_row(&word);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(created && pthread_join(thread, NULL) == 0);
    wait_in(wait_by_whole);
    return 0;
}
