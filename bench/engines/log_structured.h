//! LevelDB and what descends from it, through the C interface that they have in common.
//!
//! A program that includes this defines `STORE(name)`, which puts the store's own prefix before a name of the
//! interface, and `store_set_cache`, in which the interfaces differ. All records fit the cache, and writes are
//! not synced to the disk: what is measured is the store and not the machine below it.

#ifndef MANX_ENGINES_LOG_STRUCTURED_H
#define MANX_ENGINES_LOG_STRUCTURED_H

#include "home.h"
#include "ledger.h"

static const char *option_mode = "read";
static uint64_t option_records = 20000, option_value_bytes = 100;

static const struct option_spec options[] = {
    {"records", OPTION_COUNT, &option_records, 1, 1e8, NULL, "records to load (20000)"},
    {"value-bytes", OPTION_COUNT, &option_value_bytes, LEDGER_VALUE_MIN, 1 << 20, NULL, "size of a value (100)"},
    HOME_OPTION,
    {"mode", OPTION_WORD, &option_mode, 0, 0, "read|get|mixed",
     "a snapshot and a read in it, a read alone, or half reads and half writes (read)"},
    {0},
};

enum { CACHE_BYTES = 64 << 20 };

static STORE(t) *database;
static STORE(readoptions_t) *read_options;
static STORE(writeoptions_t) *write_options;
static bool mixed, alone;

static void must(char *error, const char *what) {
    if (error)
        fail(1, "%s: %s", what, error);
}

static void load(void) {
    char *error = NULL;
    char *value = allocate(1, option_value_bytes);
    STORE(writebatch_t) *batch = STORE(writebatch_create)();
    for (uint64_t i = 1; i <= option_records; i++) {
        const uint64_t key = ledger_key(i);
        ledger_load(value, i);
        STORE(writebatch_put)(batch, (const char *)&key, sizeof key, value, option_value_bytes);
        if (i % 1000 == 0 || i == option_records) {
            STORE(write)(database, write_options, batch, &error);
            must(error, "load records");
            STORE(writebatch_clear)(batch);
        }
    }
    STORE(writebatch_destroy)(batch);
    free(value);
}

static void open_engine(unsigned threads) {
    home();
    mixed = strcmp(option_mode, "mixed") == 0;
    alone = strcmp(option_mode, "get") == 0;
    ledger_init(threads, option_records, option_value_bytes);
    STORE(options_t) *open_options = STORE(options_create)();
    STORE(options_set_create_if_missing)(open_options, 1);
    STORE(options_set_error_if_exists)(open_options, 1);
    store_set_cache(open_options, STORE(cache_create_lru)(CACHE_BYTES));
    char *error = NULL;
    database = STORE(open)(open_options, option_home, &error);
    must(error, option_home);
    read_options = STORE(readoptions_create)();
    write_options = STORE(writeoptions_create)();
    load();
    if (!mixed) // everything in tables, so that no compaction is left to disturb the reads
        STORE(compact_range)(database, NULL, 0, NULL, 0);
}

struct client {
    STORE(readoptions_t) *within;
    char *value;
};

static void *open_session(struct worker *worker) {
    (void)worker;
    struct client *client = allocate(1, sizeof *client);
    client->within = STORE(readoptions_create)();
    client->value = allocate(1, option_value_bytes);
    return client;
}

static enum outcome refused(char *error) {
    note_error("%s", error);
    STORE(free)(error);
    return FAILED;
}

static enum outcome get(const STORE(readoptions_t) *how, uint64_t number, const struct worker *worker) {
    char *error = NULL;
    size_t bytes = 0;
    const uint64_t key = ledger_key(number);
    char *found = STORE(get)(database, how, (const char *)&key, sizeof key, &bytes, &error);
    if (error)
        return refused(error);
    enum outcome outcome = ledger_found(found ? found : "", found ? bytes : 0, number, worker);
    STORE(free)(found);
    return outcome;
}

static enum outcome put(uint64_t number, const struct worker *worker) {
    struct client *client = worker->session;
    char *error = NULL;
    const uint64_t key = ledger_key(number);
    ledger_next(client->value, number, worker, 0);
    STORE(put)(database, write_options, (const char *)&key, sizeof key, client->value, option_value_bytes, &error);
    if (error)
        return refused(error);
    ledger_note(number, worker);
    return DONE;
}

static enum outcome operate(struct worker *worker) {
    struct client *client = worker->session;
    uint64_t key = 1 + random_below(&worker->random, option_records);
    if (mixed)
        return random_bits(&worker->random) & 1 ? put(key, worker) : get(read_options, key, worker);
    if (alone)
        return get(read_options, key, worker);
    const STORE(snapshot_t) *snapshot = STORE(create_snapshot)(database);
    STORE(readoptions_set_snapshot)(client->within, snapshot);
    enum outcome outcome = get(client->within, key, worker);
    STORE(release_snapshot)(database, snapshot);
    return outcome;
}

static uint64_t verify(void) {
    for (uint64_t i = 1; i <= option_records; i++) {
        char *error = NULL;
        size_t bytes = 0;
        const uint64_t key = ledger_key(i);
        char *found = STORE(get)(database, read_options, (const char *)&key, sizeof key, &bytes, &error);
        must(error, "self-check");
        ledger_settle(found, bytes, i);
        STORE(free)(found);
    }
    return ledger_puts();
}

static void close_engine(void) {
    STORE(close)(database);
}

/// The `main` of such a store.
static int log_structured_main(int argc, char **argv, const char *name, const char *summary,
                               const char *(*version)(void)) {
    const struct engine which = {
        .name = name,
        .summary = summary,
        .options = options,
        .version = version,
        .open = open_engine,
        .session = open_session,
        .operate = operate,
        .verify = verify,
        .close = close_engine,
    };
    return engine_main(argc, argv, &which);
}

#endif
