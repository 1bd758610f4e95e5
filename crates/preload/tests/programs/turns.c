// turns [ROUNDS]: two threads take turns, ROUNDS times each (default 100), on different CPUs if there are
// two: many waits in a row at one site, each over as soon as the other thread has run. Without the library
// and with other work on the CPUs, each turn may take a time slice, so the default is small.
#include "loops.h"
#include <stdlib.h>

static volatile int turns[2] = {1, 0};
static int rounds = 100;

static void *worker(void *number) {
    int me = (int)(long)number;
    for (int round = 0; round < rounds; round++) {
        wait_by_row(&turns[me]);
        turns[me] = 0;
        turns[1 - me] = 1;
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1)
        rounds = atoi(argv[1]);
    pthread_t other = start(worker, (void *)1);
    worker((void *)0);
    CHECK(pthread_join(other, NULL) == 0);
    printf("%d\n", 2 * rounds);
    return 0;
}
