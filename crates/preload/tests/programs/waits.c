/* Signals arrive in threads that wait for them with every other signal blocked, and their handlers wait
 * busily. */
#include "loops.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SUSPEND, PSELECT, PPOLL, EPOLL, EPOLL2, WAYS };

static volatile int word, inside, tid;
static loop *wait_for;

static void handler(int signal) {
    (void)signal;
    inside = 1;
    wait_for(&word);
}

static void *waiter(void *way) {
    sigset_t all, but_one, seen;
    sigfillset(&all), sigfillset(&but_one), sigdelset(&but_one, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    struct epoll_event event;
    struct timespec long_time = {50, 0};
    int epoll = epoll_create1(0), result = 0;
    __atomic_store_n(&tid, gettid(), __ATOMIC_SEQ_CST);
    switch ((long)way) {
    case SUSPEND: result = sigsuspend(&but_one); break;
    case PSELECT: result = pselect(0, NULL, NULL, NULL, NULL, &but_one); break;
    case PPOLL: result = ppoll(NULL, 0, NULL, &but_one); break;
    case EPOLL: result = epoll_pwait(epoll, &event, 1, -1, &but_one); break;
    case EPOLL2:
        result = epoll_pwait2(epoll, &event, 1, &long_time, &but_one);
        if (errno == ENOSYS) { /* the kernel is older than the call */
            result = epoll_pwait(epoll, &event, 1, -1, &but_one);
        }
    }
    CHECK(result == -1 && errno == EINTR);
    close(epoll);
    pthread_sigmask(SIG_BLOCK, NULL, &seen);
    CHECK(sigismember(&seen, SIGTERM) == 1 && sigismember(&seen, SIGUSR1) == 1);
    return NULL;
}

static void cleanup(void *unused) {
    (void)unused;
    inside = 1;
}

/* Cancelled in the middle of a wait with another mask. */
static void *cancelled(void *unused) {
    sigset_t all, usr2;
    sigfillset(&all), sigemptyset(&usr2), sigaddset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &usr2, NULL);
    pthread_cleanup_push(cleanup, NULL);
    __atomic_store_n(&tid, gettid(), __ATOMIC_SEQ_CST);
    ppoll(NULL, 0, NULL, &all);
    pthread_cleanup_pop(0);
    return unused;
}

/* A child of vfork lives in its parent's memory; what it blocks and handles is its own. */
static void vforks(void) {
    sigset_t all, seen;
    sigfillset(&all);
    struct sigaction action = {.sa_handler = SIG_IGN}, now;
    pid_t child = vfork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &all, NULL);
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGUSR1, &action, NULL);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &seen) == 0 && sigismember(&seen, SIGTERM) == 0);
    CHECK(sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0 && sigismember(&now.sa_mask, SIGTERM) == 1);
}

int main(int count, char **arguments) {
    (void)count;
    wait_for = loop_named(arguments[1]);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, seen;
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    one_thread();
    CHECK(sigaction(SIGUSR1, NULL, &seen) == 0 && sigismember(&seen.sa_mask, SIGTERM) == 1);
    one_cpu();
    for (long way = 0; way < WAYS; way++) {
        word = inside = tid = 0;
        pthread_t thread = start(waiter, (void *)way);
        while (__atomic_load_n(&tid, __ATOMIC_SEQ_CST) == 0) usleep(100);
        /* Not yet waiting or already: the signal is blocked until it does. */
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        while (!inside) usleep(100);
        usleep(1000);
        word = 1;
        pthread_join(thread, NULL);
    }
    inside = tid = 0;
    pthread_t thread = start(cancelled, NULL);
    while (__atomic_load_n(&tid, __ATOMIC_SEQ_CST) == 0) usleep(100);
    void *result;
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(inside == 1);
    vforks();
    return 0;
}
