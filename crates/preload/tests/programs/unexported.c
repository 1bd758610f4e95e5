// A library whose busy-wait loop lies in a function that it does not export.
static __attribute__((noinline)) void wait_inside(volatile int *flag) {
    while (*flag == 0)
        __builtin_ia32_pause();
}

void wait_in_library(volatile int *flag) {
    wait_inside(flag);
    __asm__ volatile("" ::: "memory"); // No tail call: the two functions stay two.
}
