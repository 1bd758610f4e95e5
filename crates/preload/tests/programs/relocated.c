/* Loops that depend on relocations.
 *
 * | function | what the loader writes |
 * | --- | --- |
 * | wait_between | the address in the middle of the loop, at which it enters, in a table of addresses beside a table of distances |
 * | wait_constant (TEXT) | a constant in an instruction of the loop |
 *
 * Both return when *word is no longer zero. */
__asm__(".pushsection .text.relocated,\"ax\",@progbits\n.balign 16\n"
        ".globl wait_between\n.type wait_between,@function\nwait_between:\n.cfi_startproc\n"
        "cmpq $1, %rsi\n je 4f\n"
        "leaq .Lnear(%rip), %rdx\n movslq (%rdx,%rsi,4), %rcx\n addq %rdx, %rcx\n jmp *%rcx\n"
        "4: leaq .Lfar(%rip), %rdx\n jmp *(%rdx)\n"
        ".rept 60\n addl $1, %eax\n .endr\n"
        "1: pause\n .Lmiddle: movl (%rdi), %eax\n testl %eax, %eax\n je 1b\n"
        ".Lend: .rept 60\n addl $1, %eax\n .endr\n ret\n"
        ".cfi_endproc\n.size wait_between, . - wait_between\n.popsection\n"
        ".pushsection .rodata\n.balign 4\n.Lnear: .long .Lend - .Lnear\n.popsection\n"
        ".pushsection .data.rel.ro,\"aw\",@progbits\n.balign 8\n.Lfar: .quad .Lmiddle\n.popsection\n");
#ifdef TEXT
__asm__(".pushsection .text.relocated,\"ax\",@progbits\n.balign 16\n"
        ".globl wait_constant\n.type wait_constant,@function\nwait_constant:\n.cfi_startproc\n"
        "1: pause\n movabsq $wait_constant, %rdx\n movl (%rdi), %eax\n testl %eax, %eax\n je 1b\n movq %rdx, %rax\n ret\n"
        ".cfi_endproc\n.size wait_constant, . - wait_constant\n.popsection\n");
#endif
