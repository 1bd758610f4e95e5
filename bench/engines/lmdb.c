//! LMDB under several threads, and several processes: half reads, half transactions that add 1 to a record.
//!
//!     cc -O2 -pthread lmdb.c -llmdb -lm -ldl
//!
//! Writers of all processes take turns by one mutex in the database's lock file, which is process-shared and
//! robust; readers take another one only once a thread. Each transaction counts its record up, so the sum over all
//! records is the number of transactions that were not lost, whoever made them.
//!
//! With `--join` the database is there already and other processes may use it meanwhile. Then only the last one can
//! tell whether anything was lost: it is told with `--expect` how many updates were made before it came, and
//! each process says in `verified_updates` how many it made.
//!
//! With `--private` the mutexes are ordinary ones of this process, and the database is this process's alone. A process-shared
//! mutex is the C library's whatever stands before it, because other processes may hold it that have no other
//! library; so nothing about the locks of a single process can be measured with one. LMDB has no option for it: it sets the two
//! attributes by functions that this program defines, and therefore gets from here.

#include "lmdb_calls.h"

#include <dlfcn.h>

static bool option_join = false, option_private = false;
static uint64_t option_records = 20000, option_expect = 0;

static const struct option_spec options[] = {
    {"records", OPTION_COUNT, &option_records, 1, 1e8, NULL, "records to load (20000)"},
    {"home", OPTION_TEXT, &option_home, 0, 0, NULL, "a folder for the database, empty without --join (required)"},
    {"private", OPTION_FLAG, &option_private, 0, 0, NULL, "mutexes of this process, which alone may use the database"},
    {"join", OPTION_FLAG, &option_join, 0, 0, NULL, "use what another process has loaded"},
    {"expect", OPTION_COUNT, &option_expect, 0, 1e18, NULL,
     "with --join: fail unless the database holds this number of updates at the start"},
    {0},
};

enum { MAP_BYTES = 1 << 30, MORE_READERS = 1024, PADDING_WORDS = 12 };

/// A record, about 100 bytes.
struct record {
    uint64_t updates;
    /// Each is `updates` plus its index: whoever sees anything else sees half of a transaction
    uint64_t padding[PADDING_WORDS];
};

/// Mutexes were made since `--private` was read, and asked to be shared.
static unsigned made_private;

/// In the C library's place: LMDB's mutexes are not shared, with `--private`.
int pthread_mutexattr_setpshared(pthread_mutexattr_t *attributes, int shared) {
    static int (*real)(pthread_mutexattr_t *, int);
    if (option_private) {
        made_private++;
        return 0;
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutexattr_setpshared");
    return real ? real(attributes, shared) : ENOSYS;
}

/// Nor are they robust: a thread that ends takes its process along.
int pthread_mutexattr_setrobust(pthread_mutexattr_t *attributes, int robustness) {
    static int (*real)(pthread_mutexattr_t *, int);
    if (option_private)
        return 0;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutexattr_setrobust");
    return real ? real(attributes, robustness) : ENOSYS;
}

static uint64_t updates_before;
static struct client {
    MDB_txn *reader;
    uint64_t updates;
} *clients;
static unsigned client_count;

static void record_set(struct record *record, uint64_t updates) {
    record->updates = updates;
    for (uint64_t i = 0; i < PADDING_WORDS; i++)
        record->padding[i] = updates + i;
}

/// What is wrong with a record, or null.
static const char *record_read(struct record *record, const MDB_val *value) {
    if (value->mv_size != sizeof *record)
        return "a record has another size than was put";
    memcpy(record, value->mv_data, sizeof *record);
    for (uint64_t i = 0; i < PADDING_WORDS; i++)
        if (record->padding[i] != record->updates + i)
            return "a record consists of two transactions";
    return NULL;
}

static void load(void) {
    MDB_txn *transaction;
    must(mdb_txn_begin(environment, NULL, 0, &transaction), "load");
    for (uint64_t key = 1; key <= option_records; key++) {
        struct record record;
        record_set(&record, 0);
        MDB_val name = {sizeof key, &key}, value = {sizeof record, &record};
        must(mdb_put(transaction, table, &name, &value, MDB_APPEND), "load a record");
    }
    must(mdb_txn_commit(transaction), "load");
}

/// Adds up all records, which must be there and whole.
static uint64_t sum(void) {
    MDB_txn *transaction;
    uint64_t total = 0;
    must(mdb_txn_begin(environment, NULL, MDB_RDONLY, &transaction), "self-check");
    for (uint64_t key = 1; key <= option_records; key++) {
        MDB_val name = {sizeof key, &key}, value;
        struct record record;
        must(mdb_get(transaction, table, &name, &value), "self-check");
        const char *wrong = record_read(&record, &value);
        if (wrong)
            fail(1, "self-check: key %llu: %s", (unsigned long long)key, wrong);
        total += record.updates;
    }
    mdb_txn_abort(transaction);
    return total;
}

static void open_engine(unsigned threads) {
    home();
    if (option_expect && !option_join)
        fail(2, "--expect: --join is missing");
    if (option_private && option_join)
        fail(2, "--private: not with --join, which is for databases of several processes");
    client_count = threads;
    clients = allocate(threads, sizeof *clients);
    environment_open(MAP_BYTES, threads + MORE_READERS);
    // One that is still shared would be measured as if it were not.
    if (option_private && !made_private)
        fail(1, "--private: this LMDB does not make its mutexes by the functions of the C library");
    // Readers of a process that was killed would keep what they once saw for ever.
    int dead = 0;
    must(mdb_reader_check(environment, &dead), "look for dead readers");
    table_open(MDB_INTEGERKEY);
    if (!option_join)
        load();
    updates_before = option_join ? sum() : 0;
    if (option_expect && updates_before != option_expect)
        fail(1, "self-check: the database holds %llu updates instead of --expect %llu",
             (unsigned long long)updates_before, (unsigned long long)option_expect);
}

static void *open_session(struct worker *worker) {
    struct client *client = &clients[worker->index];
    client->reader = reader_open();
    return client;
}

static enum outcome refused(const char *what, const char *why) {
    note_error("%s: %s", what, why);
    return FAILED;
}

static enum outcome get(struct client *client, uint64_t key) {
    MDB_val name = {sizeof key, &key}, value;
    struct record record;
    int error = mdb_txn_renew(client->reader);
    if (error)
        return refused("begin a read", mdb_strerror(error));
    error = mdb_get(client->reader, table, &name, &value);
    const char *wrong = error ? mdb_strerror(error) : record_read(&record, &value);
    mdb_txn_reset(client->reader);
    return wrong ? refused("get", wrong) : DONE;
}

static enum outcome add(struct client *client, uint64_t key) {
    MDB_val name = {sizeof key, &key}, value;
    MDB_txn *transaction;
    struct record record;
    int error = mdb_txn_begin(environment, NULL, 0, &transaction);
    if (error)
        return refused("begin", mdb_strerror(error));
    error = mdb_get(transaction, table, &name, &value);
    const char *wrong = error ? mdb_strerror(error) : record_read(&record, &value);
    if (!wrong) {
        record_set(&record, record.updates + 1);
        value = (MDB_val){sizeof record, &record};
        error = mdb_put(transaction, table, &name, &value, 0);
        wrong = error ? mdb_strerror(error) : NULL;
    }
    if (wrong) {
        mdb_txn_abort(transaction);
        return refused("update", wrong);
    }
    error = mdb_txn_commit(transaction);
    if (error)
        return refused("commit", mdb_strerror(error));
    client->updates++;
    return DONE;
}

static enum outcome operate(struct worker *worker) {
    uint64_t key = 1 + random_below(&worker->random, option_records);
    return random_bits(&worker->random) & 1 ? add(worker->session, key) : get(worker->session, key);
}

static void end_session(struct worker *worker) {
    struct client *client = worker->session;
    mdb_txn_abort(client->reader);
}

static uint64_t verify(void) {
    uint64_t made = 0, total = sum();
    for (unsigned i = 0; i < client_count; i++)
        made += clients[i].updates;
    // Others may have added theirs; whoever takes some away has lost them.
    if (option_join ? total < updates_before + made : total != made)
        fail(1, "self-check: the records hold %llu updates, but %llu were there and %llu were made: updates were lost",
             (unsigned long long)total, (unsigned long long)updates_before, (unsigned long long)made);
    return made;
}

int main(int argc, char **argv) {
    const struct engine lmdb = {
        .name = "lmdb",
        .summary = "LMDB under several threads; the result is one JSON object on standard output.",
        .options = options,
        .version = version,
        .open = open_engine,
        .session = open_session,
        .operate = operate,
        .end = end_session,
        .verify = verify,
        .close = close_engine,
    };
    return engine_main(argc, argv, &lmdb);
}
