//! Kyoto Cabinet under 8 threads, half gets and half sets: the file hash database, or the cache in memory.
//!
//!     cc -O2 -pthread kyoto.c -lkyotocabinet -lm
//!
//! `--mode=hash` (HashDB) takes a reader-writer lock over the whole database and one of its record locks in
//! each operation; `--mode=cache` (CacheDB) one of 16 mutexes, for the time of a hash table look-up and of
//! moving the record to the front of its list. Both go through the library's C interface.

#include "home.h"
#include "ledger.h"

#include <kclangc.h>

static const char *option_mode = "hash";
static uint64_t option_records = 20000, option_value_bytes = 100;

static const struct option_spec options[] = {
    {"records", OPTION_COUNT, &option_records, 1, 1e8, NULL, "records to load (20000)"},
    {"value-bytes", OPTION_COUNT, &option_value_bytes, LEDGER_VALUE_MIN, 1 << 20, NULL, "size of a value (100)"},
    HOME_OPTION_WHEN("required by --mode=hash"),
    {"mode", OPTION_WORD, &option_mode, 0, 0, "hash|cache", "HashDB in a file, or CacheDB in memory (hash)"},
    {0},
};

static KCDB *database;

static _Noreturn void give_up(const char *what) {
    fail(1, "%s: %s (%s)", what, kcecodename(kcdbecode(database)), kcdbemsg(database));
}

static const char *version(void) {
    static char text[64];
    snprintf(text, sizeof text, "Kyoto Cabinet %s", KCVERSION);
    return text;
}

static void open_engine(unsigned threads) {
    char path[4096] = "*"; // CacheDB
    if (strcmp(option_mode, "hash") == 0)
        home_file(path, "records.kch");
    ledger_init(threads, option_records, option_value_bytes);
    database = kcdbnew();
    if (!kcdbopen(database, path, KCOWRITER | KCOCREATE))
        give_up(path);
    char *value = allocate(1, option_value_bytes);
    for (uint64_t i = 1; i <= option_records; i++) {
        const uint64_t key = ledger_key(i);
        ledger_load(value, i);
        if (!kcdbset(database, (const char *)&key, sizeof key, value, option_value_bytes))
            give_up("load a record");
    }
    free(value);
}

static void *open_session(struct worker *worker) {
    (void)worker;
    // One byte more, so that a value that is too long is seen to be.
    return allocate(1, option_value_bytes + 1);
}

static enum outcome operate(struct worker *worker) {
    char *value = worker->session;
    uint64_t number = 1 + random_below(&worker->random, option_records);
    const uint64_t key = ledger_key(number);
    if (random_bits(&worker->random) & 1) {
        ledger_next(value, number, worker, 0);
        if (!kcdbset(database, (const char *)&key, sizeof key, value, option_value_bytes)) {
            note_error("set: %s", kcecodename(kcdbecode(database)));
            return FAILED;
        }
        ledger_note(number, worker);
        return DONE;
    }
    int32_t bytes = kcdbgetbuf(database, (const char *)&key, sizeof key, value, option_value_bytes + 1);
    if (bytes < 0) {
        note_error("get: %s", kcecodename(kcdbecode(database)));
        return FAILED;
    }
    return ledger_found(value, (size_t)bytes, number, worker);
}

static uint64_t verify(void) {
    if (kcdbcount(database) != (int64_t)option_records)
        fail(1, "self-check: %lld records instead of %llu", (long long)kcdbcount(database),
             (unsigned long long)option_records);
    char *value = allocate(1, option_value_bytes + 1);
    for (uint64_t i = 1; i <= option_records; i++) {
        const uint64_t key = ledger_key(i);
        int32_t bytes = kcdbgetbuf(database, (const char *)&key, sizeof key, value, option_value_bytes + 1);
        ledger_settle(bytes < 0 ? NULL : value, (size_t)bytes, i);
    }
    free(value);
    return ledger_puts();
}

static void close_engine(void) {
    if (!kcdbclose(database))
        give_up("close the database");
    kcdbdel(database);
}

int main(int argc, char **argv) {
    const struct engine kyoto = {
        .name = "kyoto",
        .summary = "Kyoto Cabinet under several threads; the result is one JSON object on standard output.",
        .options = options,
        .version = version,
        .open = open_engine,
        .session = open_session,
        .operate = operate,
        .verify = verify,
        .close = close_engine,
    };
    return engine_main(argc, argv, &kyoto);
}
