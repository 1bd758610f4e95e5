//! A small built-in engine with WiredTiger's protocol for snapshots, for machines without the library.
//!
//!     cc -O2 -pthread snapshot.c -lm
//!
//! Transactions over records in memory, with snapshot isolation: first committer wins, others repeat. The
//! protocol is that of Andreoli and Cucinotta, "Inducing Huge Tail Latency on a MongoDB deployment",
//! section II: a session announces that it is allocating a transaction id, takes the id from a global
//! counter, publishes it, and withdraws the announcement; whoever takes a snapshot waits, by spinning, for
//! each session that is allocating, because it cannot know whether the id will be visible to it. `--fixed`
//! waits adaptively there (spin, yield, then sleep in growing steps), as the paper repairs it.
//!
//! | a session's words | meaning |
//! | --- | --- |
//! | `allocating` = 1 | `id` will be set in a moment: a snapshot has to wait |
//! | `id` = 0 | no update by this session is in progress |
//! | `id` = n | the updates of transaction n are in progress |
//!
//! A record keeps its two newest versions; `newest` names the slot of the committed one.
//!
//! 1. `writer` of a record is the id of the transaction that is updating it, or 0. Only that transaction
//!    writes the record's other words, and it writes the slot that is not `newest`.
//! 2. A commit turns `newest` over before it clears `writer`, and clears all writers before its session's
//!    `id`: a snapshot that does not list the id as concurrent sees all of its updates or was taken after.
//! 3. A reader takes a version only if its id is visible to its snapshot, and reads the id again after the
//!    bytes: if a writer has reused the slot meanwhile, the read is repeated in a new snapshot.

#include "records.h"

static bool option_fixed = false;
static uint64_t option_sessions = 0;

static const struct option_spec options[] = {
    RECORD_OPTIONS,
    {"fixed", OPTION_FLAG, &option_fixed, 0, 0, NULL, "wait adaptively, as the paper repairs it"},
    {"sessions", OPTION_COUNT, &option_sessions, 0, 4096, NULL, "sessions that a snapshot looks at (one a thread)"},
    {0},
};

struct session {
    _Alignas(64) _Atomic uint64_t id;
    _Atomic uint32_t allocating;
};

struct snapshot {
    /// Ids from here on are not visible
    uint64_t limit;
    unsigned concurrent;
    /// Sorted; below `limit`, but not visible either
    uint64_t *ids;
};

struct record {
    _Atomic uint64_t writer;
    _Atomic uint32_t newest;
    _Atomic uint64_t id[2];
    /// Two versions of `value_words` words
    _Atomic uint64_t *value;
};

struct client {
    struct session *session;
    struct snapshot snapshot;
    struct operation operation;
    uint64_t fill;
    _Atomic uint64_t sink;
};

static struct session *sessions;
static unsigned session_count;
static _Alignas(64) _Atomic uint64_t current_id = 1;
static _Alignas(64) struct record *records;
static uint64_t value_words;

static const char *version(void) {
    return option_fixed ? "built-in, adaptive waiting" : "built-in, busy waiting";
}

static void open_engine(unsigned threads) {
    records_init();
    session_count = option_sessions > threads ? (unsigned)option_sessions : threads;
    sessions = allocate(session_count, sizeof *sessions);
    value_words = (option_value_bytes + 7) / 8;
    records = allocate(option_records, sizeof *records);
    _Atomic uint64_t *values = allocate(option_records * 2 * value_words, sizeof *values);
    for (uint64_t i = 0; i < option_records; i++)
        records[i].value = values + i * 2 * value_words;
}

static void *open_session(struct worker *worker) {
    struct client *client = allocate(1, sizeof *client);
    client->session = &sessions[worker->index];
    client->snapshot.ids = allocate(session_count, sizeof *client->snapshot.ids);
    return client;
}

/// The paper's repair: 10 spins, 1000 yields, then sleeps that grow by 100 us up to 1 ms.
static __attribute__((noinline)) void wait_adaptively(struct session *other) {
    uint64_t rounds = 0, sleep_us = 0;
    for (; atomic_load_explicit(&other->allocating, memory_order_acquire); rounds++)
        if (rounds < 10)
            pause_cpu();
        else if (rounds < 1010)
            sched_yield();
        else
            usleep((useconds_t)(sleep_us = sleep_us < 1000 ? sleep_us + 100 : 1000));
}

static __attribute__((noinline)) void take_snapshot(struct snapshot *snapshot) {
    snapshot->limit = atomic_load(&current_id);
    snapshot->concurrent = 0;
    for (unsigned i = 0; i < session_count; i++) {
        struct session *other = &sessions[i];
        if (option_fixed)
            wait_adaptively(other);
        else
            while (atomic_load_explicit(&other->allocating, memory_order_acquire))
                pause_cpu();
        uint64_t id = atomic_load(&other->id);
        if (id != 0 && id < snapshot->limit) {
            unsigned at = snapshot->concurrent++;
            for (; at > 0 && snapshot->ids[at - 1] > id; at--)
                snapshot->ids[at] = snapshot->ids[at - 1];
            snapshot->ids[at] = id;
        }
    }
}

static bool visible(const struct snapshot *snapshot, uint64_t id) {
    if (id >= snapshot->limit)
        return false;
    unsigned low = 0, high = snapshot->concurrent;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (snapshot->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low == snapshot->concurrent || snapshot->ids[low] != id;
}

static uint64_t allocate_id(struct session *session) {
    atomic_store(&session->allocating, 1);
    uint64_t id = atomic_fetch_add(&current_id, 1);
    atomic_store(&session->id, id);
    atomic_store_explicit(&session->allocating, 0, memory_order_release);
    return id;
}

/// Reads one record; false if neither version is visible, or has been overwritten meanwhile.
static bool read_record(struct client *client, struct record *record) {
    uint32_t slot = atomic_load(&record->newest);
    for (int tries = 0; tries < 2; tries++, slot = 1 - slot) {
        uint64_t id = atomic_load(&record->id[slot]);
        if (!visible(&client->snapshot, id))
            continue;
        uint64_t sum = 0;
        for (uint64_t i = 0; i < value_words; i++)
            sum += atomic_load_explicit(&record->value[slot * value_words + i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        atomic_store_explicit(&client->sink, sum, memory_order_relaxed);
        return atomic_load(&record->id[slot]) == id;
    }
    return false;
}

/// Writes a version that nobody sees yet (Invariant 1); false if another transaction was first.
static bool update_record(struct client *client, struct record *record, uint64_t id) {
    uint64_t nobody = 0;
    if (!atomic_compare_exchange_strong(&record->writer, &nobody, id))
        return false;
    uint32_t newest = atomic_load(&record->newest), slot = 1 - newest;
    if (!visible(&client->snapshot, atomic_load(&record->id[newest]))) {
        atomic_store(&record->writer, 0);
        return false;
    }
    atomic_store(&record->id[slot], id);
    atomic_thread_fence(memory_order_release);
    for (uint64_t i = 0; i < value_words; i++)
        atomic_store_explicit(&record->value[slot * value_words + i], client->fill + i, memory_order_relaxed);
    return true;
}

static bool transaction(struct client *client) {
    struct operation *operation = &client->operation;
    take_snapshot(&client->snapshot);
    if (operation->read)
        return read_record(client, &records[operation->key[0] - 1]);
    uint64_t id = allocate_id(client->session);
    unsigned updated = 0;
    while (updated < operation->keys && update_record(client, &records[operation->key[updated] - 1], id))
        updated++;
    bool committed = updated == operation->keys;
    for (unsigned i = 0; i < updated; i++) {
        struct record *record = &records[operation->key[i] - 1];
        uint32_t newest = atomic_load(&record->newest);
        if (committed)
            atomic_store(&record->newest, 1 - newest);
        else
            atomic_store(&record->id[1 - newest], UINT64_MAX); // visible to nobody
        atomic_store(&record->writer, 0);
    }
    atomic_store(&client->session->id, 0);
    return committed;
}

static enum outcome operate(struct worker *worker) {
    struct client *client = worker->session;
    operation_draw(&client->operation, &worker->random);
    client->fill++;
    unsigned times = 0;
    bool done;
    while (!(done = transaction(client)) && conflict_wait(worker, ++times))
        ;
    if (done)
        return DONE;
    note_error("%u conflicts in one operation", times);
    return FAILED;
}

int main(int argc, char **argv) {
    const struct engine snapshot = {
        .name = "snapshot",
        .summary = "A small engine with the snapshot protocol of WiredTiger; the result is one JSON object.",
        .options = options,
        .version = version,
        .open = open_engine,
        .session = open_session,
        .operate = operate,
    };
    return engine_main(argc, argv, &snapshot);
}
