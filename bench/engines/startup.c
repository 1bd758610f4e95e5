//! A program with much text: opens the libraries named on its command line, then starts one thread.
//!
//! What it shows is what a search of all that text costs at the start. A library that cannot be opened is
//! skipped and counted. The result is one JSON object.

#include "options.h"

#include <dlfcn.h>
#include <pthread.h>

static void *thread_main(void *argument) {
    return argument;
}

int main(int argc, char **argv) {
    int opened = 0;
    for (int i = 1; i < argc; i++)
        opened += dlopen(argv[i], RTLD_LAZY | RTLD_LOCAL) != NULL;
    pthread_t handle;
    int error = pthread_create(&handle, NULL, thread_main, NULL);
    if (error)
        fail(1, "a thread: %s", strerror(error));
    pthread_join(handle, NULL);
    printf("{\"format\":1,\"opened\":%d,\"skipped\":%d}\n", opened, argc - 1 - opened);
    fflush(stdout);
    return 0;
}
