// Asks before any constructor has run, from a constructor that runs before ours (cpus_begin.c), from the memory allocator that the program
// brings, and from a signal handler. The argument is the count.
#include "check.h"
#include "threads.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static char memory[64 << 20] __attribute__((aligned(64)));
static atomic_size_t used;
static atomic_long asked_by_malloc;
static __thread int asking;
static long before_all;

void *malloc(size_t bytes) {
    // If the answer needed memory of the program's, it would come here again.
    if (asking)
        abort();
    asking = 1;
    atomic_store(&asked_by_malloc, sysconf(_SC_NPROCESSORS_ONLN));
    asking = 0;
    size_t at = atomic_fetch_add(&used, (bytes + 79) / 64 * 64);
    if (at + bytes + 64 > sizeof memory)
        abort();
    *(size_t *)(memory + at) = bytes; // 16 bytes before the block
    return memory + at + 16;
}

void free(void *block) {
    (void)block;
}

void *calloc(size_t count, size_t bytes) {
    return malloc(count * bytes);
}

void *realloc(void *block, size_t bytes) {
    void *larger = malloc(bytes);
    if (block != NULL) {
        size_t before = *(size_t *)((char *)block - 16);
        memcpy(larger, block, before < bytes ? before : bytes);
    }
    return larger;
}

extern long cpus_at_begin(void);

static void first(void) {
    before_all = sysconf(_SC_NPROCESSORS_ONLN);
}

__attribute__((section(".preinit_array"), used)) static void (*const begins)(void) = first;

static atomic_long by_handler;

static void handler(int signal) {
    (void)signal;
    atomic_store(&by_handler, sysconf(_SC_NPROCESSORS_ONLN));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    long expected = atol(argv[1]);
    // Nobody knows the environment then, so it is what the C library says.
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    CHECK(library != NULL);
    CHECK(before_all == ((long (*)(int))dlsym(library, "sysconf"))(_SC_NPROCESSORS_ONLN));
    CHECK(cpus_at_begin() == expected);
    void *volatile block = malloc(1);
    free(block);
    CHECK(atomic_load(&asked_by_malloc) == expected);

    // Handlers interrupt the library while it looks at modules that come and go, and while it counts.
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int round = 0; round < 50; round++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        CHECK(library != NULL && dlsym(library, "cos") != NULL);
        one_thread();
        CHECK(dlclose(library) == 0);
        CHECK(sysconf(_SC_NPROCESSORS_ONLN) == expected);
        usleep(5000);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(atomic_load(&by_handler) == expected);
    return 0;
}
