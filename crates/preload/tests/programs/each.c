// The loops: as a program, waits in each; as a library, has them.
#include "loops.h"

static volatile int word;

int main(void) {
    loop *loops[] = {wait_by_whole, wait_by_row, wait_by_short};
    one_cpu();
    for (int n = 0; n < 3; n++) {
        word = 0;
        pthread_t thread = start(sets_soon, (void *)&word);
        loops[n](&word);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return 0;
}
