/* Polls a library that is opened by its path (RTLD_LOCAL), as Python opens Open MPI. The variable POLLED names its copies, with a colon
 * between two of them. */
#include "lock_probe.h"
#include "one_cpu.h"
#include "sleeps.h"

#include <dlfcn.h>

/* A program may ask in this way whether Open MPI is there. */
extern int opal_progress(void) __attribute__((weak));

struct polled {
    int (*progress)(void), (*itself)(void);
    long *work_ns;
    int calls;
};

static atomic_int arrived;

static struct polled open_copy(int number) {
    char *paths = strdup(getenv("POLLED")), *path = strtok(paths, ":");
    while (number-- > 0)
        path = strtok(NULL, ":");
    CHECK(path != NULL);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        FAIL("%s", dlerror());
    free(paths);
    int (*(*itself)(void))(void) = dlsym(library, "progress_itself");
    const char *by = getenv("POLLED_BY");
    struct polled polled = {dlsym(library, by != NULL ? by : "opal_progress"), itself(), dlsym(library, "progress_work_ns"), 0};
    CHECK(polled.progress != NULL && polled.work_ns != NULL);
    return polled;
}

/* Each call arrives, once, and returns what the function returns. */
static void poll_once(struct polled *polled) { IS(polled->progress(), ++polled->calls); }

/* Works beside the thread that polls, on the same CPU, for half a second of CPU time. */
static void *works(void *unused) {
    struct timespec used;
    do
        CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
    while (used.tv_sec == 0 && used.tv_nsec < 500000000);
    atomic_store(&arrived, 1);
    return unused;
}

/* How often the thread sleeps while it polls for the end of the work. */
static long wait_for_work(struct polled *polled) {
    one_cpu();
    atomic_store(&arrived, 0);
    pthread_t thread = start(works, NULL);
    long before = switches();
    errno = 77;
    while (atomic_load(&arrived) == 0)
        poll_once(polled);
    CHECK(errno == 77);
    long slept = switches() - before;
    join(thread);
    return slept;
}

static long wait_beside_work(void) {
    struct polled polled = open_copy(0);
    return wait_for_work(&polled);
}

/* The program's own function, which finds nothing and counts. */
static struct looker {
    long looks;
    atomic_int *ready;
} looker = {0, &arrived};

static __attribute__((noinline, noclone)) int look(struct looker *looker) {
    looker->looks++;
    return atomic_load(looker->ready);
}

static __attribute__((noinline, noclone)) void look_until_ready(struct looker *looker) {
    while (look(looker) == 0) {
    }
}

static long look_beside_work(void) {
    one_cpu();
    pthread_t thread = start(works, NULL);
    long before = switches();
    errno = 77;
    look_until_ready(&looker);
    CHECK(errno == 77 && looker.looks > 0);
    long slept = switches() - before;
    join(thread);
    return slept;
}

static void a_loop_of_calls_sleeps(void) { must_sleep(look_beside_work()); }

static void a_loop_of_calls_does_not_sleep(void) { must_not_sleep(look_beside_work()); }

static void sleeps_beside_work(void) { must_sleep(wait_beside_work()); }

static void does_not_sleep(void) { must_not_sleep(wait_beside_work()); }

static void waits(void) { wait_beside_work(); }

static void *stays(void *unused) {
    for (;;)
        pause();
    return unused;
}

/* The library comes while other threads run. */
static void opened_later(void) {
    start(stays, NULL);
    must_sleep(wait_beside_work());
}

/* Two threads on one CPU poll for each other. Each turn takes microseconds, and not a time slice, which is about a
 * millisecond or more. Both are CPU time, so it does not matter what else runs. */
enum { TURNS = 5000 };
static atomic_int turn;

static void take_turns(struct polled *polled, int rest) {
    for (int next = rest; next < TURNS; next += 2) {
        while (atomic_load(&turn) != next)
            polled->progress();
        atomic_store(&turn, next + 1);
    }
}

static void *takes_turns(void *polled) {
    take_turns(polled, 1);
    return NULL;
}

static void two_take_turns(void) {
    struct polled polled = open_copy(0);
    one_cpu();
    pthread_t other = start(takes_turns, &polled);
    take_turns(&polled, 0);
    join(other);
    struct timespec used;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0);
    if (used.tv_sec * 1000 * MS + used.tv_nsec > TURNS * (MS / 4))
        FAIL("%d turns took %ld.%09ld s of CPU time", TURNS, (long)used.tv_sec, used.tv_nsec);
}

static void work_is_no_wait(void) {
    struct polled polled = open_copy(0);
    *polled.work_ns = 30000;
    must_not_sleep(wait_for_work(&polled));
}

static void a_real_time_thread_does_not_sleep(void) {
    struct polled polled = open_copy(0);
    one_thread();
    struct sched_param priority = {.sched_priority = 1};
    if (pthread_setschedparam(pthread_self(), SCHED_RR, &priority) != 0)
        SKIP("no right to a real-time class");
    long before = switches();
    for (int round = 0; round < 100000; round++)
        poll_once(&polled);
    must_not_sleep(switches() - before);
}

static void copies_are_apart(void) {
    struct polled polled[2] = {open_copy(0), open_copy(1)};
    CHECK(polled[0].progress != polled[1].progress);
    for (int n = 0; n < 2; n++)
        must_sleep(wait_for_work(&polled[n]));
}

static void a_child_polls(void) {
    struct polled polled = open_copy(0);
    must_sleep(wait_for_work(&polled));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        must_sleep(wait_for_work(&polled));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Without Open MPI there is no such function, and with it, it is Open MPI's. */
static void the_name_is_the_librarys(void) {
    one_thread();
    CHECK(opal_progress == NULL);
    CHECK(dlsym(RTLD_DEFAULT, "opal_progress") == NULL && dlerror() != NULL);
    struct polled polled = open_copy(0);
    CHECK(polled.progress == polled.itself);
    CHECK(dlsym(RTLD_DEFAULT, "opal_progress") == NULL);
}

PROBES(P(sleeps_beside_work), P(does_not_sleep), P(a_loop_of_calls_sleeps), P(a_loop_of_calls_does_not_sleep), P(waits), P(opened_later), P(two_take_turns), P(work_is_no_wait),
       P(a_real_time_thread_does_not_sleep), P(copies_are_apart), P(a_child_polls), P(the_name_is_the_librarys))
