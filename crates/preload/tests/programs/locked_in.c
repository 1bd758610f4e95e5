// Gives up rights before or after its first wait: system calls by a filter, its user, writable text.
#include "loops.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static void refuse_by(int first, int second, unsigned how) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, how),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void refuse(int first, int second) { refuse_by(first, second, SECCOMP_RET_ERRNO | 1); }

/* As a sandbox that makes system calls on the program's behalf: they come to a handler, which refuses them here. */
static void refuse_itself(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EACCES;
}

static void trap(int call) {
    struct sigaction action = {.sa_sigaction = refuse_itself, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    refuse_by(call, call, SECCOMP_RET_TRAP);
}

int main(int count, char **arguments) {
    CHECK(count == 4);
    one_cpu();
    const char *what = arguments[1];
    int late = strcmp(arguments[2], "late") == 0;
    if (late) wait_in(wait_by_row);
    if (strcmp(what, "membarrier") == 0) refuse(SYS_membarrier, SYS_membarrier);
    if (strcmp(what, "files") == 0) refuse(SYS_openat, SYS_open);
    if (strcmp(what, "trapped-files") == 0) trap(SYS_openat);
    if (strcmp(what, "text") == 0) refuse(SYS_pwrite64, SYS_membarrier);
    if (strcmp(what, "yields") == 0) refuse(SYS_sched_yield, SYS_clock_nanosleep);
    if (strcmp(what, "rights") == 0) (void)!setuid(65534);
    if (strcmp(what, "text-for-good") == 0) prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0);
    wait_in(wait_by_row);
    wait_in(wait_by_whole);
    wait_in(wait_by_short);
    // Libraries cannot be opened by those who may not open files, or not read this one.
    void *library = late ? dlopen(arguments[3], RTLD_NOW) : NULL;
    if (library != NULL) {
        wait_in((loop *)dlsym(library, "wait_by_row"));
        wait_in((loop *)dlsym(library, "wait_by_whole"));
        wait_in((loop *)dlsym(library, "wait_by_short"));
    }
    return 0;
}
