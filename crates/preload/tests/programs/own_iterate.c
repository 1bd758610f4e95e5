// A program with a dl_iterate_phdr of its own, in front of the C library's: as ClickHouse, Seastar and FoundationDB have one.
#include "loops.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

typedef int visitor(struct dl_phdr_info *, size_t, void *);

static volatile int calls;

int dl_iterate_phdr(visitor *visit, void *argument) {
    static int (*original)(visitor *, void *);
    calls++;
    if (!original) original = (int (*)(visitor *, void *))dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return original(visit, argument);
}

static int count_one(struct dl_phdr_info *info, size_t size, void *count) {
    (void)info, (void)size;
    ++*(int *)count;
    return 0;
}

static volatile int flag;

static void *waiter(void *unused) {
    loop_named("row")(&flag);
    return unused;
}

int main(void) {
    // The C library before 2.35 asks when a thread is unwound; nobody else may.
    CHECK(calls == 0);
    one_cpu();
    pthread_t thread = start(waiter, NULL);
    usleep(20000);
    flag = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(calls == 0);
    int modules = 0;
    CHECK(dl_iterate_phdr(count_one, &modules) == 0);
    CHECK(calls == 1 && modules > 2);
    return 0;
}
