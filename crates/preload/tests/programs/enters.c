/* Waits in loops of a library that is opened while another thread runs; the loops depend on relocations. */
#include "check.h"
#include "threads.h"

#include <dlfcn.h>
#include <unistd.h>

static volatile int word;

static void *setter(void *unused) {
    usleep(2000);
    word = 1;
    return unused;
}

static long waits(long (*loop)(volatile int *, long)) {
    word = 0;
    pthread_t thread = start(setter, NULL);
    long result = loop(&word, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    return result;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    pthread_t other = start((void *(*)(void *))pause, NULL);
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    long (*between)(volatile int *, long) = dlsym(library, "wait_between");
    long (*constant)(volatile int *, long) = dlsym(library, "wait_constant");
    CHECK(between != NULL);
    for (int round = 0; round < 10; round++) {
        waits(between);
        if (constant) CHECK(waits(constant) == (long)constant);
    }
    CHECK(pthread_cancel(other) == 0 && pthread_join(other, NULL) == 0);
    return 0;
}
