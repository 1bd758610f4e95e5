// A library with a busy-wait loop beside data of its own; its test links it so that both are on one page,
// with the right to write.
static volatile int waits = 1;

void wait_and_count(volatile int *flag) {
    while (*flag == 0)
        __builtin_ia32_pause();
    waits++;
}
