/* A program with a handler for SIGTRAP of its own, while breakpoints stand in it. */
#include "loops.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int ready = 1;
static volatile sig_atomic_t count, code, blocked_inside, usr1_inside, last;
static volatile int from_self;
static void *volatile address;
static sigjmp_buf back;

static void plain(int signal) {
    count++;
    last = signal;
}

static void with_info(int signal, siginfo_t *info, void *context) {
    (void)context;
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    blocked_inside = sigismember(&now, SIGTRAP), usr1_inside = sigismember(&now, SIGUSR1);
    code = info->si_code, from_self = info->si_pid == getpid(), last = signal;
    wait_by_trap(&ready);
    count++;
    errno = EXDEV;
}

static void with_context(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    address = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    count++;
}

static void nested(int signal) {
    (void)signal;
    if (count++ == 0) {
        raise(SIGTRAP);
        CHECK(count == 1); /* deferred until this returns */
    }
}

static void jumps(int signal) {
    (void)signal;
    count++;
    siglongjmp(back, 1);
}

static void handle(void *handler, int flags) {
    struct sigaction new = {0};
    new.sa_handler = handler, new.sa_flags = flags;
    sigemptyset(&new.sa_mask), sigaddset(&new.sa_mask, SIGUSR1);
    CHECK(sigaction(SIGTRAP, &new, NULL) == 0);
    count = 0;
}

static void *nothing(void *unused) { return unused; }

int main(void) {
    pthread_join(start(nothing, NULL), NULL);
    wait_by_trap(&ready);

    handle(plain, 0);
    raise(SIGTRAP);
    CHECK(count == 1 && last == SIGTRAP);
    kill(getpid(), SIGTRAP);
    CHECK(count == 2);
    __asm__ volatile("int3");
    CHECK(count == 3);

    handle(with_info, SA_SIGINFO);
    errno = 0;
    raise(SIGTRAP);
    CHECK(count == 1 && code == SI_TKILL && from_self && blocked_inside == 1 && usr1_inside == 1 && errno == EXDEV);
    kill(getpid(), SIGTRAP);
    CHECK(count == 2 && code == SI_USER && from_self);
    sigqueue(getpid(), SIGTRAP, (union sigval){.sival_int = 7});
    CHECK(count == 3 && code == SI_QUEUE);
    __asm__ volatile("int3");
    CHECK(count == 4 && code == SI_KERNEL);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    CHECK(sigismember(&now, SIGTRAP) == 0 && sigismember(&now, SIGUSR1) == 0);

    handle(with_context, SA_SIGINFO);
    void *behind;
    __asm__ volatile("lea 1f(%%rip), %0\n int3\n1:" : "=r"(behind) : : "memory");
    CHECK(count == 1 && address == behind);

    /* Blocked, it waits, with what is known of it. */
    handle(with_info, SA_SIGINFO);
    sigset_t trap;
    sigemptyset(&trap), sigaddset(&trap, SIGTRAP);
    sigprocmask(SIG_BLOCK, &trap, NULL);
    sigqueue(getpid(), SIGTRAP, (union sigval){.sival_int = 7});
    wait_by_trap(&ready);
    CHECK(count == 0);
    sigprocmask(SIG_UNBLOCK, &trap, NULL);
    CHECK(count == 1 && code == SI_QUEUE);
    sigprocmask(SIG_BLOCK, &trap, NULL);
    raise(SIGTRAP);
    raise(SIGTRAP);
    CHECK(count == 1);
    sigprocmask(SIG_UNBLOCK, &trap, NULL);
    CHECK(count == 2 && code == SI_TKILL);

    handle(nested, 0);
    raise(SIGTRAP);
    CHECK(count == 2);
    handle(plain, SA_RESETHAND);
    raise(SIGTRAP);
    struct sigaction seen;
    CHECK(count == 1 && sigaction(SIGTRAP, NULL, &seen) == 0 && seen.sa_handler == SIG_DFL);

    for (int round = 0; round < 3; round++) {
        handle(jumps, 0);
        if (sigsetjmp(back, 1) == 0) {
            raise(SIGTRAP);
            FAIL("came back");
        }
        CHECK(count == 1);
        wait_by_trap(&ready);
        if (sigsetjmp(back, 1) == 0) {
            __asm__ volatile("int3");
            FAIL("came back");
        }
        CHECK(count == 2);
    }
    handle(SIG_IGN, 0);
    raise(SIGTRAP);
    wait_by_trap(&ready);
    return 0;
}
