/* Looks at its own text: which ways lead from its loops once the guard has woken, "alone" or while another thread runs
 * ("crowded"); and waits in each of them. */
#define NO_WAY
#include "loops.h"
#include <sys/syscall.h>
#include <unistd.h>

/* A thread that the guard has not seen begin. */
static int stays(void *unused) {
    (void)unused;
    for (long result;;) __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_pause) : "rcx", "r11", "memory");
    return 0;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    int crowded = strcmp(arguments[1], "crowded") == 0;
    volatile unsigned char *whole = pause_in(wait_by_whole) + 2, *row = pause_in(wait_by_row);
    volatile unsigned char *shorted = pause_in(wait_by_short), *none = pause_in(wait_in_no_way);
    if (crowded) {
        static char stack[1 << 16] __attribute__((aligned(64)));
        int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
        CHECK(clone(stays, stack + sizeof stack, flags, NULL) > 0);
    }
    loop *loops[] = {wait_by_whole, wait_by_row, wait_by_short, wait_in_no_way};
    for (int n = 0; n < 4; n++) wait_in(loops[n]);
    CHECK(whole[0] == 0xe9 && whole[-2] == 0xf3);
    CHECK(row[0] == (crowded ? 0xf3 : 0xe9));
    CHECK(shorted[0] == 0xeb);
    CHECK(none[0] == 0xf3);
    return 0;
}
