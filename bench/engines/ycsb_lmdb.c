//! LMDB under YCSB's workloads: readers in snapshots, writers one after the other, nothing synced to the disk.
//!
//!     cc -O2 -pthread ycsb_lmdb.c -llmdb -lm

#include "lmdb_calls.h"
#include "ycsb.h"

static uint64_t option_map_mb = 8192;

static const struct option_spec options[] = {
    YCSB_OPTIONS,
    HOME_OPTION,
    {"map-mb", OPTION_COUNT, &option_map_mb, 1, 1 << 24, NULL, "how large the database may become, in MiB (8192)"},
    {0},
};

static enum tried refused(const char *what, int error) {
    note_error("%s: %s", what, mdb_strerror(error));
    return TRIED_FAILED;
}

static void load(uint64_t first, uint64_t end) {
    MDB_txn *transaction;
    char *bytes = allocate(1, option_value_bytes);
    must(mdb_txn_begin(environment, NULL, 0, &transaction), "load");
    for (uint64_t number = first; number < end; number++) {
        uint64_t key = ycsb_key(number);
        ledger_load(bytes, number);
        MDB_val name = {sizeof key, &key}, value = {option_value_bytes, bytes};
        must(mdb_put(transaction, table, &name, &value, 0), "load a record");
    }
    must(mdb_txn_commit(transaction), "load");
    free(bytes);
}

/// What is there in a transaction; an empty value for nothing.
static int search(MDB_txn *transaction, uint64_t key, MDB_val *value) {
    MDB_val name = {sizeof key, &key};
    int error = mdb_get(transaction, table, &name, value);
    if (error == MDB_NOTFOUND)
        *value = (MDB_val){0};
    return error == MDB_NOTFOUND ? 0 : error;
}

static enum tried read_record(struct worker *worker, uint64_t number, uint64_t key) {
    MDB_txn *reader = ycsb_own(worker);
    MDB_val value;
    int error = mdb_txn_renew(reader);
    if (error)
        return refused("begin a read", error);
    error = search(reader, key, &value);
    enum tried tried = error ? refused("read", error) : ycsb_found(worker, number, value.mv_data, value.mv_size);
    mdb_txn_reset(reader);
    return tried;
}

static enum tried put_record(struct worker *worker, uint64_t key, const char *bytes) {
    (void)worker;
    MDB_txn *transaction;
    int error = mdb_txn_begin(environment, NULL, 0, &transaction);
    if (error)
        return refused("begin", error);
    MDB_val name = {sizeof key, &key}, value = {option_value_bytes, (void *)bytes};
    error = mdb_put(transaction, table, &name, &value, 0);
    if (error) {
        mdb_txn_abort(transaction);
        return refused("put", error);
    }
    error = mdb_txn_commit(transaction);
    return error ? refused("commit", error) : TRIED_DONE;
}

static enum tried change_record(struct worker *worker, uint64_t number, uint64_t key, char *next) {
    (void)worker;
    MDB_txn *transaction;
    MDB_val name = {sizeof key, &key}, value;
    int error = mdb_txn_begin(environment, NULL, 0, &transaction);
    if (error)
        return refused("begin", error);
    error = search(transaction, key, &value);
    enum tried tried = error ? refused("read", error) : ycsb_changed(next, number, value.mv_data, value.mv_size);
    if (tried == TRIED_DONE) {
        value = (MDB_val){option_value_bytes, next};
        error = mdb_put(transaction, table, &name, &value, 0);
        tried = error ? refused("put", error) : TRIED_DONE;
    }
    if (tried != TRIED_DONE) {
        mdb_txn_abort(transaction);
        return tried;
    }
    error = mdb_txn_commit(transaction);
    return error ? refused("commit", error) : TRIED_DONE;
}

static enum tried scan_records(struct worker *worker, uint64_t key, unsigned records) {
    MDB_txn *reader = ycsb_own(worker);
    MDB_cursor *cursor;
    MDB_val name = {sizeof key, &key}, value;
    int error = mdb_txn_renew(reader);
    if (error)
        return refused("begin a read", error);
    error = mdb_cursor_open(reader, table, &cursor);
    if (error) {
        mdb_txn_reset(reader);
        return refused("open a cursor", error);
    }
    enum tried tried = TRIED_DONE;
    error = mdb_cursor_get(cursor, &name, &value, MDB_SET_RANGE);
    for (unsigned i = 0; error == 0 && tried == TRIED_DONE && i < records; i++) {
        uint64_t found;
        memcpy(&found, name.mv_data, sizeof found);
        tried = ycsb_scanned(worker, found, value.mv_data, value.mv_size);
        if (i + 1 < records)
            error = mdb_cursor_get(cursor, &name, &value, MDB_NEXT);
    }
    if (error && error != MDB_NOTFOUND)
        tried = refused("scan", error);
    mdb_cursor_close(cursor);
    mdb_txn_reset(reader);
    return tried;
}

static void settle(void) {
    MDB_txn *transaction;
    must(mdb_txn_begin(environment, NULL, MDB_RDONLY, &transaction), "self-check");
    for (uint64_t number = 1; number <= ycsb_records(); number++) {
        MDB_val value;
        must(search(transaction, ycsb_key(number), &value), "self-check");
        ycsb_settle(value.mv_data, value.mv_size, number);
    }
    mdb_txn_abort(transaction);
}

static void open_engine(unsigned threads) {
    environment_open(option_map_mb << 20, threads + 16);
    table_open(0);
    ycsb_open(threads);
}

static void *open_session(struct worker *worker) {
    return ycsb_session(worker, reader_open());
}

static void end_session(struct worker *worker) {
    mdb_txn_abort(ycsb_own(worker));
}

int main(int argc, char **argv) {
    const struct engine lmdb = {
        .name = "lmdb",
        .summary = "LMDB under YCSB's workloads; the result is one JSON object on standard output.",
        .options = options,
        .version = version,
        .open = open_engine,
        .session = open_session,
        .operate = ycsb_operate,
        .end = end_session,
        .verify = ycsb_verify,
        .close = close_engine,
    };
    return engine_main(argc, argv, &lmdb);
}
