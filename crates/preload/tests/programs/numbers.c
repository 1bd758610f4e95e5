/* Blocks and handles signals by the numbers of the system calls, made by the C library. */
#include "loops.h"
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct kernel_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

static volatile int words[20], ready = 1;
static loop *wait_for;

static void *worker(void *unused) {
    unsigned long all = ~0ul, old = 1, kill_and_stop = 1ul << (SIGKILL - 1) | 1ul << (SIGSTOP - 1);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8) == 0 && old == 0);
    for (int n = 0; n < 20; n++) wait_for(&words[n]);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &old, 8) == 0 && old == (all & ~kill_and_stop));
    return unused;
}

static void *nothing(void *unused) { return unused; }

int main(int count, char **arguments) {
    (void)count;
    wait_for = loop_named(arguments[1]);
    pthread_join(start(nothing, NULL), NULL);
    struct kernel_action ignore = {.handler = SIG_IGN, .mask = 0x210}, seen;
    for (int signal = SIGTRAP; signal <= SIGABRT; signal++) {
        CHECK(syscall(SYS_rt_sigaction, signal, &ignore, &seen, 8) == 0 && seen.handler == SIG_DFL);
        CHECK(syscall(SYS_rt_sigaction, signal, NULL, &seen, 8) == 0 && seen.handler == SIG_IGN && seen.mask == 0x210);
        for (int n = 0; n < 3; n++) wait_for(&ready);
    }
    raise(SIGTRAP), raise(SIGABRT);
    errno = 0;
    CHECK(syscall(SYS_rt_sigaction, SIGTRAP, NULL, &seen, 4) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_rt_sigprocmask, 77, &ignore.mask, NULL, 8) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_getpid) == getpid());
    /* All six arguments arrive. */
    long flags = MAP_PRIVATE | MAP_ANONYMOUS;
    CHECK(syscall(SYS_mmap, NULL, 4096ul, (long)PROT_READ, flags, -1l, 0l) > 0);
    CHECK(syscall(SYS_mmap, NULL, 4096ul, (long)PROT_READ, flags, -1l, 1l) == -1 && errno == EINVAL);
    char byte = 7, copy[4] = {0};
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], &byte, 1) == 1);
    CHECK(syscall(SYS_read, ends[0], copy, 4ul) == 1 && copy[0] == 7);
    one_cpu();
    pthread_t thread = start(worker, NULL);
    for (int n = 0; n < 20; n++) {
        usleep(500);
        words[n] = 1;
    }
    return pthread_join(thread, NULL);
}
