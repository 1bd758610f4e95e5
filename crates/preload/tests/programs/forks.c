/* Children of fork wait busily for their own threads, and for their parent through shared memory. */
#include "loops.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int *shared;
static volatile int own;
static loop *wait_for;

static void *set_own(void *unused) {
    usleep(500);
    own = 1;
    return unused;
}

static void *nothing(void *unused) { return unused; }

int main(int count, char **arguments) {
    (void)count;
    wait_for = loop_named(arguments[1]);
    one_cpu();
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pthread_join(start(nothing, NULL), NULL);
    sigset_t trap, seen;
    sigemptyset(&trap), sigaddset(&trap, SIGTRAP);
    CHECK(sigprocmask(SIG_BLOCK, &trap, NULL) == 0);
    raise(SIGTRAP);
    for (int n = 0; n < 8; n++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(sigprocmask(SIG_BLOCK, NULL, &seen) == 0 && sigismember(&seen, SIGTRAP) == 1);
            CHECK(sigpending(&seen) == 0);
            CHECK(sigprocmask(SIG_UNBLOCK, &trap, NULL) == 0); /* what is pending is the parent's */
            wait_for(&shared[n]);
            pthread_t thread = start(set_own, NULL);
            wait_for(&own);
            pthread_join(thread, NULL);
            if (n % 2 == 1) execl("/bin/true", "true", NULL);
            _exit(0);
        }
        usleep(2000);
        shared[n] = 1;
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    CHECK(sigpending(&seen) == 0 && sigismember(&seen, SIGTRAP) == 1);
    return 0;
}
