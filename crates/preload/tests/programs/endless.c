// A thread waits in a loop for ever; the program says so when it has waited for a while, and stays.
#include "loops.h"

#include <unistd.h>

static volatile int never;

static void *waiter(void *unused) {
    (void)unused;
    wait_by_row(&never);
    return NULL;
}

int main(void) {
    start(waiter, NULL);
    usleep(50000);
    puts("waiting");
    fflush(stdout);
    pause();
    return 0;
}
