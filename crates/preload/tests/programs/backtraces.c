/* Handlers of signals look at the stack while their threads wait in loops of several shapes: each backtrace must show the
 * functions that led there.
 *
 * backtraces signals|steps libc|libgcc: signals of a timer, or of the trap flag after every instruction; `backtrace` of the C
 * library, or `_Unwind_Backtrace`. Prints, for each shape, how often handlers looked, and how often a caller was missing: in copies and
 * the library, and in the program's own text. */
#include "check.h"
#include "threads.h"

#include <alloca.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ucontext.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define THREADS 3
#define SIGNALS 300
#define STEPS 3000
#define TRAP_FLAG 0x100

#define SHAPE __attribute__((noinline, noclone))
#define OLD __attribute__((noinline, noclone, optimize("O0")))
#define FRAME_POINTER __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))

typedef volatile int word;
typedef long shape(word *);

/* Of each thread: where each function of the chain returns to, from the loop's own function on; is it in the loop? */
static __thread void *chain[4];
static __thread volatile sig_atomic_t waits, looks;
static __thread word *end;

static int by_steps, by_libgcc;
static atomic_long seen, in_copies, in_library, missing, missing_outside;

#define BEGIN() \
    do { \
        chain[0] = __builtin_return_address(0); \
        __asm__ volatile("" ::: "memory"); \
        waits = 1; \
    } while (0)
#define END() (waits = 0)

/* What the compiler does not know. */
static SHAPE long use(void *room) {
    __asm__ volatile("" ::"r"(room) : "memory");
    return 1;
}

/* The frame begins at the stack pointer. */
static SHAPE long leaf(word *go) {
    BEGIN();
    while (*go == 0)
        __builtin_ia32_pause();
    END();
    return *go;
}

/* Saved registers and room of its own. */
static SHAPE long saves(word *go) {
    char room[200];
    long a = use(room), b = use(room) + a, c = use(room) + b, d = use(room) * c;
    BEGIN();
    while (*go == 0)
        __builtin_ia32_pause();
    END();
    return use(room) + a + b + c + d;
}

/* A return in the middle of the loop. */
static SHAPE long leaves(word *go) {
    char room[64];
    long a = use(room);
    BEGIN();
    for (;;) {
        if (*go == 1) {
            END();
            return a;
        }
        __builtin_ia32_pause();
        if (*go == 2)
            break;
        __builtin_ia32_pause();
    }
    END();
    return use(room) + a;
}

static FRAME_POINTER long framed(word *go) {
    char room[48];
    long a = use(room);
    BEGIN();
    while (*go == 0)
        __builtin_ia32_pause();
    END();
    return use(room) + a;
}

static OLD long unoptimised(word *go) {
    long rounds = 0;
    BEGIN();
    while (*go == 0)
        __builtin_ia32_pause();
    END();
    return rounds;
}

/* The compiler aligns the stack: the frame is where an expression says. */
static SHAPE long aligned(word *go) {
    _Alignas(64) char room[128];
    char *more = alloca((size_t)use(room) * 16);
    use(more);
    BEGIN();
    while (*go == 0)
        __builtin_ia32_pause();
    END();
    return use(room) + use(more);
}

/* It polls by calls: the copy stands between the loop and the function. */
static SHAPE long look_at(word *go) { return *go; }

static SHAPE long calls(word *go) {
    char room[40];
    long a = use(room);
    BEGIN();
    while (look_at(go) == 0) {
    }
    END();
    return use(room) + a;
}

static const struct {
    const char *name;
    shape *run;
} SHAPES[] = {{"leaf", leaf}, {"saves", saves}, {"leaves", leaves}, {"framed", framed}, {"unoptimised", unoptimised}, {"aligned", aligned}, {"calls", calls}};

static void step(void) {
    __asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n orq %0, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::"i"(TRAP_FLAG) : "memory", "cc");
}

static SHAPE long inner(shape *run, word *go) {
    chain[1] = __builtin_return_address(0);
    if (by_steps)
        step();
    return run(go) + 1;
}

static OLD long middle(shape *run, word *go) {
    chain[2] = __builtin_return_address(0);
    return inner(run, go) + 1;
}

static SHAPE long outer(shape *run, word *go) {
    char room[100];
    chain[3] = __builtin_return_address(0);
    return middle(run, go) + use(room);
}

/* The text of all modules, and of the library that is tested. */
static struct {
    uintptr_t start, end;
    int is_library;
} texts[256];
static int text_count;

static int note(struct dl_phdr_info *module, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int n = 0; n < module->dlpi_phnum; n++) {
        const ElfW(Phdr) *part = &module->dlpi_phdr[n];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        CHECK(text_count < 256);
        texts[text_count].start = module->dlpi_addr + part->p_vaddr;
        texts[text_count].end = texts[text_count].start + part->p_memsz;
        texts[text_count++].is_library = strstr(module->dlpi_name, "libmanx_preload") != NULL;
    }
    return 0;
}

struct trace {
    void *frames[64];
    int count;
};

static _Unwind_Reason_Code one(struct _Unwind_Context *context, void *argument) {
    struct trace *trace = argument;
    trace->frames[trace->count++] = (void *)_Unwind_GetIP(context);
    return trace->count < 64 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void look(int signal, siginfo_t *unused, void *argument) {
    (void)signal, (void)unused;
    greg_t *registers = ((ucontext_t *)argument)->uc_mcontext.gregs;
    uintptr_t pc = (uintptr_t)registers[REG_RIP];
    if (!waits) {
        if (by_steps && looks > 0)
            registers[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    struct trace trace = {.count = 0};
    if (by_libgcc)
        _Unwind_Backtrace(one, &trace);
    else
        trace.count = backtrace(trace.frames, 64);
    int at = 0, here = 0;
    while (at < trace.count && trace.frames[at] != chain[0])
        at++;
    int lost = at + 4 > trace.count || memcmp(&trace.frames[at], chain, sizeof chain) != 0;
    while (here < text_count && (pc < texts[here].start || pc >= texts[here].end))
        here++;
    if (here == text_count)
        in_copies++;
    else if (texts[here].is_library)
        in_library++;
    if (here == text_count || texts[here].is_library)
        missing += lost;
    else
        missing_outside += lost;
    seen++;
    if (++looks == (by_steps ? STEPS : SIGNALS))
        *end = 1;
}

static void *worker(void *run) {
    word go = 0;
    timer_t timer;
    end = &go;
    looks = 0;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    event.sigev_notify_thread_id = gettid();
    if (!by_steps) {
        struct itimerspec often = {{0, 150 * 1000}, {0, 150 * 1000}};
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &often, NULL) == 0);
    }
    long result = outer((shape *)run, &go);
    if (!by_steps)
        CHECK(timer_delete(timer) == 0);
    return (void *)result;
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    by_steps = strcmp(arguments[1], "steps") == 0;
    by_libgcc = strcmp(arguments[2], "libgcc") == 0;
    void *first[4];
    CHECK(backtrace(first, 4) > 1); // loads libgcc
    pthread_t threads[THREADS];
    one_thread();
    dl_iterate_phdr(note, NULL);
    struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO | SA_RESTART};
    CHECK(sigaction(by_steps ? SIGTRAP : SIGPROF, &action, NULL) == 0);
    for (size_t n = 0; n < sizeof SHAPES / sizeof *SHAPES; n++) {
        seen = in_copies = in_library = missing = missing_outside = 0;
        for (int t = 0; t < THREADS; t++)
            CHECK(pthread_create(&threads[t], NULL, worker, (void *)SHAPES[n].run) == 0);
        for (int t = 0; t < THREADS; t++)
            CHECK(pthread_join(threads[t], NULL) == 0);
        printf("%s: %ld seen, %ld in copies, %ld in the library, %ld missing, %ld missing outside\n", SHAPES[n].name, seen, in_copies, in_library, missing,
               missing_outside);
    }
    return 0;
}
