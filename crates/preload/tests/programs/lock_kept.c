// Mutexes of the kinds that are the C library's in every mode, locked again and again by threads and by a child, and others that are not of
// these kinds. Prints how many of the former there are.
#include "lock_probe.h"

#define EACH 3

struct page {
    pthread_mutex_t shared[EACH], robust[EACH], inherits[EACH], ours[EACH];
};

static void *lock_each(void *argument) {
    pthread_mutex_t *all = argument;
    struct timespec deadline = after_ns(CLOCK_REALTIME, 40000 * MS);
    for (int round = 0; round < 30; round++)
        for (int i = 0; i < 4 * EACH; i++) {
            if (i % EACH == 0)
                IS(pthread_mutex_lock(&all[i]), 0);
            else if (i % EACH == 1)
                IS(pthread_mutex_timedlock(&all[i], &deadline), 0);
            else
                while (pthread_mutex_trylock(&all[i]) != 0)
                    sched_yield();
            IS(pthread_mutex_unlock(&all[i]), 0);
        }
    return NULL;
}

static void lock_each_in_a_child(void *all) {
    lock_each(all);
}

int main(void) {
    set_alarm();
    struct page *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int i = 0; i < EACH; i++) {
        init_with(&page->shared[i], PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
        init_with(&page->robust[i], PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
        init_with(&page->inherits[i], PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
        init_kind(&page->ours[i], KINDS[i].type);
    }
    pthread_t thread = start(lock_each, page);
    join(thread);
    lock_each(page);
    reap(child(lock_each_in_a_child, page));
    // Has been destroyed, and is locked no more; and it is counted already.
    IS(pthread_mutex_destroy(&page->shared[0]), 0);
    printf("%d\n", 3 * EACH);
    return 0;
}
