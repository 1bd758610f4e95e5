//! The workloads of Cooper and others, "Benchmarking Cloud Serving Systems with YCSB" (2010), over any store.
//!
//! | `--workload` | operations | keys |
//! | --- | --- | --- |
//! | `a` | half reads, half updates | zipfian |
//! | `b` | 95 % reads, 5 % updates | zipfian |
//! | `c` | reads | zipfian |
//! | `d` | 95 % reads, 5 % inserts | the latest |
//! | `e` | 95 % scans of 1 to 100 records, 5 % inserts | zipfian |
//! | `f` | half reads, half changes | zipfian |
//! | `change` | changes: the update workload of Andreoli and Cucinotta | uniform |
//! | `put` | updates | uniform |
//!
//! An *update* puts a value without reading it, a *change* reads the record and puts it back one version later. Each operation is a
//! transaction of its own. A driver says how its store does each, by the functions declared below; this file draws, checks and counts.
//!
//! Records are numbered from 1 on. Their keys are eight bytes in which the numbers are scattered, by a function that has an inverse, as
//! YCSB's hash scatters its own: so neighbours in the order of keys were not loaded one after the other.
//!
//! 1. A read finds a whole value that belongs to its key. Keys that are inserted while it runs are read once all before them are there too.
//! 2. Updates: at the end a record holds the latest put of some thread (`ledger.h`, 3).
//! 3. Changes: at the end the version of each record is the number of changes that were committed there: a lost one is one too few.
//! 4. Scans: keys ascend, and each is that of its value.
//! 5. Inserts: at the end all are there.

#ifndef MANX_ENGINES_YCSB_H
#define MANX_ENGINES_YCSB_H

#include "ledger.h"

static uint64_t option_records = 100000, option_value_bytes = 1000;
static const char *option_workload = "a", *option_keys = NULL;

#define YCSB_OPTIONS                                                                                               \
    {"records", OPTION_COUNT, &option_records, 100, 1e8, NULL, "records to load (100000)"},                        \
        {"value-bytes", OPTION_COUNT, &option_value_bytes, LEDGER_VALUE_MIN, 1 << 20, NULL,                        \
         "size of a value (1000)"},                                                                                \
        {"workload", OPTION_WORD, &option_workload, 0, 0, "a|b|c|d|e|f|change|put", "which operations (a)"}, {         \
        "keys", OPTION_WORD, &option_keys, 0, 0, "uniform|zipfian|latest",                                         \
            "how keys are drawn (as the workload says)"                                                            \
    }

enum { YCSB_SCAN_MAX = 100, YCSB_LOAD_AT_ONCE = 100, CONFLICTS_AT_ONCE = 4, CONFLICTS_MAX = 2000 };
/// So many records may be inserted while it runs
enum { YCSB_INSERTS_MAX = 4 << 20 };

/// How an operation of a store ended: as an engine's, or with a write conflict, after which it is tried again.
enum tried { TRIED_DONE, TRIED_FAILED, TRIED_CONFLICT };

/// What a driver does with its store. Each is a transaction; `key` is that of record `number`.

/// Loads the records from `first` to before `end` with values by `ledger_load`
static void load(uint64_t first, uint64_t end);
/// Calls `ycsb_found` with what there is
static enum tried read_record(struct worker *worker, uint64_t number, uint64_t key);
/// Puts a value of `option_value_bytes`
static enum tried put_record(struct worker *worker, uint64_t key, const char *value);
/// The same with a record that is not there yet, for a store that does that in another way (`YCSB_INSERTS`)
#ifdef YCSB_INSERTS
static enum tried insert_record(struct worker *worker, uint64_t key, const char *value);
#else
#define insert_record put_record
#endif
/// Reads, calls `ycsb_changed` with what there is, and puts `value` back
static enum tried change_record(struct worker *worker, uint64_t number, uint64_t key, char *value);
/// From `key` on as many as there are, at most `records`; calls `ycsb_scanned` for each in order
static enum tried scan_records(struct worker *worker, uint64_t key, unsigned records);
/// At the end: calls `ycsb_settle` once for each record, with null for one that is not there
static void settle(void);

enum { READ, UPDATE, INSERT, CHANGE, SCAN, OPERATIONS };
enum { KEYS_UNIFORM, KEYS_ZIPFIAN, KEYS_LATEST };

static double ycsb_shares[OPERATIONS];
static int ycsb_keys;
static struct zipfian ycsb_zipfian;
/// Changes that were committed, by record
static _Atomic uint32_t *ycsb_changes;
/// The next record to insert, and the last one before which all are there
static _Atomic uint64_t ycsb_next_insert, ycsb_there;
/// Which of those that were to be inserted are there
static _Atomic uint8_t *ycsb_inserted;

/// What each thread has.
struct ycsb_client {
    /// The driver's own
    void *own;
    char *value;
    /// Changes and inserts it committed
    uint64_t changes, inserts;
    /// While it scans: the key before, at first that which it scans from
    uint64_t scanned_key;
    unsigned scanned;
};

/// By thread
static struct ycsb_client **ycsb_clients;

/// From a record's number to its key and back: mix64's steps have inverses.
static inline uint64_t ycsb_key(uint64_t number) {
    return ledger_key(mix64(number));
}

/// To be called from `open`, before records are loaded.
static inline void ycsb_open(unsigned threads) {
    static const struct {
        const char *name;
        double shares[OPERATIONS];
        int keys;
    } workloads[] = {
        {"a", {[READ] = 0.5, [UPDATE] = 0.5}, KEYS_ZIPFIAN},   {"b", {[READ] = 0.95, [UPDATE] = 0.05}, KEYS_ZIPFIAN},
        {"c", {[READ] = 1}, KEYS_ZIPFIAN},                     {"d", {[READ] = 0.95, [INSERT] = 0.05}, KEYS_LATEST},
        {"e", {[SCAN] = 0.95, [INSERT] = 0.05}, KEYS_ZIPFIAN}, {"f", {[READ] = 0.5, [CHANGE] = 0.5}, KEYS_ZIPFIAN},
        {"change", {[CHANGE] = 1}, KEYS_UNIFORM},              {"put", {[UPDATE] = 1}, KEYS_UNIFORM},
    };
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (strcmp(option_workload, workloads[i].name) == 0) {
            memcpy(ycsb_shares, workloads[i].shares, sizeof ycsb_shares);
            ycsb_keys = workloads[i].keys;
        }
    if (option_keys)
        ycsb_keys = strcmp(option_keys, "uniform") == 0   ? KEYS_UNIFORM
                    : strcmp(option_keys, "zipfian") == 0 ? KEYS_ZIPFIAN
                                                          : KEYS_LATEST;
    zipfian_init(&ycsb_zipfian, option_records);
    ledger_init(threads, option_records, option_value_bytes);
    ycsb_clients = allocate(threads, sizeof *ycsb_clients);
    ycsb_changes = allocate(option_records + 1, sizeof *ycsb_changes);
    ycsb_next_insert = option_records + 1;
    ycsb_there = option_records;
    ycsb_inserted = allocate(YCSB_INSERTS_MAX, 1);
    for (uint64_t first = 1; first <= option_records; first += YCSB_LOAD_AT_ONCE) {
        uint64_t end = first + YCSB_LOAD_AT_ONCE;
        load(first, end <= option_records ? end : option_records + 1);
    }
}

/// To be called from `session`, with the driver's own of the thread.
static inline struct ycsb_client *ycsb_session(const struct worker *worker, void *own) {
    struct ycsb_client *client = allocate(1, sizeof *client);
    ycsb_clients[worker->index] = client;
    client->own = own;
    client->value = allocate(1, option_value_bytes);
    memset(client->value, 'x', option_value_bytes);
    return client;
}

/// The driver's own of a thread.
static inline void *ycsb_own(const struct worker *worker) {
    return ((struct ycsb_client *)worker->session)->own;
}

/// A read's value, or a null pointer (by 1).
static inline enum tried ycsb_found(const struct worker *worker, uint64_t number, const char *value, size_t bytes) {
    struct stamp stamp;
    const char *wrong = value ? ledger_read(&stamp, value, bytes, number) : "the record is gone";
    if (!wrong && stamp.writer == worker->index && stamp.number != ledgers[worker->index].latest[number])
        wrong = "a thread reads an older put of its own: a later one was lost";
    if (!wrong) {
        // As a server does that must send it.
        memcpy(((struct ycsb_client *)worker->session)->value, value, bytes);
        return TRIED_DONE;
    }
    note_error("record %llu: %s", (unsigned long long)number, wrong);
    return TRIED_FAILED;
}

/// What a change reads; `next` gets what it puts.
static inline enum tried ycsb_changed(char *next, uint64_t number, const char *value, size_t bytes) {
    struct stamp stamp;
    const char *wrong = value ? ledger_read(&stamp, value, bytes, number) : "the record is gone";
    if (wrong) {
        note_error("record %llu: %s", (unsigned long long)number, wrong);
        return TRIED_FAILED;
    }
    memcpy(next, value, bytes);
    ledger_stamp(next, number, LEDGER_LOADER, stamp.number + 1);
    return TRIED_DONE;
}

/// One record of a scan, in order (by 4).
static inline enum tried ycsb_scanned(const struct worker *worker, uint64_t key, const char *value, size_t bytes) {
    struct ycsb_client *client = worker->session;
    struct stamp stamp;
    uint64_t number = 0;
    if (bytes == option_value_bytes)
        memcpy(&number, value, sizeof number); // the stamp's first field
    const char *wrong = ledger_read(&stamp, value, bytes, number);
    if (!wrong && ycsb_key(number) != key)
        wrong = "a scan finds another record's value";
    if (!wrong && be64toh(key) < be64toh(client->scanned_key) + (client->scanned > 0))
        wrong = "a scan's keys do not ascend";
    client->scanned++;
    client->scanned_key = key;
    if (!wrong) {
        memcpy(client->value, value, bytes);
        return TRIED_DONE;
    }
    note_error("record %llu: %s", (unsigned long long)number, wrong);
    return TRIED_FAILED;
}

static inline uint64_t ycsb_draw(struct random *random) {
    switch (ycsb_keys) {
    case KEYS_UNIFORM:
        return 1 + random_below(random, option_records);
    case KEYS_ZIPFIAN:
        return 1 + zipfian_draw(&ycsb_zipfian, random);
    default:
        return atomic_load(&ycsb_there) - zipfian_rank(&ycsb_zipfian, random);
    }
}

/// A record is there: so are all up to the first that is not.
static inline void ycsb_arrived(uint64_t number) {
    atomic_store(&ycsb_inserted[number - option_records - 1], 1);
    for (uint64_t last = atomic_load(&ycsb_there);
         last - option_records < YCSB_INSERTS_MAX && atomic_load(&ycsb_inserted[last - option_records]);)
        if (atomic_compare_exchange_strong(&ycsb_there, &last, last + 1))
            last++;
}

/// One transaction, not yet repeated.
static inline enum tried ycsb_try(struct worker *worker, int operation, uint64_t number, unsigned records) {
    struct ycsb_client *client = worker->session;
    uint64_t key = ycsb_key(number);
    switch (operation) {
    case READ:
        return read_record(worker, number, key);
    case UPDATE:
        ledger_next(client->value, number, worker, 0);
        return put_record(worker, key, client->value);
    case INSERT:
        ledger_load(client->value, number);
        return insert_record(worker, key, client->value);
    case CHANGE:
        return change_record(worker, number, key, client->value);
    default:
        client->scanned = 0;
        client->scanned_key = key;
        enum tried tried = scan_records(worker, key, records);
        if (tried == TRIED_DONE && client->scanned == 0) {
            note_error("a scan finds nothing from a record on that is there");
            return TRIED_FAILED;
        }
        return tried;
    }
}

static inline enum outcome ycsb_operate(struct worker *worker) {
    struct ycsb_client *client = worker->session;
    double drawn = random_unit(&worker->random);
    int operation = READ;
    while (operation < OPERATIONS - 1 && drawn >= ycsb_shares[operation])
        drawn -= ycsb_shares[operation++];
    uint64_t number = operation == INSERT ? atomic_fetch_add(&ycsb_next_insert, 1) : ycsb_draw(&worker->random);
    if (number > option_records + YCSB_INSERTS_MAX)
        fail(1, "more inserts than there is room for: fewer --seconds");
    unsigned records = operation == SCAN ? 1 + (unsigned)random_below(&worker->random, YCSB_SCAN_MAX) : 1;
    enum tried tried;
    unsigned times = 0;
    while ((tried = ycsb_try(worker, operation, number, records)) == TRIED_CONFLICT) {
        worker->conflicts++;
        if (++times >= CONFLICTS_MAX) {
            note_error("record %llu: still a conflict after %u times", (unsigned long long)number, times);
            return FAILED;
        }
        if (times > CONFLICTS_AT_ONCE)
            usleep(1000);
    }
    if (tried != TRIED_DONE)
        return FAILED;
    if (operation == UPDATE) {
        ledger_note(number, worker);
    } else if (operation == CHANGE) {
        client->changes++;
        // Relaxed: read when all threads have ended.
        atomic_fetch_add_explicit(&ycsb_changes[number], 1, memory_order_relaxed);
    } else if (operation == INSERT) {
        client->inserts++;
        ycsb_arrived(number);
    }
    return DONE;
}

/// What a record holds at the end; ends the program if it is wrong.
static inline void ycsb_settle(const char *value, size_t bytes, uint64_t number) {
    if (ycsb_shares[CHANGE] == 0 && number <= option_records) {
        ledger_settle(value, bytes, number); // by 2
        return;
    }
    struct stamp stamp;
    const char *wrong = value ? ledger_read(&stamp, value, bytes, number) : "the record is gone";
    if (wrong)
        fail(1, "self-check: record %llu: %s", (unsigned long long)number, wrong);
    uint32_t changes = number <= option_records ? ycsb_changes[number] : 0;
    if (stamp.number != changes) // by 3
        fail(1, "self-check: record %llu has version %u after %u changes: %s", (unsigned long long)number,
             stamp.number, changes, stamp.number < changes ? "updates were lost" : "one was made twice");
}

/// How many records there are at the end.
static inline uint64_t ycsb_records(void) {
    return atomic_load(&ycsb_next_insert) - 1;
}

/// To be called at the end: how many updates, changes and inserts were found.
static inline uint64_t ycsb_verify(void) {
    settle();
    uint64_t made = ledger_puts();
    for (unsigned i = 0; i < ledger_threads; i++)
        made += ycsb_clients[i]->changes + ycsb_clients[i]->inserts;
    return made;
}

#endif
