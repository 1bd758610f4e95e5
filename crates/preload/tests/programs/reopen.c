// Opens a library with a busy-wait loop, waits in it, and closes it, a thousand times; memory must not grow.
#include "loops.h"
#include "resident.h"

#include <dlfcn.h>
#include <unistd.h>

static volatile int flag;
static loop *waits;

static void *setter(void *unused) {
    (void)unused;
    for (int round = 0; round < 1000; round++) {
        while (__atomic_load_n(&waits, __ATOMIC_ACQUIRE) == NULL)
            sched_yield();
        waits = NULL;
        __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    one_cpu();
    pthread_t thread = start(setter, NULL);
    long before = 0;
    for (int round = 0; round < 1000; round++) {
        void *library = dlopen(arguments[1], RTLD_NOW);
        if (library == NULL) FAIL("%s", dlerror());
        loop *found = (loop *)dlsym(library, "wait_in_library");
        CHECK(found != NULL);
        flag = 0;
        __atomic_store_n(&waits, found, __ATOMIC_RELEASE);
        found(&flag);
        CHECK(dlclose(library) == 0);
        if (round == 100) before = resident_kib();
    }
    CHECK(pthread_join(thread, NULL) == 0);
    // The heap and the loader settle within some hundred KiB, with the library and without it.
    long grown = resident_kib() - before;
    if (grown > 600) FAIL("grown by %ld KiB in 900 rounds", grown);
    return 0;
}
