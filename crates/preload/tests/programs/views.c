/* Asks for everything that has to do with SIGTRAP, and prints what it sees. What it prints must not depend on
 * whether it runs under Manx. */
#include "loops.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>


#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

extern int sigsetmask(int), sigblock(int), siggetmask(void);
extern __sighandler_t sysv_signal(int, __sighandler_t), __sysv_signal(int, __sighandler_t);
extern int __sigaction(int, const struct sigaction *, struct sigaction *), __xpg_sigpause(int);

static void handle(int signal) { (void)signal; }
static void handle_info(int signal, siginfo_t *info, void *context) { (void)signal, (void)info, (void)context; }

static const char *name(void *handler) {
    if (handler == SIG_DFL) return "default";
    if (handler == SIG_IGN) return "ignore";
    if (handler == SIG_ERR) return "error";
    if (handler == SIG_HOLD) return "hold";
    if (handler == (void *)handle) return "handle";
    if (handler == (void *)handle_info) return "handle_info";
    return "unknown";
}

static unsigned long word(const sigset_t *set) { return *(const unsigned long *)set; }

static void show_action(const char *what, int signal) {
    struct sigaction now;
    memset(&now, 0, sizeof now);
    int result = sigaction(signal, NULL, &now);
    printf("%-28s signal %d: %d %s flags %x mask %lx\n", what, signal, result, name((void *)now.sa_handler),
           now.sa_flags, word(&now.sa_mask));
}

static void show_mask(const char *what) {
    sigset_t now, other, pending;
    sigemptyset(&now), sigemptyset(&other), sigemptyset(&pending);
    int result = sigprocmask(SIG_BLOCK, NULL, &now), second = pthread_sigmask(SIG_SETMASK, NULL, &other);
    sigpending(&pending);
    printf("%-28s %d %d mask %lx %lx %x pending %lx\n", what, result, second, word(&now), word(&other), siggetmask(),
           word(&pending));
}

static void act(int signal, void *handler, int flags, unsigned long mask) {
    struct sigaction new = {0}, old = {0};
    new.sa_handler = handler, new.sa_flags = flags;
    sigemptyset(&new.sa_mask);
    *(unsigned long *)&new.sa_mask = mask;
    int result = (flags & 1 ? __sigaction : sigaction)(signal, &new, &old);
    printf("sigaction %d: %d, was %s %x %lx\n", signal, result, name((void *)old.sa_handler), old.sa_flags, word(&old.sa_mask));
    show_action("  now", signal);
}

static void change(int (*function)(int, const sigset_t *, sigset_t *), int how, unsigned long mask) {
    sigset_t new, old;
    sigemptyset(&new), sigemptyset(&old);
    *(unsigned long *)&new = mask;
    int result = function(how, &new, &old);
    printf("change %d %lx: %d errno %d, was %lx\n", how, mask, result, result == 0 ? 0 : errno, word(&old));
    show_mask("  now");
}

static void *look(void *what) {
    show_mask(what);
    return NULL;
}

static int look_c11(void *what) {
    show_mask(what);
    return 7;
}

static void threads(const char *what) {
    pthread_t thread;
    pthread_create(&thread, NULL, look, (void *)what);
    pthread_join(thread, NULL);
    thrd_t second;
    int result;
    thrd_create(&second, look_c11, (void *)what);
    thrd_join(second, &result);
    printf("  %d\n", result);
}

static void with_attributes(unsigned long mask) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t set, seen;
    sigemptyset(&set), sigemptyset(&seen);
    pthread_attr_init(&attributes);
    printf("attributes: %d", pthread_attr_getsigmask_np(&attributes, &seen));
    *(unsigned long *)&set = mask;
    printf(" %d", pthread_attr_setsigmask_np(&attributes, &set));
    printf(" %d", pthread_attr_getsigmask_np(&attributes, &seen));
    printf(" %lx\n", word(&seen));
    sigset_t expected = set;
    *(unsigned long *)&expected &= ~(3ul << 31);
    printf("  alike %d\n", word(&expected) == word(&seen)); // the words behind it are never written
    pthread_create(&thread, &attributes, look, "  its thread");
    pthread_join(thread, NULL);
    printf("  after: %d", pthread_attr_getsigmask_np(&attributes, &seen));
    printf(" %lx\n", word(&seen));
    pthread_attr_destroy(&attributes);
}

static void waits(unsigned long mask) {
    sigset_t set;
    sigemptyset(&set);
    *(unsigned long *)&set = mask;
    struct timespec soon = {0, 1000};
    struct pollfd none[1] = {{.fd = -1}};
    struct epoll_event event;
    int epoll = epoll_create1(0);
    printf("waits: %d %d %d", pselect(0, NULL, NULL, NULL, &soon, &set), ppoll(none, 1, &soon, &set),
           epoll_pwait(epoll, &event, 1, 1, &set));
    int result = epoll_pwait2(epoll, &event, 1, &soon, &set);
    printf(" %d\n", result < 0 && errno == ENOSYS ? 0 : result);
    close(epoll);
    show_mask("  then");
}

int main(int count, char **arguments) {
    volatile int ready = 1;
    if (count > 1 && strcmp(arguments[1], "early") == 0) {
        /* What is set before the first breakpoint must be found afterwards. */
        act(SIGTRAP, handle_info, SA_SIGINFO | SA_RESTART, 0x1234);
        act(SIGUSR2, handle, SA_RESTART, ~0ul);
        change(sigprocmask, SIG_SETMASK, 0x50);
    }
    pthread_t first = start(look, "the first thread");
    pthread_join(first, NULL);
    for (int n = 0; n < 3; n++) wait_by_trap(&ready);
    show_mask("at first");
    for (int signal = 1; signal <= 64; signal++) show_action("at first", signal);

    static const unsigned long masks[] = {0, 0x10, 0x210, 0x200, ~0ul};
    for (int n = 0; n < 5; n++) {
        act(SIGUSR1, handle, SA_RESTART, masks[n]);
        act(SIGTRAP, handle, SA_NODEFER, masks[n]);
        act(SIGTRAP, handle_info, SA_SIGINFO | SA_RESETHAND | SA_ONSTACK, masks[n]);
    }
    act(SIGKILL, handle, 0, 0);
    act(65, handle, 0, 0);
    act(0, handle, 0, 0);
    act(SIGTRAP, SIG_IGN, 0, 0);
    act(SIGTRAP, SIG_DFL, 0, 0);

    for (int signal = SIGTRAP; signal <= SIGABRT; signal++) {
        act(signal, handle, 0, ~0ul);
        printf("sigignore: %d\n", sigignore(signal));
        show_action("sigignore", signal);
        printf("sigset: %s\n", name((void *)sigset(signal, handle)));
        show_action("sigset", signal);
        printf("sigset: %s\n", name((void *)sigset(signal, SIG_HOLD)));
        show_mask("held");
        show_action("held", signal);
        printf("sigset: %s\n", name((void *)sigset(signal, SIG_IGN)));
        show_mask("let go");
        printf("sysv_signal: %s\n", name((void *)sysv_signal(signal, handle)));
        show_action("sysv_signal", signal);
        printf("__sysv_signal: %s\n", name((void *)__sysv_signal(signal, SIG_DFL)));
        show_action("__sysv_signal", signal);
        printf("ssignal: %s\n", name((void *)ssignal(signal, handle)));
        show_action("ssignal", signal);
        printf("siginterrupt: %d\n", siginterrupt(signal, 1));
        show_action("siginterrupt", signal);
    }
    for (int n = SIGTRAP; n <= SIGABRT; n++) {
        printf("signal: %s\n", name((void *)(signal)(n, SIG_IGN)));
        show_action("signal", n);
        printf("siginterrupt: %d\n", siginterrupt(n, 0));
        printf("signal: %s\n", name((void *)(signal)(n, handle)));
        show_action("signal", n);
        printf("signal: %s\n", name((void *)(signal)(n, SIG_ERR)));
        printf("signal: %s\n", name((void *)(signal)(n, SIG_DFL)));
    }

    for (int n = 0; n < 5; n++) {
        for (int how = -1; how <= 3; how++) {
            change(sigprocmask, how, masks[n]);
            change(pthread_sigmask, how, masks[n]);
        }
        threads("  a new thread");
        with_attributes(masks[n]);
        waits(masks[n]);
    }
    change(sigprocmask, SIG_SETMASK, 0);
    threads("with nothing blocked");
    printf("sighold %d\n", sighold(SIGTRAP)), show_mask("sighold");
    printf("sighold %d\n", sighold(SIGUSR1)), show_mask("sighold");
    printf("sigrelse %d\n", sigrelse(SIGTRAP)), show_mask("sigrelse");
    printf("sigrelse %d\n", sigrelse(SIGUSR1)), show_mask("sigrelse");
    printf("sigsetmask %x\n", sigsetmask(0x10)), show_mask("sigsetmask");
    printf("sigblock %x\n", sigblock(0x200)), show_mask("sigblock");
    printf("sigblock %x\n", sigblock(0x10)), show_mask("sigblock");
    printf("sigsetmask %x\n", sigsetmask(0x200)), show_mask("sigsetmask");
    printf("sigsetmask %x\n", sigsetmask(0)), show_mask("sigsetmask");

    /* Pending, and taken. */
    act(SIGTRAP, handle, 0, 0);
    change(sigprocmask, SIG_SETMASK, 0x10);
    raise(SIGTRAP), show_mask("raised");
    raise(SIGTRAP), show_mask("raised again");
    sigset_t trap;
    sigemptyset(&trap), sigaddset(&trap, SIGTRAP);
    siginfo_t info;
    int taken = sigwaitinfo(&trap, &info);
    printf("sigwaitinfo %d code %d self %d\n", taken, info.si_code, info.si_pid == getpid());
    show_mask("taken");
    kill(getpid(), SIGTRAP), show_mask("killed");
    printf("sigwait %d", sigwait(&trap, &taken));
    printf(" %d\n", taken), show_mask("taken");
    struct timespec soon = {0, 1000000};
    taken = sigtimedwait(&trap, &info, &soon);
    printf("sigtimedwait %d errno %d\n", taken, errno);
    raise(SIGTRAP);
    act(SIGTRAP, SIG_IGN, 0, 0);
    show_mask("dropped");
    act(SIGTRAP, handle, 0, 0);
    raise(SIGTRAP);
    sigset_t none;
    sigemptyset(&none);
    errno = 0;
    int result = sigsuspend(&none);
    printf("sigsuspend %d errno %d\n", result, errno);
    show_mask("suspended");
    raise(SIGTRAP);
    errno = 0;
    result = __xpg_sigpause(SIGTRAP);
    printf("sigpause %d errno %d\n", result, errno);
    show_mask("paused");

    stack_t small = {.ss_sp = malloc(2048), .ss_size = 2048}, seen;
    printf("sigaltstack %d", sigaltstack(&small, NULL));
    printf(" %d %d %zu %x\n", sigaltstack(NULL, &seen), seen.ss_sp == small.ss_sp, seen.ss_size, seen.ss_flags);
    small.ss_size = 100;
    result = sigaltstack(&small, NULL);
    printf("sigaltstack %d errno %d\n", result, errno);
    small.ss_flags = SS_DISABLE;
    printf("sigaltstack %d", sigaltstack(&small, &seen));
    printf(" %d %zu %x\n", seen.ss_sp == small.ss_sp, seen.ss_size, seen.ss_flags);
    printf("sigaltstack %d", sigaltstack(NULL, &seen));
    printf(" %x\n", seen.ss_flags);
    return 0;
}
