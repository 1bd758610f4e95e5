// A library whose constructor creates a thread, opens another library, and waits for the thread in a loop:
// all before the preload library's own constructor may have run.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int flag;

void wait_early(volatile int *word) {
    while (*word == 0)
        __builtin_ia32_pause();
}

static void *setter(void *unused) {
    (void)unused;
    usleep(3000);
    flag = 1;
    return NULL;
}

__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    if (dlsym(RTLD_DEFAULT, "malloc") == NULL || dlopen("libm.so.6", RTLD_NOW) == NULL)
        abort();
    if (pthread_create(&thread, NULL, setter, NULL) != 0)
        abort();
    wait_early(&flag);
    pthread_join(thread, NULL);
}

int early_done(void) {
    return flag;
}
