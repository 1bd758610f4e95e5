//! RocksDB under YCSB's workloads: reads and puts as they are, changes by optimistic transactions; files in memory, and no log.
//!
//!     cc -O2 -pthread ycsb_rocksdb.c -lrocksdb -lm -ldl

#include "rocksdb_calls.h"
#include "ycsb.h"

/// In the environment that keeps files in memory; it knows absolute names alone
static const char NAME[] = "/records";
static uint64_t option_cache_mb = 2048;

static const struct option_spec options[] = {
    YCSB_OPTIONS,
    {"cache-mb", OPTION_COUNT, &option_cache_mb, 1, 1 << 24, NULL, "size of the cache of blocks in MiB (2048)"},
    {0},
};

/// So that records that are replaced do not fill tables while it runs: a few large buffers.
enum { BUFFER_MB = 256, BUFFERS = 4 };

static rocksdb_optimistictransactiondb_t *transactions;
static rocksdb_t *database;
static rocksdb_readoptions_t *read_options;
static rocksdb_writeoptions_t *write_options;

static void must(char *error, const char *what) {
    if (error)
        fail(1, "%s: %s", what, error);
}

/// What an error means. Conflicts are told by words alone: the status is "Resource busy", or "Try again" where the buffers no longer
/// tell whether there was one.
static enum tried refused(char *error) {
    bool conflict = strncmp(error, "Resource busy", 13) == 0 || strncmp(error, "Operation failed. Try again", 27) == 0;
    if (!conflict)
        note_error("%s", error);
    rocksdb_free(error);
    return conflict ? TRIED_CONFLICT : TRIED_FAILED;
}

static void load(uint64_t first, uint64_t end) {
    char *error = NULL, *value = allocate(1, option_value_bytes);
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (uint64_t number = first; number < end; number++) {
        const uint64_t key = ycsb_key(number);
        ledger_load(value, number);
        rocksdb_writebatch_put(batch, (const char *)&key, sizeof key, value, option_value_bytes);
    }
    rocksdb_write(database, write_options, batch, &error);
    must(error, "load records");
    rocksdb_writebatch_destroy(batch);
    free(value);
}

static enum tried read_record(struct worker *worker, uint64_t number, uint64_t key) {
    char *error = NULL;
    size_t bytes = 0;
    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned(database, read_options, (const char *)&key, sizeof key, &error);
    if (error)
        return refused(error);
    const char *value = slice ? rocksdb_pinnableslice_value(slice, &bytes) : NULL;
    enum tried tried = ycsb_found(worker, number, value, bytes);
    if (slice)
        rocksdb_pinnableslice_destroy(slice);
    return tried;
}

static enum tried put_record(struct worker *worker, uint64_t key, const char *value) {
    (void)worker;
    char *error = NULL;
    rocksdb_put(database, write_options, (const char *)&key, sizeof key, value, option_value_bytes, &error);
    return error ? refused(error) : TRIED_DONE;
}

static enum tried change_record(struct worker *worker, uint64_t number, uint64_t key, char *next) {
    (void)worker;
    char *error = NULL;
    size_t bytes = 0;
    rocksdb_optimistictransaction_options_t *how = rocksdb_optimistictransaction_options_create();
    rocksdb_optimistictransaction_options_set_set_snapshot(how, 1);
    rocksdb_transaction_t *transaction = rocksdb_optimistictransaction_begin(transactions, write_options, how, NULL);
    rocksdb_optimistictransaction_options_destroy(how);
    enum tried tried = TRIED_DONE;
    char *value = rocksdb_transaction_get_for_update(transaction, read_options, (const char *)&key, sizeof key, &bytes,
                                                     1, &error);
    if (!error)
        tried = ycsb_changed(next, number, value, bytes);
    if (!error && tried == TRIED_DONE)
        rocksdb_transaction_put(transaction, (const char *)&key, sizeof key, next, option_value_bytes, &error);
    if (!error && tried == TRIED_DONE)
        rocksdb_transaction_commit(transaction, &error);
    rocksdb_free(value);
    rocksdb_transaction_destroy(transaction);
    return error ? refused(error) : tried;
}

static enum tried scan_records(struct worker *worker, uint64_t key, unsigned records) {
    rocksdb_iterator_t *iterator = rocksdb_create_iterator(database, read_options);
    enum tried tried = TRIED_DONE;
    rocksdb_iter_seek(iterator, (const char *)&key, sizeof key);
    for (unsigned i = 0; tried == TRIED_DONE && i < records && rocksdb_iter_valid(iterator); i++) {
        size_t key_bytes, bytes;
        uint64_t found;
        const char *name = rocksdb_iter_key(iterator, &key_bytes);
        memcpy(&found, name, sizeof found);
        const char *value = rocksdb_iter_value(iterator, &bytes);
        tried = ycsb_scanned(worker, found, value, bytes);
        rocksdb_iter_next(iterator);
    }
    char *error = NULL;
    rocksdb_iter_get_error(iterator, &error);
    rocksdb_iter_destroy(iterator);
    return error ? refused(error) : tried;
}

static void settle(void) {
    for (uint64_t number = 1; number <= ycsb_records(); number++) {
        char *error = NULL;
        size_t bytes = 0;
        const uint64_t key = ycsb_key(number);
        char *value = rocksdb_get(database, read_options, (const char *)&key, sizeof key, &bytes, &error);
        must(error, "self-check");
        ycsb_settle(value, bytes, number);
        rocksdb_free(value);
    }
}

static void open_engine(unsigned threads) {
    rocksdb_options_t *how = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(how, 1);
    rocksdb_options_set_env(how, rocksdb_create_mem_env());
    rocksdb_options_set_write_buffer_size(how, (size_t)BUFFER_MB << 20);
    rocksdb_options_set_max_write_buffer_number(how, BUFFERS);
    rocksdb_block_based_table_options_t *tables = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(tables, rocksdb_cache_create_lru((size_t)option_cache_mb << 20));
    rocksdb_options_set_block_based_table_factory(how, tables);
    rocksdb_options_set_compression(how, rocksdb_no_compression);
    char *error = NULL;
    transactions = rocksdb_optimistictransactiondb_open(how, NAME, &error);
    must(error, NAME);
    database = rocksdb_optimistictransactiondb_get_base_db(transactions);
    read_options = rocksdb_readoptions_create();
    write_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(write_options, 1);
    ycsb_open(threads);
}

static void *open_session(struct worker *worker) {
    return ycsb_session(worker, NULL);
}

static void close_engine(void) {
    rocksdb_optimistictransactiondb_close_base_db(database);
    rocksdb_optimistictransactiondb_close(transactions);
}

int main(int argc, char **argv) {
    const struct engine rocksdb = {
        .name = "rocksdb",
        .summary = "RocksDB in memory under YCSB's workloads; the result is one JSON object on standard output.",
        .options = options,
        .version = version,
        .open = open_engine,
        .session = open_session,
        .operate = ycsb_operate,
        .verify = ycsb_verify,
        .close = close_engine,
    };
    return engine_main(argc, argv, &rocksdb);
}
