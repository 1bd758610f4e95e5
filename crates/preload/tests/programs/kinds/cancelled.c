/* Threads are cancelled in the middle of a wait: anywhere, or where they ask. `cancelled MS` */
#include "kinds.h"

static int word, begun, cleaned;

static NOINLINE void wait_for(const int *where, int value) {
    while (__atomic_load_n(where, __ATOMIC_ACQUIRE) != value) PAUSE;
}
static NOINLINE void wait_tightly(const int *where, int value) {
    while (__atomic_load_n(where, __ATOMIC_ACQUIRE) != value) {}
}
static NOINLINE int wait_bounded(const int *where, int value, int rounds) {
    for (int i = 0; i < rounds; i++) {
        if (__atomic_load_n(where, __ATOMIC_ACQUIRE) == value) return 1;
        PAUSE;
    }
    return 0;
}

static void clean(void *unused) {
    (void)unused;
    __atomic_store_n(&cleaned, 1, __ATOMIC_SEQ_CST);
}

static void *cancelled(void *kind) {
    pthread_setcanceltype(kind == 0 ? PTHREAD_CANCEL_DEFERRED : PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(clean, NULL);
    __atomic_store_n(&begun, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        switch ((long)kind) {
        case 1: wait_for(&word, -1); break;
        case 2: wait_tightly(&word, -1); break;
        default: wait_bounded(&word, -1, 1000);
        }
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    long rounds = 0, until_us = now_us() + 1000 * atol(arguments[1]);
    for (; now_us() < until_us; rounds++) {
        pthread_t thread;
        void *result;
        begun = cleaned = 0;
        CHECK(pthread_create(&thread, NULL, cancelled, (void *)(rounds % 4)) == 0);
        wait_for(&begun, 1);
        if (rounds % 3) usleep(rounds % 97);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED && __atomic_load_n(&cleaned, __ATOMIC_SEQ_CST) == 1);
    }
    printf("cancelled: %ld\n", rounds);
    return 0;
}
