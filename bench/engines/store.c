//! A store of the program that this file is linked into, under YCSB's workloads: Manx's own stores and servers.
//!
//! The file is part of the package `workload`. The program hands over what its store does (`struct store`). Within the
//! store's transaction it calls back the functions that check a value (`store_found` and those below it). So all stores
//! have one driver, and one rule for what is drawn, timed and accounted for.
//!
//! 1. A process drives one store, once: the drivers' state is the process's.
//! 2. What cannot go on ends the process, as it does in the other drivers.

#define YCSB_INSERTS
#include "ycsb.h"

/// A store. The layout is that of `Store` in `workload/src/txn/drive.rs`.
struct store {
    const char *engine, *version;
    /// The first argument of what follows
    const void *subject;
    /// Puts records that are not there yet; the values lie one after the other
    void (*load)(const void *subject, const uint64_t *keys, const char *values, size_t count, size_t value_bytes);
    /// A thread's way to the store
    void *(*client)(const void *subject);
    void (*end)(void *client);
    // Transactions: each returns an `enum tried`.
    int (*read)(const void *subject, void *client, const struct worker *worker, uint64_t number, const uint64_t *key);
    /// `fresh`: a record that is not there yet
    int (*put)(const void *subject, void *client, const uint64_t *key, const char *value, size_t value_bytes,
               bool fresh);
    int (*change)(const void *subject, void *client, uint64_t number, const uint64_t *key, char *value,
                  size_t value_bytes);
    int (*scan)(const void *subject, void *client, const struct worker *worker, const uint64_t *key, size_t records);
    /// At the end: gets the records from number `first` on, and calls `store_settled` for each
    void (*look)(const void *subject, void *client, uint64_t first, const uint64_t *keys, size_t count);
};

static const struct store *store;

int store_found(const struct worker *worker, uint64_t number, const char *value, size_t bytes) {
    return ycsb_found(worker, number, value, bytes);
}

int store_changed(char *next, uint64_t number, const char *value, size_t bytes) {
    return ycsb_changed(next, number, value, bytes);
}

int store_scanned(const struct worker *worker, uint64_t key, const char *value, size_t bytes) {
    return ycsb_scanned(worker, key, value, bytes);
}

void store_settled(uint64_t number, const char *value, size_t bytes) {
    ycsb_settle(value, bytes, number);
}

void store_note(const char *what) {
    note_error("%s", what);
}

_Noreturn void store_fail(const char *what) {
    fail(1, "%s", what);
}

static void load(uint64_t first, uint64_t end) {
    uint64_t keys[YCSB_LOAD_AT_ONCE];
    size_t count = end - first;
    char *values = allocate(count, option_value_bytes);
    for (size_t i = 0; i < count; i++) {
        keys[i] = ycsb_key(first + i);
        ledger_load(values + i * option_value_bytes, first + i);
    }
    store->load(store->subject, keys, values, count, option_value_bytes);
    free(values);
}

static enum tried read_record(struct worker *worker, uint64_t number, uint64_t key) {
    return (enum tried)store->read(store->subject, ycsb_own(worker), worker, number, &key);
}

static enum tried put_record(struct worker *worker, uint64_t key, const char *value) {
    return (enum tried)store->put(store->subject, ycsb_own(worker), &key, value, option_value_bytes, false);
}

static enum tried insert_record(struct worker *worker, uint64_t key, const char *value) {
    return (enum tried)store->put(store->subject, ycsb_own(worker), &key, value, option_value_bytes, true);
}

static enum tried change_record(struct worker *worker, uint64_t number, uint64_t key, char *value) {
    return (enum tried)store->change(store->subject, ycsb_own(worker), number, &key, value, option_value_bytes);
}

static enum tried scan_records(struct worker *worker, uint64_t key, unsigned records) {
    return (enum tried)store->scan(store->subject, ycsb_own(worker), worker, &key, records);
}

static void settle(void) {
    uint64_t keys[YCSB_LOAD_AT_ONCE], last = ycsb_records();
    void *client = store->client(store->subject);
    for (uint64_t first = 1; first <= last; first += YCSB_LOAD_AT_ONCE) {
        size_t count = 0;
        for (; count < YCSB_LOAD_AT_ONCE && first + count <= last; count++)
            keys[count] = ycsb_key(first + count);
        store->look(store->subject, client, first, keys, count);
    }
    store->end(client);
}

static const char *version(void) {
    return store->version;
}

static void *open_session(struct worker *worker) {
    return ycsb_session(worker, store->client(store->subject));
}

static void end_session(struct worker *worker) {
    store->end(ycsb_own(worker));
}

/// Runs the workload that the arguments name, and returns the result; the caller frees it.
char *store_drive(int argc, char **argv, const struct store *which) {
    static const struct option_spec options[] = {YCSB_OPTIONS, {0}};
    store = which;
    const struct engine driver = {
        .name = store->engine,
        .summary = "A store under YCSB's workloads; the result is one JSON object.",
        .options = options,
        .version = version,
        .open = ycsb_open,
        .session = open_session,
        .operate = ycsb_operate,
        .end = end_session,
        .verify = ycsb_verify,
    };
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        fail(1, "memory for the result: %s", strerror(errno));
    engine_run(argc, argv, &driver, out);
    fclose(out);
    return text;
}
