// A thread gives back the memory that its name is in, before its creator is done.
#include "loops.h"

#include <sys/mman.h>

static volatile int done;

static void *routine(void *page) {
    munmap(page, 4096);
    __atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
    return NULL;
}

int main(void) {
    one_cpu();
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    // The new thread goes first where it has the higher priority; without the right to one, often enough.
    for (int round = 0; round < 1000; round++) {
        int before = done;
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED);
        pthread_t *name = page;
        CHECK(pthread_create(name, &detached, routine, *(void *volatile *)&page) == 0);
        while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) == before)
            sched_yield();
    }
    return 0;
}
