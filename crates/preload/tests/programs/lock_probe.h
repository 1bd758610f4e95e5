/* What the lock probes share: each program is a list of named probes and runs the one that it is given. A probe
 * returns, or says in one line what does not hold and exits with 1; one that hangs is ended by an alarm and says so.
 * Exit code 77: it cannot be tried here, for the reason on standard error. */
#ifndef LOCK_PROBE_H
#define LOCK_PROBE_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long a probe may take. Bounds a failure, and decides nothing else. */
#define PROBE_LIMIT_S 45

#define FAIL(...) \
    (fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, __func__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), _exit(1))
#define CHECK(condition) ((condition) ? (void)0 : FAIL("%s does not hold", #condition))
#define SKIP(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(77))

/* A call returns exactly this. */
#define IS(call, expected) \
    do { \
        int got_ = (call), wanted_ = (expected); \
        if (got_ != wanted_) \
            FAIL("%s is %d (%s), not %s", #call, got_, strerror(got_), #expected); \
    } while (0)

struct probe {
    const char *name;
    void (*run)(void);
};

static const char *probe_name = "no probe";

static void probe_hangs(int signal) {
    (void)signal;
    static const char text[] = ": hangs\n";
    if (write(2, probe_name, strlen(probe_name)) < 0 || write(2, text, sizeof text - 1) < 0)
        _exit(4);
    _exit(3);
}

static inline void set_alarm(void) {
    signal(SIGALRM, probe_hangs);
    alarm(PROBE_LIMIT_S);
}

static inline int run_probe(const struct probe *probes, size_t count, int arguments, char **argument) {
    if (arguments == 2 && strcmp(argument[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++)
            puts(probes[i].name);
        return 0;
    }
    for (size_t i = 0; i < count && arguments >= 2; i++)
        if (strcmp(argument[1], probes[i].name) == 0) {
            probe_name = probes[i].name;
            set_alarm();
            probes[i].run();
            return 0;
        }
    fprintf(stderr, "no such probe: try --list\n");
    return 2;
}

/* A probe by its function's name. */
#define P(name) {#name, name}
#define PROBES(...) \
    int main(int arguments, char **argument) { \
        static const struct probe probes[] = {__VA_ARGS__}; \
        return run_probe(probes, sizeof probes / sizeof *probes, arguments, argument); \
    }

/* Mutexes. */
__attribute__((unused)) static void init_with(pthread_mutex_t *mutex, int shared, int robust, int protocol) {
    pthread_mutexattr_t attributes;
    IS(pthread_mutexattr_init(&attributes), 0);
    IS(pthread_mutexattr_setpshared(&attributes, shared), 0);
    IS(pthread_mutexattr_setrobust(&attributes, robust), 0);
    IS(pthread_mutexattr_setprotocol(&attributes, protocol), 0);
    IS(pthread_mutex_init(mutex, &attributes), 0);
    IS(pthread_mutexattr_destroy(&attributes), 0);
}

#include "threads.h"

typedef void *routine(void *);

__attribute__((unused)) static void *join(pthread_t thread) {
    void *result;
    IS(pthread_join(thread, &result), 0);
    return result;
}

__attribute__((unused)) static void start_all(pthread_t *threads, int count, routine *run, void *argument) {
    for (int i = 0; i < count; i++)
        threads[i] = start(run, argument);
}

__attribute__((unused)) static void join_all(const pthread_t *threads, int count) {
    for (int i = 0; i < count; i++)
        join(threads[i]);
}

/* Threads that all do the same, until they end. */
__attribute__((unused)) static void run_all(int count, routine *run, void *argument) {
    pthread_t threads[count];
    start_all(threads, count, run, argument);
    join_all(threads, count);
}

/* A child process that runs `body` and must succeed. */
__attribute__((unused)) static pid_t child(void (*body)(void *), void *argument) {
    pid_t pid = fork();
    if (pid < 0)
        FAIL("fork: %s", strerror(errno));
    if (pid == 0) {
        set_alarm();
        body(argument);
        _exit(0);
    }
    return pid;
}

__attribute__((unused)) static void reap(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        FAIL("a child ended with status %#x", status);
}

/* Time. */
__attribute__((unused)) static struct timespec after_ns(clockid_t clock, long ns) {
    struct timespec time;
    clock_gettime(clock, &time);
    long long all = time.tv_sec * 1000000000LL + time.tv_nsec + ns;
    time.tv_sec = all / 1000000000;
    time.tv_nsec = all % 1000000000;
    return time;
}

__attribute__((unused)) static int is_over(clockid_t clock, const struct timespec *deadline) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > deadline->tv_sec || (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

/* Works for this time, by this clock. */
__attribute__((unused)) static void work_ns(clockid_t clock, long ns) {
    struct timespec end = after_ns(clock, ns);
    while (!is_over(clock, &end))
        continue;
}

#define MS 1000000L

__attribute__((unused)) static void sleep_us(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&time, &time) != 0)
        CHECK(errno == EINTR);
}

/* Waits, adaptively enough, until a flag has a value. */
__attribute__((unused)) static void until(atomic_int *flag, int value) {
    while (atomic_load(flag) != value)
        sleep_us(200);
}

/* Waits until a number that a mutex protects has a value. */
__attribute__((unused)) static void until_under(pthread_mutex_t *mutex, const int *number, int value) {
    for (int now = value + 1; now != value; sleep_us(200)) {
        IS(pthread_mutex_lock(mutex), 0);
        now = *number;
        IS(pthread_mutex_unlock(mutex), 0);
    }
}

/* Mutexes of all kinds. */
static const struct kind {
    const char *name;
    int type;
} KINDS[] = {
    {"normal", PTHREAD_MUTEX_NORMAL},
    {"recursive", PTHREAD_MUTEX_RECURSIVE},
    {"error-checking", PTHREAD_MUTEX_ERRORCHECK},
    {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP},
};
#define KIND_COUNT 4

__attribute__((unused)) static void init_kind(pthread_mutex_t *mutex, int type) {
    pthread_mutexattr_t attributes;
    IS(pthread_mutexattr_init(&attributes), 0);
    IS(pthread_mutexattr_settype(&attributes, type), 0);
    IS(pthread_mutex_init(mutex, &attributes), 0);
    IS(pthread_mutexattr_destroy(&attributes), 0);
}

/* Who is inside: each holder must find itself alone. */
struct owned {
    pthread_mutex_t mutex;
    atomic_int inside;
    /* Counted without an atomic step, so that what two holders do at once is lost. */
    volatile long count;
};

__attribute__((unused)) static void enter(struct owned *owned) {
    if (atomic_fetch_add_explicit(&owned->inside, 1, memory_order_relaxed) != 0)
        FAIL("two threads hold the mutex");
}

__attribute__((unused)) static void leave(struct owned *owned) {
    owned->count = owned->count + 1;
    if (atomic_fetch_sub_explicit(&owned->inside, 1, memory_order_relaxed) != 1)
        FAIL("another thread held the mutex, too");
}

/* Locks, stays for this time, alone inside, and unlocks. */
__attribute__((unused)) static void hold_us(struct owned *owned, long us) {
    IS(pthread_mutex_lock(&owned->mutex), 0);
    enter(owned);
    if (us != 0)
        sleep_us(us);
    leave(owned);
    IS(pthread_mutex_unlock(&owned->mutex), 0);
}

__attribute__((unused)) static void pass_through(struct owned *owned) { hold_us(owned, 0); }

/* Where threads wait until they may pass, by a condition variable. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int waiting, open, passed;
};

#define GATE {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0}

__attribute__((unused)) static void *wait_at(void *argument) {
    struct gate *gate = argument;
    IS(pthread_mutex_lock(&gate->mutex), 0);
    gate->waiting++;
    while (gate->open == 0)
        IS(pthread_cond_wait(&gate->cond, &gate->mutex), 0);
    gate->open--;
    gate->passed++;
    IS(pthread_mutex_unlock(&gate->mutex), 0);
    return NULL;
}

__attribute__((unused)) static void until_waiting(struct gate *gate, int count) {
    until_under(&gate->mutex, &gate->waiting, count);
}

/* Lets this number pass, once they are woken. */
__attribute__((unused)) static void open_for(struct gate *gate, int count) {
    IS(pthread_mutex_lock(&gate->mutex), 0);
    gate->open += count;
    IS(pthread_mutex_unlock(&gate->mutex), 0);
}

/* What another thread gets for a call on a mutex; it releases what it acquired. */
struct foreign {
    int (*call)(pthread_mutex_t *);
    pthread_mutex_t *mutex;
    int result;
};

static void *foreign_main(void *argument) {
    struct foreign *foreign = argument;
    foreign->result = foreign->call(foreign->mutex);
    if (foreign->result == 0 && foreign->call != pthread_mutex_unlock)
        IS(pthread_mutex_unlock(foreign->mutex), 0);
    return NULL;
}

__attribute__((unused)) static int elsewhere(int (*call)(pthread_mutex_t *), pthread_mutex_t *mutex) {
    struct foreign foreign = {call, mutex, -1};
    join(start(foreign_main, &foreign));
    return foreign.result;
}

#endif
