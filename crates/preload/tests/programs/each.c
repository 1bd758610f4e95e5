// The loops: as a program, waits in each; as a library, has them.
#include "loops.h"

int main(void) {
    loop *loops[] = {wait_by_whole, wait_by_row, wait_by_short};
    one_cpu();
    for (int n = 0; n < 3; n++)
        wait_in(loops[n]);
    return 0;
}
