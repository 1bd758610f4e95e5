/*
 * Manx for C: latency targets, and locks that stay fast when threads outnumber CPUs.
 *
 * Link with `pkg-config --cflags --libs manx`. Programs that keep their pthread mutexes need manx_epoch.h only.
 *
 * Generated from the library's sources by cbindgen: do not edit.
 */

#ifndef MANX_H
#define MANX_H

#include <stdint.h>
#if defined(MANX_EPOCH_H)
#error "manx.h has what manx_epoch.h has: include manx.h instead, or first"
#endif

/* The initial states, as of memory that is all zero. */
#define MANX_MUTEX_INIT {0, 0}
#define MANX_COND_INIT {0, 0}
#define MANX_RWLOCK_INIT {0}

/**
 * A mutex. All-zero (`MANX_MUTEX_INIT`) is free; nothing has to be destroyed.
 *
 * Waiters are overtaken by threads that run, for a window of a millisecond or what the waiter's
 * epoch allows, and then served.
 */
typedef struct manx_mutex_t {
    /**
     * Private.
     */
    uint32_t word;
    /**
     * Private.
     */
    uint32_t side;
} manx_mutex_t;

/**
 * A condition variable. All-zero (`MANX_COND_INIT`) is its initial state; nothing has to be
 * destroyed. Its memory may be freed after a broadcast, but not before all waits with a deadline
 * have returned.
 */
typedef struct manx_cond_t {
    /**
     * Private.
     */
    uint32_t sequence;
    /**
     * Private.
     */
    uint32_t waiters;
} manx_cond_t;

/**
 * A readers-writer lock. All-zero (`MANX_RWLOCK_INIT`) is free; nothing has to be destroyed. The
 * last holder may free the memory as soon as it has the lock alone and no thread waits or will
 * come, also while other threads are still inside of an unlock function.
 *
 * Waiters are overtaken by threads that run, for a window of a millisecond or what the waiter's
 * epoch allows, and then served; readers and writers alike.
 */
typedef struct manx_rwlock_t {
    /**
     * Private.
     */
    uint64_t state;
} manx_rwlock_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Begins an epoch on the calling thread, inside of the open ones. The id is a number that the
 * program chooses for a kind of work, such as one kind of request.
 */
void manx_epoch_start(uint64_t id);

/**
 * Ends the epoch; 99 of a hundred are to end within `slo_ns` nanoseconds. An epoch that is not
 * open is ignored.
 */
void manx_epoch_end(uint64_t id, uint64_t slo_ns);

/**
 * As `manx_epoch_end`, for another percentile, from 50 to 99.99. Any other number ends the epoch
 * and teaches nothing.
 */
void manx_epoch_end_at(uint64_t id, uint64_t slo_ns, double percentile);

/**
 * The epoch ends and teaches nothing.
 */
void manx_epoch_abandon(uint64_t id);

/**
 * For how long the calling thread may be overtaken, in nanoseconds: the window of its innermost
 * epoch, or `UINT64_MAX` outside of any.
 */
uint64_t manx_epoch_window_ns(void);

/**
 * Makes a mutex free, with a window of its own: its waiters may be overtaken for `window_ns`
 * nanoseconds (rounded up by less than a quarter), in epochs too. `UINT64_MAX` is for ever, and 0
 * no window of its own, as `MANX_MUTEX_INIT`.
 * It points to memory for a mutex that no thread uses.
 */
void manx_mutex_init(struct manx_mutex_t *mutex, uint64_t window_ns);

/**
 * Waits for the mutex. Returns 0.
 * It points to a mutex.
 */
int manx_mutex_lock(struct manx_mutex_t *mutex);

/**
 * Takes the mutex if it is free. Returns 0, or `EBUSY`.
 * It points to a mutex.
 */
int manx_mutex_trylock(struct manx_mutex_t *mutex);

/**
 * Waits for the mutex until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns 0, or
 * `ETIMEDOUT`.
 * It points to a mutex.
 */
int manx_mutex_timedlock(struct manx_mutex_t *mutex, uint64_t deadline_ns);

/**
 * Releases the mutex. Returns 0.
 * It points to a mutex that the calling thread holds.
 */
int manx_mutex_unlock(struct manx_mutex_t *mutex);

/**
 * `CLOCK_MONOTONIC` in nanoseconds: what deadlines are counted from.
 */
uint64_t manx_now_ns(void);

/**
 * Releases the mutex, waits for a signal, and takes the mutex again. Returns 0, rarely without a
 * signal: look again.
 * They point to a condition variable and a mutex that the calling thread holds.
 */
int manx_cond_wait(struct manx_cond_t *cond, struct manx_mutex_t *mutex);

/**
 * As `manx_cond_wait`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds at most. Returns 0,
 * or `ETIMEDOUT`; the mutex is held in both cases.
 * They point to a condition variable and a mutex that the calling thread holds.
 */
int manx_cond_timedwait(struct manx_cond_t *cond, struct manx_mutex_t *mutex, uint64_t deadline_ns);

/**
 * Wakes one waiter. Returns 0.
 * It points to a condition variable.
 */
int manx_cond_signal(struct manx_cond_t *cond);

/**
 * Wakes all waiters. Returns 0.
 * It points to a condition variable.
 */
int manx_cond_broadcast(struct manx_cond_t *cond);

/**
 * Makes a readers-writer lock free, with a window of its own: its waiters may be overtaken for
 * `window_ns` nanoseconds (rounded up by less than a quarter), in epochs too. `UINT64_MAX` is for
 * ever, and 0 no window of its own, as `MANX_RWLOCK_INIT`.
 * It points to memory for a readers-writer lock that no thread uses.
 */
void manx_rwlock_init(struct manx_rwlock_t *lock, uint64_t window_ns);

/**
 * Waits until the calling thread is a reader. Returns 0, or `EAGAIN` if there are 2^21 readers.
 * It points to a readers-writer lock.
 */
int manx_rwlock_rdlock(struct manx_rwlock_t *lock);

/**
 * The calling thread becomes a reader if that needs no waiting. Returns 0, or `EBUSY`, or `EAGAIN`
 * if there are 2^21 readers.
 * It points to a readers-writer lock.
 */
int manx_rwlock_tryrdlock(struct manx_rwlock_t *lock);

/**
 * As `manx_rwlock_rdlock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
 * `ETIMEDOUT` then.
 * It points to a readers-writer lock.
 */
int manx_rwlock_timedrdlock(struct manx_rwlock_t *lock, uint64_t deadline_ns);

/**
 * Waits until the calling thread is the writer. Returns 0.
 * It points to a readers-writer lock.
 */
int manx_rwlock_wrlock(struct manx_rwlock_t *lock);

/**
 * The calling thread becomes the writer if that needs no waiting. Returns 0, or `EBUSY`.
 * It points to a readers-writer lock.
 */
int manx_rwlock_trywrlock(struct manx_rwlock_t *lock);

/**
 * As `manx_rwlock_wrlock`, until `CLOCK_MONOTONIC` is at `deadline_ns` nanoseconds. Returns
 * `ETIMEDOUT` then.
 * It points to a readers-writer lock.
 */
int manx_rwlock_timedwrlock(struct manx_rwlock_t *lock, uint64_t deadline_ns);

/**
 * Ends a reader's stay. Returns 0.
 * It points to a readers-writer lock that the calling thread reads under.
 */
int manx_rwlock_rdunlock(struct manx_rwlock_t *lock);

/**
 * Ends the writer's stay. Returns 0.
 * It points to a readers-writer lock that the calling thread writes under.
 */
int manx_rwlock_wrunlock(struct manx_rwlock_t *lock);

/**
 * Ends the stay of the calling thread, reader or writer. Returns 0.
 * It points to a readers-writer lock that the calling thread holds.
 */
int manx_rwlock_unlock(struct manx_rwlock_t *lock);

/**
 * The version of the library, such as "0.1.0". The text lives for ever.
 */
const char *manx_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MANX_H */
