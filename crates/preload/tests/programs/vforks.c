/* A child that shares this process's memory (`vfork`) is the first to create a thread, or tries to. It has no other thread in
 * its process, but the memory has one. */
#include "loops.h"
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    /* More than there is room for, so no thread comes of it. */
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)1 << 46) == 0);
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        pthread_t thread;
        _exit(pthread_create(&thread, &attributes, nothing, NULL) == 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    wait_in(wait_by_whole);
    wait_in(wait_by_row);
    return 0;
}
