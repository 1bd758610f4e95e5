// A plain and a recursive mutex of C11 that are waited for in functions of known names, and one that is waited for on the way out of
// a wait for a condition. Prints their addresses.
#include "lock_probe.h"

#include <threads.h>

mtx_t plain, recursive, condition;
cnd_t signalled;
static atomic_int coming;
static int done;

__attribute__((noinline)) void enter_plain(void) {
    CHECK(mtx_lock(&plain) == thrd_success);
    CHECK(mtx_unlock(&plain) == thrd_success);
}

__attribute__((noinline)) void enter_recursive(void) {
    struct timespec deadline = after_ns(CLOCK_REALTIME, 40000 * MS);
    CHECK(mtx_timedlock(&recursive, &deadline) == thrd_success);
    CHECK(mtx_unlock(&recursive) == thrd_success);
}

__attribute__((noinline)) void wait_for_a_signal(void) {
    while (!done)
        CHECK(cnd_wait(&signalled, &condition) == thrd_success);
}

static int enter_both(void *unused) {
    (void)unused;
    atomic_store(&coming, 1);
    enter_plain();
    atomic_store(&coming, 2);
    enter_recursive();
    CHECK(mtx_lock(&condition) == thrd_success);
    atomic_store(&coming, 3);
    wait_for_a_signal();
    CHECK(mtx_unlock(&condition) == thrd_success);
    return 0;
}

int main(void) {
    set_alarm();
    thrd_t thread;
    CHECK(mtx_init(&plain, mtx_plain) == thrd_success && mtx_init(&recursive, mtx_timed | mtx_recursive) == thrd_success);
    CHECK(mtx_init(&condition, mtx_plain) == thrd_success && cnd_init(&signalled) == thrd_success);
    CHECK(mtx_lock(&plain) == thrd_success && mtx_lock(&recursive) == thrd_success);
    CHECK(thrd_create(&thread, enter_both, NULL) == thrd_success);
    // Each is held for long after the other thread has come.
    until(&coming, 1);
    sleep_us(50000);
    CHECK(mtx_unlock(&plain) == thrd_success);
    until(&coming, 2);
    sleep_us(50000);
    CHECK(mtx_unlock(&recursive) == thrd_success);
    until(&coming, 3);
    // The other thread holds it until it waits for the signal. This thread is not to wait for it.
    while (mtx_trylock(&condition) != thrd_success)
        sleep_us(100);
    done = 1;
    CHECK(cnd_signal(&signalled) == thrd_success);
    sleep_us(50000);
    CHECK(mtx_unlock(&condition) == thrd_success);
    CHECK(thrd_join(thread, NULL) == thrd_success);
    printf("%zu %zu %zu\n", (size_t)&plain, (size_t)&recursive, (size_t)&condition);
    return 0;
}
