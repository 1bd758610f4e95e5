/* What every function of manx_range.h does and returns. */
#define _GNU_SOURCE
#include "../../../preload/tests/programs/check.h"
#include <errno.h>
#include <manx_range.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define NEVER UINT64_MAX

static const manx_range_held_t nothing = MANX_RANGE_HELD_INIT;

static uint64_t soon(void) {
    return manx_now_ns() + 2000000;
}

static manx_range_t *made(manx_range_options_t options) {
    manx_range_t *lock;
    CHECK(manx_range_create(&lock, &options) == 0);
    return lock;
}

static int holds(const manx_range_held_t *held, uint64_t start, uint64_t end, int shared) {
    manx_range_span_t span;
    int is_shared;
    CHECK(manx_range_held_span(held, &span, &is_shared) == 0);
    return span.start == start && span.end == end && is_shared == shared;
}

/* Whether a range could be had, alone or shared. */
static int is_free(manx_range_t *lock, uint64_t start, uint64_t end) {
    manx_range_held_t held;
    int result = manx_range_trylock(lock, start, end, &held);
    CHECK(result == 0 || result == EBUSY);
    CHECK(manx_range_unlock(&held) == (result == 0 ? 0 : EPERM));
    return result == 0;
}

static int is_shared(manx_range_t *lock, uint64_t start, uint64_t end) {
    manx_range_held_t held;
    int result = manx_range_tryrdlock(lock, start, end, &held);
    CHECK(result == 0 || result == EBUSY);
    CHECK(manx_range_unlock(&held) == (result == 0 ? 0 : EPERM));
    return result == 0;
}

static uint64_t waiting(manx_range_t *lock) {
    manx_range_statistics_t now;
    CHECK(manx_range_statistics(lock, &now) == 0);
    return now.waiting;
}

static void until_waiting(manx_range_t *lock, uint64_t count) {
    while (waiting(lock) != count)
        sched_yield();
}

static void locks(void) {
    static const manx_range_options_t wrong = {.block_log2 = 64};
    static const manx_range_options_t options[] = {
        {0}, {.block_log2 = 63}, {.block_log2 = 1, .spill_max = 1, .window_ns = 1, .recorded = 1, .detect_deadlocks = 1}};
    manx_range_t *lock = NULL;
    CHECK(manx_range_create(NULL, NULL) == EINVAL);
    CHECK(manx_range_create(&lock, &wrong) == EINVAL && !lock);
    CHECK(manx_range_create(&lock, NULL) == 0 && is_free(lock, 0, MANX_RANGE_END));
    CHECK(manx_range_destroy(lock) == 0);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        CHECK(manx_range_create(&lock, &options[i]) == 0 && is_free(lock, 0, 2));
        CHECK(manx_range_destroy(lock) == 0);
    }
    CHECK(manx_range_destroy(NULL) == 0);
}

static void one_by_one(void) {
    manx_range_t *lock = made((manx_range_options_t){0});
    manx_range_held_t one, other = MANX_RANGE_HELD_INIT;
    CHECK(sizeof one == 2 * sizeof(void *));
    errno = 77;
    CHECK(manx_range_lock(lock, 10, 20, &one) == 0 && holds(&one, 10, 20, 0));
    CHECK(manx_range_destroy(lock) == EBUSY);
    CHECK(manx_range_trylock(lock, 19, 30, &other) == EBUSY && memcmp(&other, &nothing, sizeof other) == 0);
    CHECK(manx_range_tryrdlock(lock, 0, 11, &other) == EBUSY);
    CHECK(manx_range_timedlock(lock, 0, 11, 0, &other) == ETIMEDOUT);
    CHECK(manx_range_timedrdlock(lock, 0, 11, 0, &other) == ETIMEDOUT);
    uint64_t deadline_ns = soon();
    CHECK(manx_range_timedlock(lock, 0, 11, deadline_ns, &other) == ETIMEDOUT);
    CHECK(manx_now_ns() >= deadline_ns);
    CHECK(is_free(lock, 0, 10) && is_free(lock, 20, MANX_RANGE_END));
    CHECK(manx_range_unlock(&one) == 0 && manx_range_unlock(&one) == EPERM);
    CHECK(manx_range_unlock(&other) == EPERM && manx_range_unlock(NULL) == EINVAL);

    /* Sharing, with a deadline that is long over: a free range is had all the same. */
    CHECK(manx_range_rdlock(lock, 0, 10, &one) == 0 && holds(&one, 0, 10, 1));
    CHECK(manx_range_tryrdlock(lock, 5, 15, &other) == 0 && manx_range_unlock(&other) == 0);
    CHECK(manx_range_timedrdlock(lock, 5, 15, 0, &other) == 0 && manx_range_unlock(&other) == 0);
    CHECK(manx_range_timedlock(lock, 10, 15, 0, &other) == 0 && manx_range_unlock(&other) == 0);
    CHECK(manx_range_timedlock(lock, 9, 15, 0, &other) == ETIMEDOUT);
    CHECK(manx_range_unlock(&one) == 0);

    /* The ends of the space. */
    CHECK(manx_range_lock(lock, UINT64_MAX, MANX_RANGE_END, &one) == 0);
    CHECK(holds(&one, UINT64_MAX, MANX_RANGE_END, 0));
    CHECK(!is_free(lock, 0, MANX_RANGE_END) && is_free(lock, 0, UINT64_MAX - 1));
    CHECK(manx_range_unlock(&one) == 0);
    CHECK(manx_range_lock(lock, 0, MANX_RANGE_END, &one) == 0 && manx_range_destroy(lock) == EBUSY);
    CHECK(!is_free(lock, 0, 1) && !is_free(lock, 1000000, 1000001) && !is_free(lock, UINT64_MAX, UINT64_MAX));
    CHECK(manx_range_unlock(&one) == 0);

    /* What is no range, and no pointer. */
    static const uint64_t none[][2] = {{5, 5}, {6, 5}, {0, 0}, {UINT64_MAX, 0}};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        const uint64_t start = none[i][0], end = none[i][1];
        CHECK(manx_range_lock(lock, start, end, &one) == EINVAL && manx_range_unlock(&one) == EPERM);
        CHECK(manx_range_trylock(lock, start, end, &one) == EINVAL);
        CHECK(manx_range_timedlock(lock, start, end, NEVER, &one) == EINVAL);
        CHECK(manx_range_rdlock(lock, start, end, &one) == EINVAL);
        CHECK(manx_range_tryrdlock(lock, start, end, &one) == EINVAL);
        CHECK(manx_range_timedrdlock(lock, start, end, NEVER, &one) == EINVAL);
    }
    CHECK(manx_range_lock(NULL, 0, 1, &one) == EINVAL && manx_range_lock(lock, 0, 1, NULL) == EINVAL);
    CHECK(manx_range_trylock(NULL, 0, 1, &one) == EINVAL && manx_range_trylock(lock, 0, 1, NULL) == EINVAL);
    CHECK(manx_range_held_span(NULL, NULL, NULL) == EINVAL && manx_range_held_span(&one, NULL, NULL) == EPERM);
    CHECK(errno == 77);
    CHECK(manx_range_destroy(lock) == 0);
}

static void changes(void) {
    manx_range_t *lock = made((manx_range_options_t){.block_log2 = 4});
    manx_range_held_t low, high, reader;
    static const uint64_t outside[] = {0, 10, 100, 1000, UINT64_MAX};
    CHECK(manx_range_lock(lock, 10, 100, &low) == 0);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        CHECK(manx_range_split(&low, outside[i], &high) == EINVAL && holds(&low, 10, 100, 0));
        CHECK(memcmp(&high, &nothing, sizeof high) == 0);
    }
    CHECK(manx_range_split(&low, 50, NULL) == EINVAL && manx_range_split(NULL, 50, &high) == EINVAL);
    CHECK(manx_range_split(&low, 50, &low) == EINVAL && manx_range_split(&high, 50, &reader) == EPERM);
    CHECK(manx_range_split(&low, 50, &high) == 0 && holds(&low, 10, 50, 0) && holds(&high, 50, 100, 0));
    CHECK(manx_range_unlock(&low) == 0 && is_free(lock, 10, 50) && !is_free(lock, 99, 100));
    CHECK(manx_range_split(&low, 50, &reader) == EPERM);

    CHECK(manx_range_shrink(&high, 60, 60) == EINVAL && manx_range_shrink(&high, 61, 60) == EINVAL);
    CHECK(manx_range_shrink(&high, 49, 60) == EPERM && manx_range_shrink(&high, 60, MANX_RANGE_END) == EPERM);
    CHECK(manx_range_shrink(NULL, 60, 70) == EINVAL && manx_range_shrink(&low, 60, 70) == EPERM);
    CHECK(holds(&high, 50, 100, 0) && !is_free(lock, 50, 51));
    CHECK(manx_range_shrink(&high, 60, 70) == 0 && holds(&high, 60, 70, 0));
    CHECK(is_free(lock, 0, 60) && is_free(lock, 70, MANX_RANGE_END) && !is_shared(lock, 69, 70));

    CHECK(manx_range_downgrade(NULL) == EINVAL && manx_range_downgrade(&low) == EPERM);
    CHECK(manx_range_downgrade(&high) == 0 && holds(&high, 60, 70, 1));
    CHECK(is_shared(lock, 0, 100) && !is_free(lock, 69, 70));
    CHECK(manx_range_rdlock(lock, 65, 66, &reader) == 0);
    CHECK(manx_range_upgrade(NULL) == EINVAL && manx_range_upgrade(&low) == EPERM);
    CHECK(manx_range_timedupgrade(NULL, 0) == EINVAL && manx_range_timedupgrade(&low, 0) == EPERM);
    CHECK(manx_range_timedupgrade(&high, 0) == ETIMEDOUT && manx_range_timedupgrade(&high, soon()) == ETIMEDOUT);
    CHECK(holds(&high, 60, 70, 1) && is_shared(lock, 60, 70));
    CHECK(manx_range_unlock(&reader) == 0);
    CHECK(manx_range_upgrade(&high) == 0 && holds(&high, 60, 70, 0) && !is_shared(lock, 60, 61));
    CHECK(manx_range_downgrade(&high) == 0 && manx_range_timedupgrade(&high, 0) == 0);
    CHECK(holds(&high, 60, 70, 0));
    CHECK(manx_range_unlock(&high) == 0);

    /* An open end stays open. */
    CHECK(manx_range_lock(lock, 10, MANX_RANGE_END, &low) == 0 && manx_range_split(&low, 20, &high) == 0);
    CHECK(holds(&low, 10, 20, 0) && holds(&high, 20, MANX_RANGE_END, 0) && !is_free(lock, UINT64_MAX, UINT64_MAX));
    CHECK(manx_range_unlock(&low) == 0 && manx_range_unlock(&high) == 0);
    CHECK(manx_range_destroy(lock) == 0);
}

static void sets(void) {
    manx_range_t *lock = made((manx_range_options_t){.block_log2 = 4});
    static const manx_range_span_t apart[] = {{50, 60}, {0, 10}, {1000, MANX_RANGE_END}};
    static const manx_range_span_t overlapping[] = {{0, 10}, {5, 15}, {15, 20}}, empty[] = {{0, 10}, {5, 5}};
    manx_range_set_t *set, *more;
    manx_range_held_t held;
    CHECK(manx_range_lock_many(lock, apart, 3, 0, &set) == 0);
    CHECK(!is_shared(lock, 0, 1) && !is_shared(lock, 59, 60) && !is_shared(lock, UINT64_MAX, UINT64_MAX));
    CHECK(is_free(lock, 10, 50) && is_free(lock, 60, 1000));
    CHECK(manx_range_trylock_many(lock, apart, 1, 0, &more) == EBUSY && !more);
    CHECK(manx_range_timedlock_many(lock, apart, 2, 0, soon(), &more) == ETIMEDOUT && !more);
    CHECK(manx_range_timedlock_many(lock, overlapping, 3, MANX_RANGE_MERGE, 0, &more) == ETIMEDOUT);
    CHECK(manx_range_destroy(lock) == EBUSY);
    CHECK(manx_range_unlock_many(set) == 0 && is_free(lock, 0, MANX_RANGE_END));

    CHECK(manx_range_lock_many(lock, apart, 3, MANX_RANGE_SHARED, &set) == 0);
    CHECK(manx_range_trylock_many(lock, apart, 3, MANX_RANGE_SHARED, &more) == 0);
    CHECK(manx_range_unlock_many(set) == 0 && is_shared(lock, 0, 1) && !is_free(lock, 0, 1));
    CHECK(manx_range_unlock_many(more) == 0);

    CHECK(manx_range_lock_many(lock, overlapping, 3, 0, &set) == EINVAL && !set);
    CHECK(manx_range_trylock_many(lock, overlapping, 3, MANX_RANGE_SHARED, &set) == EINVAL);
    CHECK(manx_range_timedlock_many(lock, overlapping, 3, 0, NEVER, &set) == EINVAL);
    CHECK(manx_range_trylock_many(lock, overlapping, 3, MANX_RANGE_MERGE, &set) == 0);
    CHECK(!is_free(lock, 0, 1) && !is_free(lock, 19, 20) && is_free(lock, 20, 21));
    CHECK(manx_range_unlock_many(set) == 0);
    CHECK(manx_range_timedlock_many(lock, overlapping, 3, MANX_RANGE_MERGE | MANX_RANGE_SHARED, 0, &set) == 0);
    CHECK(manx_range_rdlock(lock, 0, 20, &held) == 0 && manx_range_unlock(&held) == 0);
    CHECK(manx_range_unlock_many(set) == 0 && manx_range_unlock_many(NULL) == EPERM);

    CHECK(manx_range_lock_many(lock, apart, 0, 0, &set) == EINVAL);
    CHECK(manx_range_lock_many(lock, empty, 2, MANX_RANGE_MERGE, &set) == EINVAL);
    CHECK(manx_range_lock_many(lock, apart, 3, 4, &set) == EINVAL);
    CHECK(manx_range_lock_many(NULL, apart, 3, 0, &set) == EINVAL);
    CHECK(manx_range_lock_many(lock, NULL, 3, 0, &set) == EINVAL);
    CHECK(manx_range_lock_many(lock, apart, 3, 0, NULL) == EINVAL);
    CHECK(is_free(lock, 0, MANX_RANGE_END) && manx_range_destroy(lock) == 0);
}

static void owners(void) {
    manx_range_t *lock = made((manx_range_options_t){0});
    manx_range_owner_t *one, *other;
    manx_range_span_t spans[4] = {{7, 7}, {7, 7}, {7, 7}, {7, 7}};
    CHECK(manx_range_owner_create(NULL, lock, 0) == EINVAL && manx_range_owner_create(&one, NULL, 0) == EINVAL);
    CHECK(manx_range_owner_create(&one, lock, 0) == 0 && manx_range_owner_create(&other, lock, 0) == 0);
    CHECK(manx_range_owner_lock(one, 0, 100) == 0 && manx_range_owner_lock(one, 50, 150) == 0);
    CHECK(manx_range_owner_trylock(one, 0, 10) == 0 && manx_range_owner_rdlock(one, 0, 100) == 0);
    CHECK(manx_range_owner_trylock(other, 99, 200) == EBUSY && manx_range_owner_tryrdlock(other, 0, 1) == EBUSY);
    CHECK(manx_range_owner_timedlock(other, 99, 200, 0) == ETIMEDOUT);
    CHECK(manx_range_owner_timedrdlock(other, 99, 200, soon()) == ETIMEDOUT);
    CHECK(manx_range_owner_held(other, NULL, 0) == 0 && manx_range_owner_held(NULL, spans, 4) == 0);
    CHECK(manx_range_owner_held(one, spans, 2) == 4 && manx_range_owner_held(one, NULL, 9) == 4);
    CHECK(spans[0].end == 100 && spans[1].start == 50 && spans[1].end == 150 && spans[2].start == 7);

    /* The last lock of a range is undone first, and none that was not made. */
    CHECK(manx_range_owner_unlock(one, 0, 100) == 0 && !is_shared(lock, 20, 21));
    CHECK(manx_range_owner_unlock(one, 0, 99) == EPERM && manx_range_owner_unlock(one, 0, 0) == EINVAL);
    CHECK(manx_range_owner_release(one, 40, 60) == 0 && is_free(lock, 40, 60) && !is_free(lock, 39, 40));
    CHECK(!is_free(lock, 60, 61) && !is_free(lock, 149, 150));
    CHECK(manx_range_owner_release(one, 40, 60) == EPERM && manx_range_owner_release(one, 2, 1) == EINVAL);
    CHECK(manx_range_owner_release(other, 0, MANX_RANGE_END) == EPERM);
    CHECK(manx_range_owner_release_all(one) == 0 && is_free(lock, 0, MANX_RANGE_END));
    CHECK(manx_range_owner_unlock(one, 0, 10) == EPERM);

    /* What no other holder shares can be had alone. */
    CHECK(manx_range_owner_tryrdlock(one, 0, 100) == 0 && manx_range_owner_timedrdlock(other, 50, 100, 0) == 0);
    CHECK(manx_range_owner_timedlock(one, 0, 100, soon()) == ETIMEDOUT && is_shared(lock, 0, 1));
    CHECK(manx_range_owner_lock(one, 0, 50) == 0 && !is_shared(lock, 0, 1) && is_shared(lock, 50, 100));
    CHECK(manx_range_owner_timedlock(one, 100, MANX_RANGE_END, 0) == 0 && !is_free(lock, UINT64_MAX, UINT64_MAX));

    CHECK(manx_range_owner_lock(one, 3, 3) == EINVAL && manx_range_owner_trylock(one, 3, 3) == EINVAL);
    CHECK(manx_range_owner_timedlock(one, 3, 3, 0) == EINVAL && manx_range_owner_rdlock(one, 3, 3) == EINVAL);
    CHECK(manx_range_owner_tryrdlock(one, 3, 3) == EINVAL && manx_range_owner_timedrdlock(one, 3, 3, 0) == EINVAL);
    CHECK(manx_range_owner_lock(NULL, 0, 1) == EINVAL && manx_range_owner_trylock(NULL, 0, 1) == EINVAL);
    CHECK(manx_range_owner_timedlock(NULL, 0, 1, 0) == EINVAL && manx_range_owner_rdlock(NULL, 0, 1) == EINVAL);
    CHECK(manx_range_owner_tryrdlock(NULL, 0, 1) == EINVAL && manx_range_owner_timedrdlock(NULL, 0, 1, 0) == EINVAL);
    CHECK(manx_range_owner_unlock(NULL, 0, 1) == EINVAL && manx_range_owner_release(NULL, 0, 1) == EINVAL);
    CHECK(manx_range_owner_release_all(NULL) == EINVAL && manx_range_owner_destroy(NULL) == 0);
    CHECK(manx_range_owner_destroy(one) == 0 && is_free(lock, 0, 50) && !is_free(lock, 50, 51));
    CHECK(manx_range_owner_release_all(other) == 0 && manx_range_destroy(lock) == EBUSY);
    CHECK(manx_range_owner_destroy(other) == 0);

    /* An owner that holds few ranges: neighbours become one, with what lies between. */
    CHECK(manx_range_owner_create(&one, lock, 2) == 0);
    for (uint64_t row = 0; row < 10; row += 2)
        CHECK(manx_range_owner_lock(one, row, row + 1) == 0);
    CHECK(manx_range_owner_held(one, NULL, 0) <= 2 && !is_free(lock, 1, 2));
    CHECK(manx_range_owner_destroy(one) == 0 && manx_range_destroy(lock) == 0);
}

/* A waiter on a thread of its own, and what it gets. */
struct waiter {
    pthread_t thread;
    manx_range_t *lock;
    manx_range_owner_t *owner;
    manx_range_held_t held;
    uint64_t start, end;
    int upgrades, result;
};

static void *wait_for_range(void *argument) {
    struct waiter *waiter = argument;
    if (waiter->owner)
        waiter->result = manx_range_owner_lock(waiter->owner, waiter->start, waiter->end);
    else if (waiter->upgrades)
        waiter->result = manx_range_rdlock(waiter->lock, waiter->start, waiter->end, &waiter->held) +
                         manx_range_upgrade(&waiter->held);
    else
        waiter->result = manx_range_lock(waiter->lock, waiter->start, waiter->end, &waiter->held);
    return NULL;
}

static void start(struct waiter *waiter) {
    CHECK(pthread_create(&waiter->thread, NULL, wait_for_range, waiter) == 0);
    until_waiting(waiter->lock, 1);
}

static void finish(struct waiter *waiter) {
    CHECK(pthread_join(waiter->thread, NULL) == 0);
    CHECK(waiter->result == 0);
}

static int says(const char *what) {
    char text[500];
    size_t length = manx_range_deadlock(text, sizeof text);
    CHECK(length == strlen(text) && length > 10);
    return strstr(text, what) != NULL;
}

static void deadlocks(void) {
    manx_range_t *lock = made((manx_range_options_t){.detect_deadlocks = 1});
    manx_range_held_t held, other;
    manx_range_span_t span = {5, 15};
    manx_range_set_t *set;
    CHECK(manx_range_deadlock(NULL, 0) == 0);

    /* A thread that would wait for itself. */
    CHECK(manx_range_lock(lock, 0, 10, &held) == 0);
    CHECK(manx_range_lock(lock, 5, 15, &other) == EDEADLK && says("waits for 5..15") && says("0..10"));
    CHECK(manx_range_unlock(&other) == EPERM);
    CHECK(manx_range_rdlock(lock, 6, 15, &other) == EDEADLK && says("waits for 6..15"));
    CHECK(manx_range_timedlock(lock, 7, 15, NEVER, &other) == EDEADLK && says("waits for 7..15"));
    CHECK(manx_range_timedrdlock(lock, 8, 15, NEVER, &other) == EDEADLK && says("waits for 8..15"));
    CHECK(manx_range_lock_many(lock, &span, 1, 0, &set) == EDEADLK && says("waits for 5..15") && !set);
    CHECK(manx_range_timedlock_many(lock, &span, 1, 0, NEVER, &set) == EDEADLK && !set);
    CHECK(manx_range_unlock(&held) == 0);

    /* Two that share, and both want it alone: the first one gets it. */
    struct waiter upgrader = {.lock = lock, .start = 0, .end = 10, .upgrades = 1};
    CHECK(manx_range_rdlock(lock, 0, 10, &held) == 0);
    start(&upgrader);
    CHECK(manx_range_upgrade(&held) == EDEADLK && says("waits for 0..10") && says("has 0..10"));
    CHECK(manx_range_timedupgrade(&held, NEVER) == EDEADLK && holds(&held, 0, 10, 1));
    CHECK(manx_range_destroy(lock) == EBUSY && manx_range_unlock(&held) == 0);
    finish(&upgrader);
    CHECK(holds(&upgrader.held, 0, 10, 0) && manx_range_unlock(&upgrader.held) == 0);

    /* The same of owners, and a circle of two. */
    manx_range_owner_t *one, *two;
    CHECK(manx_range_owner_create(&one, lock, 0) == 0 && manx_range_owner_create(&two, lock, 0) == 0);
    CHECK(manx_range_owner_rdlock(one, 0, 10) == 0 && manx_range_owner_rdlock(two, 0, 10) == 0);
    struct waiter owner = {.lock = lock, .owner = one, .start = 0, .end = 10};
    start(&owner);
    CHECK(manx_range_owner_lock(two, 0, 10) == EDEADLK && says("waits for 0..10") && says("has 0..10"));
    CHECK(manx_range_owner_release_all(two) == 0);
    finish(&owner);
    CHECK(manx_range_owner_release_all(one) == 0);
    CHECK(manx_range_owner_lock(one, 0, 10) == 0 && manx_range_owner_lock(two, 20, 30) == 0);
    owner.start = 25;
    owner.end = 26;
    start(&owner);
    CHECK(manx_range_owner_lock(two, 5, 6) == EDEADLK && says("waits for 5..6") && says("waits for 25..26"));
    CHECK(manx_range_owner_timedlock(two, 5, 6, NEVER) == EDEADLK && manx_range_owner_rdlock(two, 5, 6) == EDEADLK);
    CHECK(manx_range_owner_timedrdlock(two, 5, 6, NEVER) == EDEADLK);
    CHECK(manx_range_owner_held(two, NULL, 0) == 1 && manx_range_owner_destroy(two) == 0);
    finish(&owner);
    CHECK(manx_range_owner_destroy(one) == 0 && manx_range_destroy(lock) == 0);
}

/* A lock may hold a limited number of ranges, and what was held at the limit is held still. */
static void limits(void) {
    enum { MOST = 10000 };
    static manx_range_held_t readers[MOST];
    static const manx_range_span_t span = {900, 901};
    manx_range_t *lock = made((manx_range_options_t){.spill_max = 8});
    manx_range_held_t writer, reader, held;
    manx_range_owner_t *owner;
    manx_range_set_t *set;
    size_t count = 0;
    int result;
    CHECK(manx_range_lock(lock, 100, 200, &writer) == 0 && manx_range_rdlock(lock, 300, 400, &reader) == 0);
    CHECK(manx_range_owner_create(&owner, lock, 0) == 0 && manx_range_owner_lock(owner, 500, 600) == 0);
    while ((result = manx_range_rdlock(lock, 0, 1, &readers[count])) == 0)
        CHECK(++count < MOST);
    CHECK(result == EAGAIN && count > 8 && manx_range_unlock(&readers[count]) == EPERM);
    CHECK(manx_range_lock(lock, 900, 901, &held) == EAGAIN && manx_range_trylock(lock, 900, 901, &held) == EAGAIN);
    CHECK(manx_range_timedlock(lock, 900, 901, 0, &held) == EAGAIN);
    CHECK(manx_range_tryrdlock(lock, 0, 1, &held) == EAGAIN && manx_range_timedrdlock(lock, 0, 1, 0, &held) == EAGAIN);
    CHECK(manx_range_split(&writer, 150, &held) == EAGAIN && manx_range_unlock(&held) == EPERM);
    CHECK(manx_range_shrink(&writer, 100, 150) == EAGAIN && manx_range_downgrade(&writer) == EAGAIN);
    CHECK(holds(&writer, 100, 200, 0) && manx_range_upgrade(&reader) == EAGAIN);
    CHECK(manx_range_timedupgrade(&reader, 0) == EAGAIN && holds(&reader, 300, 400, 1));
    CHECK(manx_range_lock_many(lock, &span, 1, 0, &set) == EAGAIN && !set);
    CHECK(manx_range_trylock_many(lock, &span, 1, 0, &set) == EAGAIN && !set);
    CHECK(manx_range_timedlock_many(lock, &span, 1, 0, 0, &set) == EAGAIN && !set);
    CHECK(manx_range_owner_lock(owner, 900, 901) == EAGAIN && manx_range_owner_trylock(owner, 900, 901) == EAGAIN);
    CHECK(manx_range_owner_timedlock(owner, 900, 901, 0) == EAGAIN && manx_range_owner_rdlock(owner, 0, 1) == EAGAIN);
    CHECK(manx_range_owner_tryrdlock(owner, 0, 1) == EAGAIN && manx_range_owner_timedrdlock(owner, 0, 1, 0) == EAGAIN);
    CHECK(manx_range_owner_release(owner, 550, 560) == EAGAIN && manx_range_owner_held(owner, NULL, 0) == 1);
    CHECK(manx_range_owner_unlock(owner, 500, 600) == 0);
    /* There is room for one again. */
    CHECK(manx_range_lock(lock, 900, 901, &held) == 0 && manx_range_unlock(&held) == 0);
    while (count > 0)
        CHECK(manx_range_unlock(&readers[--count]) == 0);
    CHECK(manx_range_split(&writer, 150, &held) == 0 && manx_range_unlock(&held) == 0);
    CHECK(manx_range_unlock(&writer) == 0 && manx_range_unlock(&reader) == 0);
    CHECK(manx_range_owner_destroy(owner) == 0 && manx_range_destroy(lock) == 0);
}

static void figures(void) {
    manx_range_t *lock = made((manx_range_options_t){0}), *recorded = made((manx_range_options_t){.recorded = 1});
    manx_range_statistics_t now;
    manx_range_held_t held;
    char text[1000], expected[1000];
    CHECK(manx_range_statistics(NULL, &now) == EINVAL && manx_range_statistics(lock, NULL) == EINVAL);
    CHECK(manx_range_statistics(lock, &now) == 0 && now.acquired == 0 && now.spilled == 0);
    CHECK(manx_range_lock(lock, 5, MANX_RANGE_END, &held) == 0);
    CHECK(manx_range_statistics(lock, &now) == 0 && now.acquired == 1 && now.spilled > 0);
    snprintf(expected, sizeof expected,
             "{\"held\":[{\"range\":\"5..\",\"access\":\"exclusive\",\"holder\":\"thread %ld\",\"held_ns\":null}],"
             "\"waiting\":[]}",
             syscall(SYS_gettid));
    CHECK(manx_range_dump(lock, MANX_RANGE_JSON, text, sizeof text) == strlen(expected));
    CHECK(strcmp(text, expected) == 0);
    memset(text, 'x', sizeof text);
    CHECK(manx_range_dump(lock, MANX_RANGE_JSON, text, 8) == strlen(expected));
    CHECK(strcmp(text, "{\"held\"") == 0 && text[8] == 'x');
    CHECK(manx_range_dump(lock, MANX_RANGE_JSON, NULL, 99) == strlen(expected));
    CHECK(manx_range_dump(lock, MANX_RANGE_JSON, text, 0) == strlen(expected) && text[0] == '{');
    CHECK(manx_range_dump(NULL, MANX_RANGE_JSON, text, 99) == 0 && manx_range_dump(lock, 2, text, 99) == 0);

    struct waiter waiter = {.lock = lock, .start = 0, .end = 10};
    start(&waiter);
    CHECK(manx_range_dump(lock, MANX_RANGE_TEXT, text, sizeof text) == strlen(text));
    CHECK(strstr(text, "1 held, 1 waiting") && strstr(text, "0..10") && strstr(text, "not recorded"));
    CHECK(manx_range_unlock(&held) == 0);
    finish(&waiter);
    CHECK(manx_range_unlock(&waiter.held) == 0);
    CHECK(manx_range_timedlock(lock, 0, 1, 0, &held) == 0);
    CHECK(manx_range_timedlock(lock, 0, 1, 0, &waiter.held) == ETIMEDOUT);
    CHECK(manx_range_statistics(lock, &now) == 0);
    CHECK(now.acquired == 3 && now.waits == 2 && now.given_up == 1 && now.waiting == 0);
    CHECK(now.waited_ns_max > 0 && now.waited_ns >= now.waited_ns_max && now.handed_over <= 1);
    CHECK(manx_range_unlock(&held) == 0 && manx_range_destroy(lock) == 0);

    CHECK(manx_range_lock(recorded, 0, 1, &held) == 0);
    CHECK(manx_range_dump(recorded, MANX_RANGE_TEXT, text, sizeof text) > 0 && !strstr(text, "not recorded"));
    CHECK(manx_range_unlock(&held) == 0 && manx_range_destroy(recorded) == 0);
}

/* Threads that use parts of one array; one thread at a time uses each part. */
enum { KEYS = 256, THREADS = 4, ROUNDS = 2000 };

static manx_range_t *shared_lock;
static int users[KEYS];

static void *use(void *argument) {
    const int me = *(const int *)argument;
    uint32_t random = (uint32_t)me;
    for (int i = 0; i < ROUNDS; i++) {
        manx_range_held_t held;
        random = random * 1664525 + 1013904223;
        const uint64_t from = (random >> 8) % KEYS, length = 1 + (random >> 20) % 32;
        const uint64_t end = from + length < KEYS ? from + length : KEYS;
        CHECK(manx_range_lock(shared_lock, from, end, &held) == 0);
        for (uint64_t key = from; key < end; key++) {
            CHECK(users[key] == 0);
            users[key] = me;
        }
        for (uint64_t key = from; key < end; key++) {
            CHECK(users[key] == me);
            users[key] = 0;
        }
        CHECK(manx_range_unlock(&held) == 0);
    }
    return NULL;
}

static void exclusion(void) {
    pthread_t threads[THREADS];
    int names[THREADS];
    shared_lock = made((manx_range_options_t){.block_log2 = 4});
    for (int i = 0; i < THREADS; i++) {
        names[i] = i + 1;
        CHECK(pthread_create(&threads[i], NULL, use, &names[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(manx_range_destroy(shared_lock) == 0);
}

int main(void) {
    locks();
    one_by_one();
    changes();
    sets();
    owners();
    deadlocks();
    limits();
    figures();
    exclusion();
    return 0;
}
