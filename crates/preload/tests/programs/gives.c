/* A library whose constructor gives its loops to the program. */
#define NO_WAY
#include "loops.h"

void take_loops(loop **loops) __attribute__((weak));

__attribute__((constructor)) static void begin(void) {
    loop *loops[] = {wait_by_whole, wait_by_row, wait_by_short};
    if (take_loops) take_loops(loops);
}
