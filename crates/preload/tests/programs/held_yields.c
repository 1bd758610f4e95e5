// Whether a thread that releases a mutex yields its CPU while it holds another lock. Each yield of the process is seen
// by a filter of system calls.
#include "lock_probe.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define THREADS 12

static pthread_mutex_t wanted = PTHREAD_MUTEX_INITIALIZER;
static atomic_long yields, yields_with_a_lock;
static __thread volatile int releasing, holding;

static void saw_yield(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    if (releasing)
        atomic_fetch_add(holding ? &yields_with_a_lock : &yields, 1);
}

static void watch_yields(void) {
    struct sigaction action = {.sa_sigaction = saw_yield, .sa_flags = SA_SIGINFO | SA_NODEFER};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        SKIP("no filter of system calls: %s", strerror(errno));
}

static int with_spin_lock;

static void *contend(void *unused) {
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_spinlock_t own_spin_lock;
    IS(pthread_spin_init(&own_spin_lock, PTHREAD_PROCESS_PRIVATE), 0);
    struct timespec end = after_ns(CLOCK_MONOTONIC, 1500 * MS);
    for (int round = 0; !is_over(CLOCK_MONOTONIC, &end); round++) {
        // Every other quarter of a thousand rounds with a lock in its hands.
        int with = round / 256 % 2;
        if (with)
            IS(with_spin_lock ? pthread_spin_lock(&own_spin_lock) : pthread_mutex_lock(&own), 0);
        holding = with;
        IS(pthread_mutex_lock(&wanted), 0);
        work_ns(CLOCK_MONOTONIC, 1000);
        releasing = 1;
        IS(pthread_mutex_unlock(&wanted), 0);
        releasing = 0;
        holding = 0;
        if (with)
            IS(with_spin_lock ? pthread_spin_unlock(&own_spin_lock) : pthread_mutex_unlock(&own), 0);
        work_ns(CLOCK_MONOTONIC, 1000);
    }
    return unused;
}

static void releases_yield_only_with_empty_hands(void) {
    watch_yields();
    // Beside other programs the mutex may be held all the time, and its waiters sleep: then no thread yields.
    for (int run = 0; run < 24 && atomic_load(&yields) == 0; run++)
        run_all(THREADS, contend, NULL);
    if (atomic_load(&yields_with_a_lock) != 0)
        FAIL("%ld yields with a lock in its hands, %ld without", atomic_load(&yields_with_a_lock), atomic_load(&yields));
    if (atomic_load(&yields) == 0)
        SKIP("nobody yielded: there are too many CPUs");
}

static void with_a_mutex(void) {
    releases_yield_only_with_empty_hands();
}

static void with_a_spin_lock(void) {
    with_spin_lock = 1;
    releases_yield_only_with_empty_hands();
}

PROBES(P(with_a_mutex), P(with_a_spin_lock))
