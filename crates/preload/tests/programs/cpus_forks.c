// Forks a thousand times while other threads ask all the time; each child asks too, and so does one that has waited until the
// count is too old to be kept. The argument is the count.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int stop;
static long expected;

static void *asks(void *unused) {
    while (!atomic_load(&stop))
        CHECK(sysconf(_SC_NPROCESSORS_ONLN) == expected);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    expected = atol(argv[1]);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, asks, NULL) == 0);
    for (int round = 0; round < 1000; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            // Ends a child that waits for somebody who is not there.
            alarm(30);
            if (round % 100 == 0)
                usleep(120 * 1000);
            _exit(sysconf(_SC_NPROCESSORS_ONLN) == expected ? 0 : 1);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
