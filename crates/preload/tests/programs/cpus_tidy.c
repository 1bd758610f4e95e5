// Asking leaves no descriptor open, needs no deep stack, and survives a program that closes all descriptors. The argument is
// the count.
#include "check.h"
#include "threads.h"
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

static long expected;

static void *small(void *unused) {
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) == expected);
    return unused;
}

static int descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    int count = 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    expected = atol(argv[1]);
    // With the first thread the guard wakes, which keeps a descriptor for itself.
    pthread_t thread;
    one_thread();
    int before = descriptors();
    // The first to ask, on the smallest stack there may be.
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0);
    CHECK(pthread_create(&thread, &attributes, small, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(descriptors() == before);
    for (int descriptor = 3; descriptor < 1024; descriptor++)
        close(descriptor);
    usleep(120 * 1000);
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) == expected);
    return 0;
}
