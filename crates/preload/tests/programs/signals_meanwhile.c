// A timer's signals arrive in every stage of a wait, and their handler waits as well, counts, and changes
// errno back; the interrupted loop goes on.
#include "loops.h"

#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static volatile int flag, caught;
static loop *waits;

static void on_alarm(int signal) {
    (void)signal;
    static const int set = 1;
    caught++;
    waits((volatile int *)&set);
}

static void *worker(void *unused) {
    (void)unused;
    errno = 4711;
    waits(&flag);
    CHECK(errno == 4711);
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    waits = loop_named(arguments[1]);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    for (int round = 0; round < 20; round++) {
        flag = 0;
        pthread_t thread = start(worker, NULL);
        struct itimerval often = {{0, 200}, {0, 200}};
        CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
        for (int i = 0; i < 20; i++) {
            pthread_kill(thread, SIGALRM);
            usleep(300);
        }
        struct itimerval off = {{0, 0}, {0, 0}};
        CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
        flag = 1;
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(caught >= 20);
    return 0;
}
