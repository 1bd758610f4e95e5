// Forks while another thread waits in a loop; the child creates threads that wait, and executes a program.
#include "loops.h"

#include <sys/wait.h>
#include <unistd.h>

static volatile int flag, stop;
static loop *waits;

static void *waiter(void *word) {
    waits(word);
    return NULL;
}

static void *taker(void *unused) {
    (void)unused;
    while (!stop) {
        flag = 0;
        pthread_t thread = start(waiter, (void *)&flag);
        usleep(50);
        flag = 1;
        pthread_join(thread, NULL);
    }
    return NULL;
}

static int in_child(void) {
    static volatile int word;
    pthread_t thread = start(waiter, (void *)&word);
    usleep(1500);
    word = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    execlp("true", "true", NULL);
    return 1;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    waits = loop_named(arguments[1]);
    one_cpu();
    pthread_t thread = start(taker, NULL);
    for (int round = 0; round < 100; round++) {
        pid_t child = round % 2 ? vfork() : fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (round % 2) {
                execlp("true", "true", NULL);
                _exit(1);
            }
            _exit(in_child());
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    stop = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
