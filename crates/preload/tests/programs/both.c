// The two loops: as a program, waits in both; as a library, has them.
#include "loops.h"

static volatile int word;

static void *setter(void *unused) {
    for (int round = 0; round < 20; round++)
        sched_yield();
    word = 1;
    return unused;
}

int main(void) {
    one_cpu();
    for (int n = 0; n < 2; n++) {
        word = 0;
        pthread_t thread = start(setter, NULL);
        loop_named(n == 0 ? "jump" : "trap")(&word);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return 0;
}
