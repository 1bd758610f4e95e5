// A library that is closed and opened again at its old place between two looks: its loops are new ones.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

typedef void loop(volatile int *);

static volatile int *volatile target;

static void *setter(void *unused) {
    for (;;) {
        while (target == NULL)
            sched_yield();
        volatile int *word = target;
        target = NULL;
        for (int round = 0; round < 5; round++)
            sched_yield();
        *word = 1;
    }
    return unused;
}

int main(int count, char **arguments) {
    pthread_t thread;
    if (count != 3 || pthread_create(&thread, NULL, setter, NULL) != 0) return 2;
    for (int round = 0; round < 20; round++) {
        void *library = dlopen(arguments[1], RTLD_NOW);
        if (library == NULL) return 3;
        loop *waits = (loop *)dlsym(library, arguments[2]);
        if (waits == NULL) return 4;
        volatile int word = 0;
        target = &word;
        waits(&word);
        if (round < 19 && dlclose(library) != 0) return 5;
    }
    return 0;
}
