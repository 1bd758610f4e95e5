/* A library that is polled as libopen-pal is: it counts the calls. */
#include <time.h>

/* How long a call works. */
long progress_work_ns;
static int calls;

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Some versions may return something: the count has to come through. */
int opal_progress(void) {
    calls++;
    if (progress_work_ns != 0)
        for (long end = now_ns() + progress_work_ns; now_ns() < end;)
            continue;
    return calls;
}

/* As a library on another one: its name follows the convention, and a round of it polls the other. */
int other_worker_progress(void) {
    int known = opal_progress();
    return known;
}

/* Threads poll by this function, too, and only the user can say so. */
int advance(void) {
    static int rounds;
    rounds += progress_work_ns == 0;
    return ++calls;
}

int (*progress_itself(void))(void) { return opal_progress; }
