/* Another party has changed the text of loops before the guard looks at them.
 *
 * | argument | what stands in the text |
 * | --- | --- |
 * | a number | a debugger's breakpoint in the place of that instruction of each loop, counted from the PAUSE |
 * | jump | one in the place of the jump by which `wait_entered` is entered in the middle |
 * | patch | a tool's NOPs in the place of the jump with which a round of `wait_by_row` ends: it waits no more |
 * | probe | a breakpoint of the kernel's (uprobe) in the place of the load in `wait_by_row`; exit code 77: not allowed |
 * | nothing | what the author wrote |
 *
 * A breakpoint is hit where the author's instruction stands. The debugger takes it away, and nothing of it stays. */
#include "loops.h"
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

void wait_entered(volatile int *word, int entered);

/* The long form of `jne 2f`: what stands behind a breakpoint in its first byte is whole instructions. */
__asm__(".pushsection .text.loops,\"ax\",@progbits\n.balign 16\n"
        FUNCTION("wait_entered", CODE(60) "xorl %eax, %eax\n testl %esi, %esi\n"
                 ".byte 0x0f, 0x85\n .long 2f - 1f\n"
                 "1: pause\n movl (%rdi), %eax\n2: testl %eax, %eax\n je 1b\n" CODE(60))
        ".popsection\n");
#define JUMP_BYTES 6

#define BREAKPOINTS_MAX 3
static struct {
    unsigned char *place, original;
} breakpoints[BREAKPOINTS_MAX];
static volatile int standing;

/* As a debugger does: whatever the rights of the page. */
static void write_text(unsigned char *place, const void *bytes, size_t count) {
    int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    CHECK(memory >= 0 && pwrite(memory, bytes, count, (off_t)place) == (ssize_t)count && close(memory) == 0);
}

static void set_breakpoint(unsigned char *place) {
    breakpoints[standing].place = place;
    breakpoints[standing++].original = *place;
    write_text(place, "\xcc", 1);
}

static void hit(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    greg_t *at = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    for (int n = 0; n < BREAKPOINTS_MAX; n++) {
        if (breakpoints[n].place == NULL || (greg_t)breakpoints[n].place != *at - 1) continue;
        write_text(breakpoints[n].place, &breakpoints[n].original, 1);
        breakpoints[n].place = NULL;
        --*at, standing--;
        return;
    }
    FAIL("a breakpoint at %#llx that no debugger has set", *at - 1);
}

extern const char __ehdr_start[];

/* Returns the descriptor of a probe that counts how often the kernel has run the instruction at `place`. */
static int probe(unsigned char *place) {
    struct perf_event_attr attributes = {.size = sizeof attributes, .config1 = (unsigned long)"/proc/self/exe"};
    attributes.config2 = (unsigned long)((const char *)place - __ehdr_start);
    FILE *type = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    int opened = -1;
    if (type != NULL && fscanf(type, "%u", &attributes.type) == 1)
        opened = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (type != NULL) fclose(type);
    if (opened < 0 || *place != 0xcc) {
        fprintf(stderr, "the kernel sets no probe\n");
        exit(77);
    }
    return opened;
}

/* Where the instructions of a loop stand, counted from its PAUSE. */
static const int by_row[] = {0, 2, 4, 6}, by_whole[] = {0, 2, 9}, by_short[] = {0, 2, 4, 6, 8, 10};

static void in_each(int n) {
    const struct {
        loop *function;
        const int *instructions;
        int count;
    } all[] = {{wait_by_row, by_row, 4}, {wait_by_whole, by_whole, 3}, {wait_by_short, by_short, 6}};
    for (int m = 0; m < 3; m++)
        if (n < all[m].count) set_breakpoint((unsigned char *)pause_in(all[m].function) + all[m].instructions[n]);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *how = arguments[1];
    unsigned char *row = (unsigned char *)pause_in(wait_by_row), before[8];
    struct sigaction action = {.sa_sigaction = hit, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    if (strcmp(how, "jump") == 0)
        set_breakpoint((unsigned char *)pause_in((loop *)(void (*)(void))wait_entered) - JUMP_BYTES);
    else if (strcmp(how, "patch") == 0)
        write_text(row + 6, "\x66\x90", 2);
    else if (strcmp(how, "nothing") != 0 && strcmp(how, "probe") != 0)
        in_each(atoi(how));
    memcpy(before, row, sizeof before);
    int probed = strcmp(how, "probe") == 0 ? probe(row + by_row[1]) : -1;
    one_thread();
    if (strcmp(how, "patch") == 0) {
        volatile int never = 0;
        wait_by_row(&never);
        CHECK(memcmp(before, row, sizeof before) == 0);
        return 0;
    }
    loop *loops[] = {wait_by_whole, wait_by_row, wait_by_short};
    for (int round = 0; round < 2; round++) {
        for (int n = 0; n < 3; n++) wait_in(loops[n]);
        CHECK(round > 0 || strcmp(how, "jump") == 0 || standing == 0);
        if (round == 0 && probed >= 0) {
            unsigned long hits = 0;
            CHECK(read(probed, &hits, sizeof hits) == sizeof hits && hits > 0);
            CHECK(close(probed) == 0 && memcmp(before, row, sizeof before) == 0);
        }
    }
    for (int entered = 1; entered >= 0; entered--) {
        volatile int word = 0;
        pthread_t thread = start(sets_soon, (void *)&word);
        wait_entered(&word, entered);
        CHECK(word != 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(standing == 0);
    return 0;
}
