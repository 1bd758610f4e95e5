// Slow cores where there are none: what a thread between its calls costs, in CPU time, on each of two CPUs.
//
// "dilated BIG LITTLE MIN MAX": the same work around a mutex on the CPU called BIG, then on LITTLE; the CPU time that it takes
// on LITTLE over that on BIG is to be between MIN and MAX.
// "dilated BIG LITTLE sleeps": sleeping between calls, and waiting in them, costs nothing on LITTLE.

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static volatile unsigned sink;

/// The same amount of work every time.
static void work(unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++)
        sink += i;
}

static void stay_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("sched_setaffinity");
        exit(1);
    }
}

/// Work around locks, for which short and long times come between calls; returns its CPU time.
static double phase(int cpu) {
    stay_on(cpu);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    double from = cpu_seconds();
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        work(10000);
        pthread_mutex_unlock(&mutex);
        work(i % 10 == 0 ? 200000 : 5000);
    }
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return cpu_seconds() - from;
}

/// The CPU time of waits and sleeps between calls.
static double sleeps(int cpu) {
    stay_on(cpu);
    pthread_mutex_lock(&mutex);
    double from = cpu_seconds();
    for (int i = 0; i < 10; i++) {
        struct timespec nap = {0, 20000000};
        nanosleep(&nap, NULL);
        pthread_mutex_unlock(&mutex);
        pthread_mutex_lock(&mutex);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 5000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        if (pthread_cond_timedwait(&never, &mutex, &until) != ETIMEDOUT)
            return 1e9;
    }
    pthread_mutex_unlock(&mutex);
    return cpu_seconds() - from;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    int big = atoi(argv[1]), little = atoi(argv[2]);
    if (argc == 4) { // sleeps
        double seconds = sleeps(little);
        // A stall of a virtual machine counts as CPU time, and is stretched. It does not happen five times in a row.
        for (int again = 0; again < 4 && seconds > 0.1; again++)
            seconds = sleeps(little);
        if (seconds > 0.1) {
            fprintf(stderr, "250 ms of sleep cost %g s of CPU time\n", seconds);
            return 1;
        }
        return 0;
    }
    double low = atof(argv[3]), high = atof(argv[4]);
    phase(big); // warm
    double first = 0, second = 0;
    // As above: one of five in a row is without a stall.
    for (int again = 0; again < 5; again++) {
        first = phase(big);
        second = phase(little);
        if (second >= low * first && second <= high * first)
            return 0;
    }
    fprintf(stderr, "big %g s, little %g s: %g times\n", first, second, second / first);
    return 1;
}
