// A library with a busy-wait loop.
void wait_in_library(volatile int *flag) {
    while (*flag == 0)
        __builtin_ia32_pause();
}
