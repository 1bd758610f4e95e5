/* Locks of ranges of byte strings: the order, open ends, single keys, and every error. */
#include "../../../preload/tests/programs/check.h"
#include <errno.h>
#include <manx_range.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

static manx_range_bytes_t *lock;

static manx_range_key_t key(const char *text) {
    manx_range_key_t key = {text, strlen(text)};
    return key;
}

/* Takes a range; the empty text is an open end. */
static int take(const char *start, const char *end, manx_range_bytes_held_t *held) {
    manx_range_key_t low = key(start), high = key(end);
    return manx_range_bytes_trylock(lock, *start ? &low : NULL, *end ? &high : NULL, held);
}

static int is_free(const char *start, const char *end) {
    manx_range_bytes_held_t held;
    int result = take(start, end, &held);
    CHECK(result == 0 || result == EBUSY);
    CHECK(manx_range_bytes_unlock(&held) == (result == 0 ? 0 : EPERM));
    return result == 0;
}

static void *wait_for_all(void *held) {
    CHECK(manx_range_bytes_lock(lock, NULL, NULL, held) == 0);
    return NULL;
}

static void ranges(void) {
    manx_range_bytes_held_t held, other;
    char start[] = "bear", end[] = "cat";
    manx_range_key_t from = key(start), to = key(end);
    CHECK(manx_range_bytes_lock(lock, &from, &to, &held) == 0);
    /* The keys were copied. */
    memset(start, 'x', sizeof start);
    memset(end, 'x', sizeof end);
    CHECK(!is_free("bear", "bearcat") && !is_free("c", "") && !is_free("", "beard") && !is_free("a", "z"));
    CHECK(is_free("", "bear") && is_free("bea", "bear") && is_free("cat", "") && is_free("bad", "be"));
    CHECK(manx_range_bytes_destroy(lock) == EBUSY);

    from = key("car");
    to = key("catfish");
    CHECK(manx_range_bytes_timedlock(lock, &from, &to, manx_now_ns() + 1000000, &other) == ETIMEDOUT);
    CHECK(manx_range_bytes_timedrdlock(lock, &from, &to, 0, &other) == ETIMEDOUT);
    CHECK(manx_range_bytes_tryrdlock(lock, &from, &to, &other) == EBUSY && manx_range_bytes_unlock(&other) == EPERM);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_for_all, &other) == 0);
    CHECK(manx_range_bytes_unlock(&held) == 0 && manx_range_bytes_unlock(&held) == EPERM);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(!is_free("", "") && !is_free("y", "z"));
    CHECK(manx_range_bytes_unlock(&other) == 0 && is_free("", ""));

    CHECK(manx_range_bytes_rdlock(lock, &from, &to, &held) == 0);
    CHECK(manx_range_bytes_timedrdlock(lock, NULL, NULL, 0, &other) == 0 && manx_range_bytes_unlock(&other) == 0);
    CHECK(!is_free("cat", "cate") && manx_range_bytes_unlock(&held) == 0);
    CHECK(manx_range_bytes_timedlock(lock, &from, NULL, 0, &held) == 0 && manx_range_bytes_unlock(&held) == 0);
}

/* One key, which is a beginning of others, with a zero in it or none. */
static void keys(void) {
    manx_range_bytes_held_t held, other;
    static const char name[] = "manx";
    const manx_range_key_t one = {name, 4}, next = {name, 5}, after = {"manx\0\0", 6};
    CHECK(manx_range_bytes_lock(lock, &one, &next, &held) == 0);
    CHECK(manx_range_bytes_trylock(lock, &next, &after, &other) == 0 && manx_range_bytes_unlock(&other) == 0);
    CHECK(manx_range_bytes_trylock(lock, &one, &after, &other) == EBUSY);
    CHECK(is_free("", "manx") && is_free("manxcat", "") && !is_free("man", "manxcat"));
    CHECK(manx_range_bytes_unlock(&held) == 0);

    /* The lowest key has no bytes, and whatever pointer. */
    const manx_range_key_t lowest = {NULL, 0}, second = {"", 1};
    CHECK(manx_range_bytes_lock(lock, &lowest, &second, &held) == 0);
    CHECK(manx_range_bytes_trylock(lock, NULL, &second, &other) == EBUSY);
    CHECK(manx_range_bytes_trylock(lock, &second, NULL, &other) == 0 && manx_range_bytes_unlock(&other) == 0);
    CHECK(manx_range_bytes_unlock(&held) == 0);

    const manx_range_key_t wrong[] = {{NULL, 1}, {name, SIZE_MAX}};
    for (int i = 0; i < 2; i++) {
        CHECK(manx_range_bytes_lock(lock, &wrong[i], NULL, &held) == EINVAL);
        CHECK(manx_range_bytes_rdlock(lock, NULL, &wrong[i], &held) == EINVAL);
    }
    CHECK(manx_range_bytes_lock(lock, &one, &one, &held) == EINVAL);
    CHECK(manx_range_bytes_trylock(lock, &next, &one, &held) == EINVAL);
    CHECK(manx_range_bytes_timedlock(lock, NULL, &lowest, UINT64_MAX, &held) == EINVAL);
    CHECK(manx_range_bytes_timedrdlock(lock, &one, &lowest, UINT64_MAX, &held) == EINVAL);
    CHECK(manx_range_bytes_unlock(&held) == EPERM && manx_range_bytes_unlock(NULL) == EINVAL);
    CHECK(manx_range_bytes_lock(NULL, NULL, NULL, &held) == EINVAL);
    CHECK(manx_range_bytes_lock(lock, NULL, NULL, NULL) == EINVAL);
}

static void errors(void) {
    manx_range_bytes_held_t held[64], other;
    const manx_range_options_t wrong = {.block_log2 = 64}, few = {.spill_max = 8, .detect_deadlocks = 1};
    const manx_range_key_t low = {"a", 1}, high = {"a", 2};
    manx_range_bytes_t *small = NULL;
    char why[200];
    int count = 0, result;
    CHECK(manx_range_bytes_create(NULL, NULL) == EINVAL);
    CHECK(manx_range_bytes_create(&small, &wrong) == EINVAL && !small);
    CHECK(manx_range_bytes_create(&small, &few) == 0 && manx_range_bytes_destroy(NULL) == 0);
    CHECK(manx_range_bytes_lock(small, &low, &high, &held[0]) == 0);
    CHECK(manx_range_bytes_lock(small, NULL, NULL, &other) == EDEADLK && manx_range_deadlock(why, sizeof why) > 0);
    CHECK(strstr(why, "waits for"));
    CHECK(manx_range_bytes_timedrdlock(small, NULL, NULL, UINT64_MAX, &other) == EDEADLK);
    CHECK(manx_range_bytes_unlock(&held[0]) == 0);
    while ((result = manx_range_bytes_rdlock(small, &low, &high, &held[count])) == 0)
        CHECK(++count < 64);
    CHECK(result == EAGAIN && manx_range_bytes_tryrdlock(small, &low, &high, &other) == EAGAIN);
    while (count > 0)
        CHECK(manx_range_bytes_unlock(&held[--count]) == 0);
    CHECK(manx_range_bytes_destroy(small) == 0);
}

int main(void) {
    CHECK(manx_range_bytes_create(&lock, NULL) == 0);
    ranges();
    keys();
    errors();
    CHECK(manx_range_bytes_destroy(lock) == 0);
    return 0;
}
