/* Text that does nothing: with it, a program or a library is large enough for the cache of what the guard found. */
__asm__(".pushsection .text.filler,\"ax\",@progbits\n.skip 0x10000, 0xcc\n.popsection\n");
