/*
 * Manx for C: locks of ranges of keys, such as parts of a file or of a buffer.
 *
 *     manx_range_t *file;
 *     manx_range_held_t head;
 *     manx_range_create(&file, NULL);
 *     manx_range_lock(file, 0, 4096, &head);
 *     manx_range_unlock(&head);
 *     manx_range_destroy(file);
 *
 * Functions return 0 or an error number, and leave errno alone. What fails changes nothing, unless it says otherwise:
 *
 *     EINVAL      the range is empty or inverted, or an argument is none
 *     EBUSY       it would have to be waited for
 *     ETIMEDOUT   it was waited for until the deadline, which is in nanoseconds of CLOCK_MONOTONIC (manx_now_ns)
 *     EDEADLK     it would be waited for for ever; manx_range_deadlock says why
 *     EAGAIN      the lock holds as many ranges as it may
 *     EPERM       it is not held
 *     ENOMEM      there is no memory for a lock
 *
 * Link with `pkg-config --cflags --libs manx`.
 *
 * Generated from the library's sources by cbindgen: do not edit.
 */

#ifndef MANX_RANGE_H
#define MANX_RANGE_H

#include <stddef.h>
#include <stdint.h>
#include "manx.h"
/* The end of a range that has no end. It has the key UINT64_MAX as well, so that every key can be locked. */
#define MANX_RANGE_END UINT64_MAX

/* What holds nothing, as memory that is all zero. */
#define MANX_RANGE_HELD_INIT {0, 0}

/**
 * A flag: others may share the ranges.
 */
#define MANX_RANGE_SHARED 1

/**
 * A flag: ranges of a set that overlap or touch become one, instead of being an error.
 */
#define MANX_RANGE_MERGE 2

/**
 * For `manx_range_dump`: lines for people.
 */
#define MANX_RANGE_TEXT 0

/**
 * For `manx_range_dump`: a JSON object.
 */
#define MANX_RANGE_JSON 1

/**
 * A lock of ranges of byte strings, in the order of `memcmp`; a key comes before longer ones that
 * begin with it. Keys whose first eight bytes are the same are looked after together; for other
 * keys `block_log2` decides, which counts these bytes as a number.
 */
typedef struct manx_range_bytes_t manx_range_bytes_t;

/**
 * A holder of ranges of a lock, such as a transaction. What it holds is in the way of others only:
 * it may lock the same keys again, and each of these locks counts. One thread may use it at a
 * time.
 */
typedef struct manx_range_owner_t manx_range_owner_t;

/**
 * Ranges that are held together.
 */
typedef struct manx_range_set_t manx_range_set_t;

/**
 * A lock of ranges of keys, which are numbers of 64 bits: offsets of a file, addresses, numbers of
 * records. Ranges are half-open, from a first key to the one after the last. Waiters are overtaken
 * by others that want some of the same keys, for 100 µs or as their epoch or the lock's options
 * say. Then they are served in the order of arrival. A caller that wants other keys is not in
 * their way.
 */
typedef struct manx_range_t manx_range_t;

/**
 * How a lock is to be made. What is 0 is as usual, so that all-zero (`{0}`) is the usual lock.
 */
typedef struct manx_range_options_t {
    /**
     * Ranges within the same 2^`block_log2` keys are looked after together; ranges of different
     * blocks are not in each other's way. Best are blocks somewhat larger than the usual range. 14
     * unless said, at most 63.
     */
    uint32_t block_log2;
    /**
     * The number of ranges that may be held, in eights, beside the several hundred that the lock
     * has room for. Wide ranges, over more than some eight blocks, are always beside these. 2^20
     * unless said.
     */
    uint32_t spill_max;
    /**
     * For how long a waiter may be overtaken, in nanoseconds, in epochs too; 1 is as good as the
     * order of arrival.
     */
    uint64_t window_ns;
    /**
     * Not 0: it is recorded since when ranges are held, for `manx_range_dump`. It costs a look at
     * the clock each time.
     */
    uint32_t recorded;
    /**
     * Not 0: a caller gets `EDEADLK` if it would wait for a holder that waits, perhaps by way of
     * others, for this caller.
     */
    uint32_t detect_deadlocks;
} manx_range_options_t;

/**
 * A range that is held. All-zero (`MANX_RANGE_HELD_INIT`) holds nothing. Any thread may use it,
 * one at a time. It may be moved by copying, if the copy alone is used from then on.
 */
typedef struct manx_range_held_t {
    /**
     * Private.
     */
    const struct manx_range_t *lock;
    /**
     * Private.
     */
    const void *range;
} manx_range_held_t;

/**
 * From `start` to `end`, without `end`; if that is `MANX_RANGE_END`, all keys from `start` on.
 */
typedef struct manx_range_span_t {
    /**
     * The first key.
     */
    uint64_t start;
    /**
     * The key after the last.
     */
    uint64_t end;
} manx_range_span_t;

/**
 * What has happened in a lock.
 */
typedef struct manx_range_statistics_t {
    /**
     * Ranges taken.
     */
    uint64_t acquired;
    /**
     * Ranges taken or given up after a wait, beyond a moment of spinning.
     */
    uint64_t waits;
    /**
     * How long these waits took, all together, in nanoseconds.
     */
    uint64_t waited_ns;
    /**
     * How long the longest of them took.
     */
    uint64_t waited_ns_max;
    /**
     * Waits that ended because the range was handed over, its waiter's window being over.
     */
    uint64_t handed_over;
    /**
     * Waits that ended without the range.
     */
    uint64_t given_up;
    /**
     * How many wait now.
     */
    uint64_t waiting;
    /**
     * Ranges that the lock has room for on the heap now, beside those in the lock itself.
     */
    uint64_t spilled;
} manx_range_statistics_t;

/**
 * A byte string, in the program's memory. The next one in the order is the same with a zero at the
 * end: if `name` ends with a zero, as strings of C do, from `{name, length}` to `{name, length +
 * 1}` is this key alone.
 */
typedef struct manx_range_key_t {
    /**
     * The bytes.
     */
    const void *bytes;
    /**
     * How many; the lowest key has none.
     */
    size_t length;
} manx_range_key_t;

/**
 * A range of byte strings that is held. All-zero (`MANX_RANGE_HELD_INIT`) holds nothing. What is
 * said of `manx_range_held_t` is true of this, too.
 */
typedef struct manx_range_bytes_held_t {
    /**
     * Private.
     */
    const struct manx_range_bytes_t *lock;
    /**
     * Private.
     */
    const void *range;
} manx_range_bytes_held_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a lock without held ranges, as `options` say, or as usual if they are NULL. Returns 0,
 * `ENOMEM`, or `EINVAL`: a `block_log2` above 63, or `lock` is NULL.
 * They point to where the lock's address is written, and to options, or are NULL.
 */
int manx_range_create(struct manx_range_t **lock, const struct manx_range_options_t *options);

/**
 * Gives the lock's memory back. No other thread may be using the lock. Returns 0; also for NULL,
 * which is no lock; or `EBUSY` if a range of it is held, a thread waits, or an owner is left; it
 * is a lock as before then.
 * It points to a lock, or is NULL.
 */
int manx_range_destroy(struct manx_range_t *lock);

/**
 * Waits until no other holder has a key of the range, from `start` to `end`. Returns 0, and `held`
 * holds it; `EINVAL` if the range is empty or inverted, or a pointer is NULL; `EAGAIN` if the lock
 * holds as many ranges as it may; `EDEADLK` if it would wait for ever, and the lock looks for
 * that. If it fails, `held` holds nothing.
 * They point to a lock, and to memory for what is held, which holds nothing.
 */
int manx_range_lock(struct manx_range_t *lock, uint64_t start, uint64_t end, struct manx_range_held_t *held);

/**
 * Takes the range if that needs no waiting. Returns 0; or `EBUSY` if a holder has a key of it, or
 * a waiter for one may not be overtaken any more; `EINVAL` and `EAGAIN` as `manx_range_lock`.
 * The pointers are as `manx_range_lock`'s.
 */
int manx_range_trylock(struct manx_range_t *lock, uint64_t start, uint64_t end, struct manx_range_held_t *held);

/**
 * As `manx_range_lock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
 * `ETIMEDOUT` then.
 * The pointers are as `manx_range_lock`'s.
 */
int manx_range_timedlock(struct manx_range_t *lock, uint64_t start, uint64_t end, uint64_t deadline_ns, struct manx_range_held_t *held);

/**
 * Waits until no holder has a key of the range for itself, and shares it from then on. Returns
 * what `manx_range_lock` returns.
 * The pointers are as `manx_range_lock`'s.
 */
int manx_range_rdlock(struct manx_range_t *lock, uint64_t start, uint64_t end, struct manx_range_held_t *held);

/**
 * Shares the range if that needs no waiting. Returns what `manx_range_trylock` returns.
 * The pointers are as `manx_range_lock`'s.
 */
int manx_range_tryrdlock(struct manx_range_t *lock, uint64_t start, uint64_t end, struct manx_range_held_t *held);

/**
 * As `manx_range_rdlock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
 * `ETIMEDOUT` then.
 * The pointers are as `manx_range_lock`'s.
 */
int manx_range_timedrdlock(struct manx_range_t *lock, uint64_t start, uint64_t end, uint64_t deadline_ns, struct manx_range_held_t *held);

/**
 * Gives the range back, and `held` holds nothing. Any thread may. Returns 0; `EPERM` if it holds
 * nothing; `EINVAL` if it is NULL.
 * It points to what a function of this header made, or to zeros.
 */
int manx_range_unlock(struct manx_range_held_t *held);

/**
 * Cuts the range in two: `held` keeps what is before `key`, and `high` holds the rest, in the same
 * way. Returns 0; or, with `held` as it was and nothing in `high`, `EINVAL` if one of the two
 * would have no key, if `key` is `UINT64_MAX`, or if a pointer is NULL; `EAGAIN` if the lock holds
 * as many ranges as it may; `EPERM` if `held` holds nothing.
 * They point to what is held, and to memory for what is held, which holds nothing.
 */
int manx_range_split(struct manx_range_held_t *held, uint64_t key, struct manx_range_held_t *high);

/**
 * Keeps the keys from `start` to `end`, and gives the others back. Returns 0; or, with `held` as
 * it was, `EINVAL` if the range is empty or inverted, or the pointer is NULL; `EAGAIN` if the lock
 * holds as many ranges as it may; `EPERM` if it is no part of what `held` holds.
 * It points to what is held.
 */
int manx_range_shrink(struct manx_range_held_t *held, uint64_t start, uint64_t end);

/**
 * From now on others may share the range. Returns 0; or, with `held` as it was, `EAGAIN` if the
 * lock holds as many ranges as it may; `EPERM` if `held` holds nothing; `EINVAL` if it is NULL.
 * It points to what is held.
 */
int manx_range_downgrade(struct manx_range_held_t *held);

/**
 * Waits until no other holder shares the range, and has it alone from then on. Returns 0; or, with
 * `held` as it was, `EDEADLK` if another holder that shares it waits for the same, or as
 * `manx_range_lock`; `EAGAIN` if the lock holds as many ranges as it may; `EPERM` if `held` holds
 * nothing; `EINVAL` if it is NULL.
 * It points to what is held.
 */
int manx_range_upgrade(struct manx_range_held_t *held);

/**
 * As `manx_range_upgrade`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
 * `ETIMEDOUT` then, with `held` as it was.
 * It points to what is held.
 */
int manx_range_timedupgrade(struct manx_range_held_t *held, uint64_t deadline_ns);

/**
 * What is held: the range, and whether others may share it (1 or 0). Where a pointer is NULL,
 * nothing is written. Returns 0; `EPERM` if `held` holds nothing; `EINVAL` if it is NULL.
 * They point to what is held, to a span and to a number, or are NULL.
 */
int manx_range_held_span(const struct manx_range_held_t *held, struct manx_range_span_t *span, int *shared);

/**
 * Waits until no other holder has a key of any of the `count` ranges, and takes none of them
 * meanwhile: two callers that want the same ranges in different orders do not get stuck. `flags`
 * is 0 or a sum of `MANX_RANGE_SHARED` and `MANX_RANGE_MERGE`. Returns 0, and `set` points to what
 * is held; or, with NULL there, `EINVAL` if there are no ranges, one is empty or inverted, two
 * overlap (but for `MANX_RANGE_MERGE`), a flag is unknown or a pointer is NULL; `EAGAIN` and
 * `EDEADLK` as `manx_range_lock`.
 * They point to a lock, to `count` ranges, and to where the set's address is written.
 */
int manx_range_lock_many(struct manx_range_t *lock, const struct manx_range_span_t *spans, size_t count, uint32_t flags, struct manx_range_set_t **set);

/**
 * Takes all of the ranges, or none, if that needs no waiting. Returns 0; `EBUSY` as
 * `manx_range_trylock`; `EINVAL` and `EAGAIN` as `manx_range_lock_many`.
 * The pointers are as `manx_range_lock_many`'s.
 */
int manx_range_trylock_many(struct manx_range_t *lock, const struct manx_range_span_t *spans, size_t count, uint32_t flags, struct manx_range_set_t **set);

/**
 * As `manx_range_lock_many`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
 * `ETIMEDOUT` then.
 * The pointers are as `manx_range_lock_many`'s.
 */
int manx_range_timedlock_many(struct manx_range_t *lock, const struct manx_range_span_t *spans, size_t count, uint32_t flags, uint64_t deadline_ns, struct manx_range_set_t **set);

/**
 * Gives all ranges of the set back, and its memory. Any thread may. Returns 0; `EPERM` if it is
 * NULL.
 * It points to a set, or is NULL. There is none afterwards.
 */
int manx_range_unlock_many(struct manx_range_set_t *set);

/**
 * Makes an owner that holds nothing yet. If `ranges_max` is not 0, whenever it holds more ranges
 * than that, neighbours become one range, with all that lies between them, as far as no other
 * holder is in the way. Returns 0, or `EINVAL`: a pointer is NULL.
 * They point to a lock, and to where the owner's address is written.
 */
int manx_range_owner_create(struct manx_range_owner_t **owner, struct manx_range_t *lock, size_t ranges_max);

/**
 * Gives back all that the owner holds, and its memory. Returns 0; also for NULL, which is no
 * owner.
 * It points to an owner that no thread uses, or is NULL. There is none afterwards.
 */
int manx_range_owner_destroy(struct manx_range_owner_t *owner);

/**
 * Waits until no other holder has a key of the range, and the owner has it. Returns 0; or, with
 * what was held as it was, `EDEADLK` if the owner shares some of it, and so does another holder
 * that waits to have it alone, or as `manx_range_lock`; `EAGAIN` as there; `EINVAL` if the range
 * is empty or inverted, or the owner is NULL.
 * It points to an owner that no other thread uses now.
 */
int manx_range_owner_lock(struct manx_range_owner_t *owner, uint64_t start, uint64_t end);

/**
 * Takes the range if that needs no waiting. Returns 0; `EBUSY` as `manx_range_trylock`; `EAGAIN`
 * and `EINVAL` as `manx_range_owner_lock`.
 * It points to an owner that no other thread uses now.
 */
int manx_range_owner_trylock(struct manx_range_owner_t *owner, uint64_t start, uint64_t end);

/**
 * As `manx_range_owner_lock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
 * `ETIMEDOUT` then.
 * It points to an owner that no other thread uses now.
 */
int manx_range_owner_timedlock(struct manx_range_owner_t *owner, uint64_t start, uint64_t end, uint64_t deadline_ns);

/**
 * Waits until no other holder has a key of the range for itself, and the owner shares it. Returns
 * 0; `EDEADLK` and `EAGAIN` as `manx_range_lock`; `EINVAL` as `manx_range_owner_lock`.
 * It points to an owner that no other thread uses now.
 */
int manx_range_owner_rdlock(struct manx_range_owner_t *owner, uint64_t start, uint64_t end);

/**
 * Shares the range if that needs no waiting. Returns what `manx_range_owner_trylock` returns.
 * It points to an owner that no other thread uses now.
 */
int manx_range_owner_tryrdlock(struct manx_range_owner_t *owner, uint64_t start, uint64_t end);

/**
 * As `manx_range_owner_rdlock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
 * `ETIMEDOUT` then.
 * It points to an owner that no other thread uses now.
 */
int manx_range_owner_timedrdlock(struct manx_range_owner_t *owner, uint64_t start, uint64_t end, uint64_t deadline_ns);

/**
 * Undoes the last lock of exactly this range. Returns 0; `EPERM` if the owner holds none; `EINVAL`
 * as `manx_range_owner_lock`.
 * It points to an owner that no other thread uses now.
 */
int manx_range_owner_unlock(struct manx_range_owner_t *owner, uint64_t start, uint64_t end);

/**
 * Gives back all that the owner holds of the range, by however many locks, and keeps what lies
 * outside of it. Returns 0; `EPERM` if it holds nothing of it; `EINVAL` as
 * `manx_range_owner_lock`; `EAGAIN` if the lock has no room for the parts that are kept: what had
 * not been given back until then is still held.
 * It points to an owner that no other thread uses now.
 */
int manx_range_owner_release(struct manx_range_owner_t *owner, uint64_t start, uint64_t end);

/**
 * Gives back all that the owner holds. Returns 0, or `EINVAL`: it is NULL.
 * It points to an owner that no other thread uses now.
 */
int manx_range_owner_release_all(struct manx_range_owner_t *owner);

/**
 * How many ranges the owner holds, 0 if it is NULL. The first `count` of them, in the order of
 * locking, are written to `spans`.
 * They point to an owner that no other thread uses now, and to memory for `count` ranges, or are
 * NULL.
 */
size_t manx_range_owner_held(struct manx_range_owner_t *owner, struct manx_range_span_t *spans, size_t count);

/**
 * What has happened in the lock so far. Returns 0, or `EINVAL`: a pointer is NULL.
 * They point to a lock, and to memory for its statistics.
 */
int manx_range_statistics(struct manx_range_t *lock, struct manx_range_statistics_t *statistics);

/**
 * Writes the held ranges with their holders, since when if that is recorded, and the waiters with
 * the holders that they wait for: `size` bytes at most, a zero at the end included. `format` is
 * `MANX_RANGE_TEXT` or `MANX_RANGE_JSON`. Returns the length of the whole text, without the zero,
 * as `snprintf` does: if that is `size` or more, some is missing. 0 if the lock is NULL or the
 * format unknown, with nothing written. It stops all threads that use the lock for as long as it
 * takes to copy that.
 * They point to a lock, and to `size` bytes; `buffer` may be NULL, and nothing is written then.
 */
size_t manx_range_dump(struct manx_range_t *lock, uint32_t format, char *buffer, size_t size);

/**
 * Writes why the calling thread's last `EDEADLK` was returned: what each waiter waits for, and
 * which holder has that. Writes as `manx_range_dump` does; returns 0 if there was none yet.
 * It points to `size` bytes, or is NULL.
 */
size_t manx_range_deadlock(char *buffer, size_t size);

/**
 * As `manx_range_create`, for byte strings.
 * They point to where the lock's address is written, and to options, or are NULL.
 */
int manx_range_bytes_create(struct manx_range_bytes_t **lock, const struct manx_range_options_t *options);

/**
 * As `manx_range_destroy`.
 * It points to a lock, or is NULL.
 */
int manx_range_bytes_destroy(struct manx_range_bytes_t *lock);

/**
 * As `manx_range_lock`, from the key `start` to the key `end`, without `end`. Where `start` is
 * NULL the range begins with the lowest key, and where `end` is NULL it has no end. `EINVAL` also
 * if a key has a length and no bytes.
 * They point to a lock, to keys or NULL, and to memory for what is held, which holds nothing.
 */
int manx_range_bytes_lock(struct manx_range_bytes_t *lock, const struct manx_range_key_t *start, const struct manx_range_key_t *end, struct manx_range_bytes_held_t *held);

/**
 * As `manx_range_trylock`, from `start` to `end`.
 * The pointers are as `manx_range_bytes_lock`'s.
 */
int manx_range_bytes_trylock(struct manx_range_bytes_t *lock, const struct manx_range_key_t *start, const struct manx_range_key_t *end, struct manx_range_bytes_held_t *held);

/**
 * As `manx_range_timedlock`, from `start` to `end`.
 * The pointers are as `manx_range_bytes_lock`'s.
 */
int manx_range_bytes_timedlock(struct manx_range_bytes_t *lock, const struct manx_range_key_t *start, const struct manx_range_key_t *end, uint64_t deadline_ns, struct manx_range_bytes_held_t *held);

/**
 * As `manx_range_rdlock`, from `start` to `end`.
 * The pointers are as `manx_range_bytes_lock`'s.
 */
int manx_range_bytes_rdlock(struct manx_range_bytes_t *lock, const struct manx_range_key_t *start, const struct manx_range_key_t *end, struct manx_range_bytes_held_t *held);

/**
 * As `manx_range_tryrdlock`, from `start` to `end`.
 * The pointers are as `manx_range_bytes_lock`'s.
 */
int manx_range_bytes_tryrdlock(struct manx_range_bytes_t *lock, const struct manx_range_key_t *start, const struct manx_range_key_t *end, struct manx_range_bytes_held_t *held);

/**
 * As `manx_range_timedrdlock`, from `start` to `end`.
 * The pointers are as `manx_range_bytes_lock`'s.
 */
int manx_range_bytes_timedrdlock(struct manx_range_bytes_t *lock, const struct manx_range_key_t *start, const struct manx_range_key_t *end, uint64_t deadline_ns, struct manx_range_bytes_held_t *held);

/**
 * As `manx_range_unlock`.
 * It points to what a function of this header made, or to zeros.
 */
int manx_range_bytes_unlock(struct manx_range_bytes_held_t *held);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MANX_RANGE_H */
