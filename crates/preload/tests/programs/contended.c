// Three threads that take turns at one mutex, each for a millisecond, and two that take turns at a flag in a loop that
// waits, until the program is killed.
#include "lock_probe.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int turn;

__attribute__((noinline)) void enter_contended_place(void) {
    IS(pthread_mutex_lock(&mutex), 0);
    sleep_us(1000);
    IS(pthread_mutex_unlock(&mutex), 0);
}

static void *lock_forever(void *result) {
    while (atomic_load(&turn) < 2)
        enter_contended_place();
    return result;
}

__attribute__((noinline)) void wait_for_turn(int me) {
    while (atomic_load_explicit(&turn, memory_order_acquire) != me)
        __builtin_ia32_pause();
}

static void *turn_forever(void *number) {
    int me = (int)(size_t)number;
    while (atomic_load(&turn) < 2) {
        wait_for_turn(me);
        sleep_us(200);
        atomic_store(&turn, !me);
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    for (size_t number = 0; number < 3; number++)
        IS(pthread_create(&thread, NULL, lock_forever, NULL), 0);
    for (size_t number = 0; number < 2; number++)
        IS(pthread_create(&thread, NULL, turn_forever, (void *)number), 0);
    puts("running");
    fflush(stdout);
    pause();
    return 0;
}
