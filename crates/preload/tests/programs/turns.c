// Two threads take turns, 20,000 times each, on different CPUs if there are two: thousands of waits in a
// row at one site, each over as soon as the other thread has run.
#include "loops.h"

static volatile int turns[2] = {1, 0};
enum { ROUNDS = 20000 };

static void *worker(void *number) {
    int me = (int)(long)number;
    for (int round = 0; round < ROUNDS; round++) {
        wait_by_row(&turns[me]);
        turns[me] = 0;
        turns[1 - me] = 1;
    }
    return NULL;
}

int main(void) {
    pthread_t other = start(worker, (void *)1);
    worker((void *)0);
    CHECK(pthread_join(other, NULL) == 0);
    printf("%d\n", 2 * ROUNDS);
    return 0;
}
