//! Whether a store kept what was put into it: values that tell who wrote them, and what each thread wrote last.
//!
//! A lock that lets two threads in at once makes a store faster and wrong. So every value says whose it is:
//! the record's key, the thread, the thread's own number of the put, and a checksum over these at both ends
//! of the value. Beside the store each thread notes the number of its latest put to each key.
//!
//! 1. A value that is read must be whole (both ends agree) and belong to its key, else it was torn or lost.
//! 2. A thread that reads its own put reads its latest one: an earlier one would mean that the later is lost.
//! 3. At the end each record holds the latest put of *some* thread to that key (or what was loaded, if nobody
//!    ever put there): the last put of all is the last one of its thread. Any other value survived a put that
//!    came after it. So the check finds every lost put whose loss can still be seen, without locking anything
//!    itself.
//! 4. A thread's row is written by that thread alone, and read by others after they have joined it.

#ifndef MANX_ENGINES_LEDGER_H
#define MANX_ENGINES_LEDGER_H

#include "engine.h"

#include <endian.h>

enum { LEDGER_LOADER = UINT32_MAX };

/// Both ends of a value.
struct stamp {
    uint64_t key;
    /// The thread, or LEDGER_LOADER
    uint32_t writer;
    /// Counts that thread's puts to any key, from 1 on; 0 for what was loaded
    uint32_t number;
    uint64_t checksum;
};

enum { LEDGER_VALUE_MIN = 2 * sizeof(struct stamp) };

struct ledger {
    /// The number of the latest put to each key, from 1 on
    uint32_t *latest;
    uint32_t puts;
};

static struct ledger *ledgers;
static unsigned ledger_threads;
static size_t ledger_value_bytes;

/// To be called from `open`: keys are from 1 to `records`, values have `value_bytes`, LEDGER_VALUE_MIN or more.
static inline void ledger_init(unsigned threads, uint64_t records, uint64_t value_bytes) {
    ledger_threads = threads;
    ledger_value_bytes = value_bytes;
    ledgers = allocate(threads, sizeof *ledgers);
    for (unsigned i = 0; i < threads; i++)
        ledgers[i].latest = allocate(records + 1, sizeof(uint32_t));
}

/// The key as stores get it: eight bytes whose order is that of the numbers.
static inline uint64_t ledger_key(uint64_t key) {
    return htobe64(key);
}

static inline uint64_t stamp_checksum(const struct stamp *stamp) {
    return mix64(stamp->key + mix64(((uint64_t)stamp->writer << 32) + stamp->number));
}

static inline void ledger_stamp(char *value, uint64_t key, uint32_t writer, uint32_t number) {
    struct stamp stamp = {.key = key, .writer = writer, .number = number};
    stamp.checksum = stamp_checksum(&stamp);
    memcpy(value, &stamp, sizeof stamp);
    memcpy(value + ledger_value_bytes - sizeof stamp, &stamp, sizeof stamp);
}

/// Fills `value` with what is loaded for `key`.
static inline void ledger_load(char *value, uint64_t key) {
    memset(value, 'a' + (int)(key % 26), ledger_value_bytes);
    ledger_stamp(value, key, LEDGER_LOADER, 0);
}

/// Fills both ends of `value` for the next put by `worker`, or for the one that follows after `others` more. Once
/// they are done, `ledger_note` is to be called for each in that order.
static inline void ledger_next(char *value, uint64_t key, const struct worker *worker, unsigned others) {
    ledger_stamp(value, key, worker->index, ledgers[worker->index].puts + 1 + others);
}

static inline void ledger_note(uint64_t key, const struct worker *worker) {
    struct ledger *ledger = &ledgers[worker->index];
    if (++ledger->puts == LEDGER_LOADER)
        fail(1, "thread %u: more puts than can be numbered; use fewer --seconds", worker->index);
    ledger->latest[key] = ledger->puts;
}

/// Reads a value's stamp. Null if it is whole and belongs to `key`, otherwise what is wrong (by 1).
static inline const char *ledger_read(struct stamp *stamp, const char *value, size_t bytes, uint64_t key) {
    if (bytes != ledger_value_bytes)
        return "a value has another size than was put";
    memcpy(stamp, value, sizeof *stamp);
    if (stamp->checksum != stamp_checksum(stamp))
        return "a value is not what anybody put";
    if (memcmp(stamp, value + bytes - sizeof *stamp, sizeof *stamp) != 0)
        return "a value consists of two different puts";
    if (stamp->key != key)
        return "a value belongs to another key";
    if (stamp->writer != LEDGER_LOADER && stamp->writer >= ledger_threads)
        return "a value has a writer that does not exist";
    return NULL;
}

/// What a thread found while it ran; an error of the operation if it is wrong (by 1 and 2).
static inline enum outcome ledger_found(const char *value, size_t bytes, uint64_t key, const struct worker *worker) {
    struct stamp stamp;
    const char *wrong = ledger_read(&stamp, value, bytes, key);
    if (!wrong && stamp.writer == worker->index && stamp.number != ledgers[worker->index].latest[key])
        wrong = "a thread reads an older put of its own: a later one was lost";
    if (!wrong)
        return DONE;
    note_error("key %llu: %s", (unsigned long long)key, wrong);
    return FAILED;
}

/// What a record holds at the end; ends the program if it is wrong (by 1 and 3).
static inline void ledger_settle(const char *value, size_t bytes, uint64_t key) {
    struct stamp stamp;
    const char *wrong = value ? ledger_read(&stamp, value, bytes, key) : "the record is gone";
    if (wrong)
        fail(1, "self-check: key %llu: %s", (unsigned long long)key, wrong);
    if (stamp.writer != LEDGER_LOADER) {
        uint32_t latest = ledgers[stamp.writer].latest[key];
        if (stamp.number != latest)
            fail(1, "self-check: key %llu holds put %u of thread %u, whose put %u came later: a put was lost",
                 (unsigned long long)key, stamp.number, stamp.writer, latest);
        return;
    }
    for (unsigned i = 0; i < ledger_threads; i++)
        if (ledgers[i].latest[key])
            fail(1, "self-check: key %llu holds what was loaded, but thread %u put there: a put was lost",
                 (unsigned long long)key, i);
}

/// All puts of all threads.
static inline uint64_t ledger_puts(void) {
    uint64_t puts = 0;
    for (unsigned i = 0; i < ledger_threads; i++)
        puts += ledgers[i].puts;
    return puts;
}

#endif
