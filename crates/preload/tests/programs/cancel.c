// A thread is cancelled while it waits in a loop: asynchronously in the middle of a sleep of the guard's, and
// its clean-up handlers run.
#include "loops.h"

#include <unistd.h>

static volatile int never, begun, cleaned;

static void clean(void *argument) {
    cleaned += *(int *)argument;
}

static void *worker(void *loop_to_run) {
    int outer = 1, inner = 2;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(clean, &outer);
    pthread_cleanup_push(clean, &inner);
    begun = 1;
    ((loop *)loop_to_run)(&never);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    for (int round = 0; round < 50; round++) {
        begun = cleaned = 0;
        pthread_t thread = start(worker, (void *)loop_named(arguments[1]));
        while (!begun)
            sched_yield();
        usleep((useconds_t)(round * 97)); // spinning, yielding, sleeping
        CHECK(pthread_cancel(thread) == 0);
        void *result;
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
        CHECK(cleaned == 3);
    }
    return 0;
}
