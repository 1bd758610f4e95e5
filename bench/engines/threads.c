//! How much memory a program with many threads takes: creates them, lets each wait once, and asks the kernel.
//!
//! Each thread busy-waits once, for a flag that its creator sets at once, so that whatever Manx keeps for a
//! thread that has waited is there; then it sleeps until the sizes have been read. The result is one JSON
//! object: the process's resident, proportional and private memory in bytes, from `smaps_rollup`.

#include "options.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static uint64_t option_threads = 5000, option_stack_kb = 32;

static const struct option_spec options[] = {
    {"threads", OPTION_COUNT, &option_threads, 1, 100000, NULL, "threads to create (5000)"},
    {"stack-kb", OPTION_COUNT, &option_stack_kb, 16, 1 << 20, NULL, "size of a thread's stack in KiB (32)"},
    {0},
};

static _Atomic unsigned released;
static pthread_barrier_t measured;

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

static void *thread_main(void *argument) {
    unsigned index = (unsigned)(uintptr_t)argument;
    while (atomic_load_explicit(&released, memory_order_acquire) <= index)
        pause_cpu();
    pthread_barrier_wait(&measured); // all have come here
    pthread_barrier_wait(&measured); // the sizes have been read
    return NULL;
}

/// One field of `smaps_rollup`, in bytes.
static unsigned long long field(const char *text, const char *name) {
    const char *at = strstr(text, name);
    unsigned long long kb;
    if (!at || sscanf(at + strlen(name), " %llu", &kb) != 1)
        fail(1, "/proc/self/smaps_rollup: there is no '%s'", name);
    return kb * 1024;
}

int main(int argc, char **argv) {
    const struct option_spec *const tables[] = {options, NULL};
    options_parse(argc, argv, "Memory of a program with many threads; the result is one JSON object.", tables);
    unsigned threads = (unsigned)option_threads;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    size_t stack = option_stack_kb * 1024 > (size_t)PTHREAD_STACK_MIN ? option_stack_kb * 1024 : PTHREAD_STACK_MIN;
    if (pthread_attr_setstacksize(&attributes, stack) != 0)
        fail(2, "--stack-kb %zu: too small for this machine", stack / 1024);
    pthread_barrier_init(&measured, NULL, threads + 1);
    pthread_t *handles = calloc(threads, sizeof *handles);
    if (!handles)
        fail(1, "no memory for %u threads", threads);
    for (unsigned i = 0; i < threads; i++) {
        int error = pthread_create(&handles[i], &attributes, thread_main, (void *)(uintptr_t)i);
        if (error)
            fail(1, "thread %u of %u: %s", i + 1, threads, strerror(error));
        atomic_store_explicit(&released, i + 1, memory_order_release);
    }
    pthread_barrier_wait(&measured);
    static char text[8192];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (!file)
        fail(1, "/proc/self/smaps_rollup: %s", strerror(errno));
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = 0;
    fclose(file);
    printf("{\"format\":1,\"threads\":%u,\"resident_bytes\":%llu,\"proportional_bytes\":%llu,\"private_bytes\":%llu}\n",
           threads, field(text, "\nRss:"), field(text, "\nPss:"),
           field(text, "\nPrivate_Clean:") + field(text, "\nPrivate_Dirty:"));
    pthread_barrier_wait(&measured);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(handles[i], NULL);
    free(handles);
    return 0;
}
