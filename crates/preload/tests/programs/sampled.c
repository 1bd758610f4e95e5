/* Threads wait busily in loops that nobody may change, under a sampling guard. */
#include "loops.h"
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int word, done;
static volatile unsigned char *text = (volatile unsigned char *)wait_by_trap;

static void *worker(void *unused) {
    wait_by_trap(&word);
    __atomic_fetch_add(&done, 1, __ATOMIC_SEQ_CST);
    return unused;
}

static void *nothing(void *unused) { return unused; }

static double cpu_seconds(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static volatile sig_atomic_t handled;
static void handler(int signal) { (void)signal, handled++; }

/* How many timers there are, or -1 where the kernel does not tell. */
static int timers(void) {
    FILE *file = fopen("/proc/self/timers", "r");
    if (file == NULL) return -1;
    char line[256];
    int count = 0;
    while (fgets(line, sizeof line, file) != NULL) count += strncmp(line, "ID:", 3) == 0;
    fclose(file);
    return count;
}

static void waits(int attached) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, attached ? PTHREAD_CREATE_JOINABLE : PTHREAD_CREATE_DETACHED);
    pthread_t threads[3];
    word = done = 0;
    double before = cpu_seconds();
    for (int n = 0; n < 3; n++) CHECK(pthread_create(&threads[n], &attributes, worker, NULL) == 0);
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 1;
    /* A sleep that a sample cuts short would be seen here. */
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
    word = 1;
    while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < 3) usleep(1000);
    for (int n = 0; attached && n < 3; n++) pthread_join(threads[n], NULL);
    printf("%s threads used %.3f s\n", attached ? "joinable" : "detached", cpu_seconds() - before);
}

int main(int count, char **arguments) {
    (void)arguments;
    CHECK(text[0] == 0xf3 && text[1] == 0x90);
    pthread_join(start(nothing, NULL), NULL);
    for (int n = 0; n < 500; n++) pthread_join(start(nothing, NULL), NULL);
    int left = timers();
    printf("%d timers\n", left);
    CHECK(left <= 32 && left != 0);
    waits(1);
    waits(0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        waits(1);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(text[0] == 0xf3 && text[1] == 0x90);
    if (count > 1) {
        /* The program takes every real-time signal for itself. */
        for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++) {
            struct sigaction seen;
            CHECK(sigaction(signal, NULL, &seen) == 0 && seen.sa_handler == SIG_DFL && seen.sa_flags == 0);
            CHECK(sigaction(signal, &(struct sigaction){.sa_handler = handler}, &seen) == 0);
            CHECK(seen.sa_handler == SIG_DFL);
            raise(signal);
        }
        CHECK(handled == SIGRTMAX - SIGRTMIN + 1);
        CHECK(timers() <= 0);
        waits(1);
        CHECK(handled == SIGRTMAX - SIGRTMIN + 1);
    }
    return 0;
}
