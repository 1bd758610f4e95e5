// A library with a busy-wait loop, and with dead bytes before or behind it, if that is asked for.
#ifdef BEFORE
__asm__(".pushsection .text.unlikely,\"ax\",@progbits\n.skip 64, 0xcc\n.popsection\n");
#endif
void wait_in_library(volatile int *flag) {
    while (*flag == 0)
        __builtin_ia32_pause();
}
#ifdef BEHIND
__asm__(".pushsection .text.filler,\"ax\",@progbits\n.skip 64, 0xcc\n.popsection\n");
#endif
