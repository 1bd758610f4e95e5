// One mutex that every thread waits for in a function of a known name, one that is waited for once, and one that nobody
// waits for. Prints their addresses. With the argument `stay` it then waits to be killed.
#include "lock_probe.h"

pthread_mutex_t hot = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, warm = PTHREAD_MUTEX_INITIALIZER,
                cold = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void enter_hot_place(void) {
    IS(pthread_mutex_lock(&hot), 0);
    sleep_us(2000);
    IS(pthread_mutex_unlock(&hot), 0);
}

__attribute__((noinline)) void enter_warm_place(void) {
    IS(pthread_mutex_lock(&warm), 0);
    IS(pthread_mutex_unlock(&warm), 0);
}

static atomic_int coming[5];

/* A thread is about to lock; returns when it sleeps, so that whatever it found, it had to wait. */
static void until_asleep(int me) {
    char name[64], state;
    while (atomic_load(&coming[me]) == 0)
        sleep_us(200);
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", atomic_load(&coming[me]));
    do {
        sleep_us(200);
        FILE *file = fopen(name, "r");
        CHECK(file != NULL && fscanf(file, "%*d %*s %c", &state) == 1);
        fclose(file);
    } while (state != 'S');
}

static void *heat(void *number) {
    atomic_store(&coming[(size_t)number], gettid());
    for (int round = 0; round < 5; round++)
        enter_hot_place();
    return NULL;
}

static void *warm_up(void *unused) {
    atomic_store(&coming[4], gettid());
    enter_warm_place();
    return unused;
}

int main(int count, char **arguments) {
    set_alarm();
    pthread_t threads[4];
    IS(pthread_mutex_lock(&hot), 0);
    for (size_t i = 0; i < 4; i++)
        threads[i] = start(heat, (void *)i);
    for (int i = 0; i < 4; i++)
        until_asleep(i);
    // Longer than any window.
    sleep_us(50000);
    IS(pthread_mutex_unlock(&hot), 0);
    join_all(threads, 4);
    IS(pthread_mutex_lock(&warm), 0);
    pthread_t one = start(warm_up, NULL);
    until_asleep(4);
    IS(pthread_mutex_unlock(&warm), 0);
    join(one);
    for (int round = 0; round < 1000; round++) {
        IS(pthread_mutex_lock(&cold), 0);
        IS(pthread_mutex_unlock(&cold), 0);
    }
    printf("%zu %zu %zu\n", (size_t)&hot, (size_t)&warm, (size_t)&cold);
    fflush(stdout);
    if (count == 2 && strcmp(arguments[1], "stay") == 0)
        for (;;)
            pause();
    return 0;
}
