// An unlock runs instruction by instruction, and as soon as the next owner has the mutex, its memory can be neither read
// nor written: whatever the unlock still does there ends in a signal. The next owner might have freed it.
#include "lock_probe.h"

#include <sys/syscall.h>

static struct {
    pthread_mutex_t *mutex;
    atomic_int coming, acquired, let_go;
    int tries, closed;
    long steps;
} step;

/* After each instruction of the unlock. Waiters get some time to take the mutex. */
static void on_step(int signal) {
    (void)signal;
    step.steps++;
    for (int i = 0; i < 3 && !step.closed && !atomic_load(&step.acquired); i++)
        sched_yield();
    if (!step.closed && atomic_load(&step.acquired)) {
        step.closed = 1;
        if (mprotect(step.mutex, 4096, PROT_NONE) != 0)
            FAIL("mprotect: %s", strerror(errno));
    }
}

static void on_fault(int signal) {
    (void)signal;
    FAIL("an unlock touched the mutex after the next owner had it, in step %ld", step.steps);
}

static void *next_owner(void *unused) {
    atomic_store(&step.coming, gettid());
    if (step.tries)
        while (pthread_mutex_trylock(step.mutex) != 0)
            ;
    else
        IS(pthread_mutex_lock(step.mutex), 0);
    atomic_store(&step.acquired, 1);
    until(&step.let_go, 1);
    IS(pthread_mutex_unlock(step.mutex), 0);
    return unused;
}

static void set_trace(int on) {
#ifdef __x86_64__
    unsigned long flags;
    // The red zone below the stack pointer is the compiler's.
    __asm__ volatile("sub $128, %%rsp\n pushfq\n popq %0\n add $128, %%rsp" : "=r"(flags) : : "memory", "cc");
    flags = on ? flags | 0x100 : flags & ~0x100ul;
    __asm__ volatile("sub $128, %%rsp\n pushq %0\n popfq\n lea 128(%%rsp), %%rsp" : : "r"(flags) : "memory", "cc");
#else
    (void)on;
    SKIP("single steps are not for a program itself on this machine");
#endif
}

static void unlock_in_steps(int type, int tries, long waited_us) {
    step.mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(step.mutex != MAP_FAILED);
    init_kind(step.mutex, type);
    atomic_store(&step.coming, 0), atomic_store(&step.acquired, 0), atomic_store(&step.let_go, 0);
    step.tries = tries;
    step.closed = 0;
    step.steps = 0;
    IS(pthread_mutex_lock(step.mutex), 0);
    pthread_t thread = start(next_owner, NULL);
    while (atomic_load(&step.coming) == 0)
        sleep_us(100);
    sleep_us(waited_us);
    set_trace(1);
    int result = pthread_mutex_unlock(step.mutex);
    set_trace(0);
    IS(result, 0);
    CHECK(step.steps > 3);
    until(&step.acquired, 1);
    CHECK(mprotect(step.mutex, 4096, PROT_READ | PROT_WRITE) == 0);
    atomic_store(&step.let_go, 1);
    join(thread);
    IS(pthread_mutex_destroy(step.mutex), 0);
    CHECK(munmap(step.mutex, 4096) == 0);
}

static void prepare(void) {
    struct sigaction trap = {.sa_handler = on_step}, fault = {.sa_handler = on_fault};
    CHECK(sigaction(SIGTRAP, &trap, NULL) == 0 && sigaction(SIGSEGV, &fault, NULL) == 0);
}

static void unlock_while_somebody_tries(void) {
    prepare();
    for (int i = 0; i < KIND_COUNT; i++)
        unlock_in_steps(KINDS[i].type, 1, 0);
}

static void unlock_while_somebody_waits(void) {
    prepare();
    // Not yet asleep, asleep, and for longer than any window.
    for (int i = 0; i < KIND_COUNT; i++)
        for (int late = 0; late < 3; late++)
            unlock_in_steps(KINDS[i].type, 0, late * late * 3000);
}

PROBES(P(unlock_while_somebody_tries), P(unlock_while_somebody_waits))
