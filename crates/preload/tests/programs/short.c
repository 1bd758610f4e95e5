/* Waits that are over at the first look, thousands of them, and more threads afterwards. */
#include "loops.h"
#include <unistd.h>

static volatile int ready = 1, word;

static void *worker(void *unused) {
    wait_by_trap(&word);
    return unused;
}

static void *nothing(void *unused) { return unused; }

int main(void) {
    pthread_join(start(nothing, NULL), NULL);
    volatile unsigned char *pause = (volatile unsigned char *)wait_by_trap;
    CHECK(*pause == 0xcc);
    for (int n = 0; n < 5000; n++) wait_by_trap(&ready);
    CHECK(*pause == 0xf3); /* let go */
    one_cpu();
    pthread_t thread = start(worker, NULL);
    CHECK(*pause == 0xcc); /* and taken up again */
    usleep(3000);
    word = 1;
    return pthread_join(thread, NULL);
}
