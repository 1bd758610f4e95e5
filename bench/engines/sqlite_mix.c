//! SQLite under a mix of transactions, most of them short, with a full scan now and then.
//!
//!     cc -O2 -pthread sqlite_mix.c -lsqlite3 -lm
//!
//! The mix of N. Liu and others, "Asymmetry-aware Scalable Locking", table 1: a third inserts, a third point queries by an
//! indexed column, a third queries of a range of that column with a filter on one that has no index, each in a DEFERRED
//! transaction of its own; and one operation in `--scan-every` scans a table of 100,000 rows, as a transaction like the others.
//!
//! The database is in memory and all threads' connections share its cache, each thread having one. So a thread holds the cache's
//! mutex while it executes a statement, all of a scan included, and takes those of the page cache and of the
//! allocator within. What transactions may do beside each other is decided by the library's own locks of tables: a
//! statement that may not go on is refused (SQLITE_LOCKED), and its transaction is begun again after the others had the CPU. That
//! belongs to the operation, as it does in a server.
//!
//! 1. Rows are never changed, and what is queried is what was loaded: inserted rows have larger keys. So each query
//!    has one right answer, and takes as long at the end as at the start.
//! 2. An inserted row says who inserted it, and numbers that thread's rows. At the end each thread must have as many
//!    different ones as it inserted.

#include "sqlite_calls.h"

static uint64_t option_records = 10000, option_scanned = 100000, option_scan_every = 1000, option_value_bytes = 100;

static const struct option_spec options[] = {
    {"records", OPTION_COUNT, &option_records, 100, 1e8, NULL, "rows to load for the queries (10000)"},
    {"scanned", OPTION_COUNT, &option_scanned, 100, 1e8, NULL, "rows of the table that is scanned (100000)"},
    {"scan-every", OPTION_COUNT, &option_scan_every, 0, 1e9, NULL,
     "one operation in this number is a scan; 0: none (1000)"},
    {"value-bytes", OPTION_COUNT, &option_value_bytes, 1, 1 << 20, NULL, "size of a row's payload (100)"},
    {0},
};

enum {
    /// Of a range query
    RANGE = 100,
    /// The number of kinds of rows, which take turns; half of the kinds pass the filter
    CATEGORIES = 100,
    /// A transaction that was refused so often never gets its turn
    REFUSALS_MAX = 1000000,
};

static const char *const DATABASE = "file:records?mode=memory&cache=shared";

/// One thread's connection.
struct client {
    sqlite3 *connection;
    sqlite3_stmt *begin, *commit, *rollback, *insert, *point, *range, *scan;
    uint64_t inserted;
    char *payload;
};

static struct client *clients;
static unsigned client_count;
/// Keeps the database alive, loads and checks it.
static sqlite3 *keeper;

static sqlite3 *connect(void) {
    sqlite3 *connection;
    int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    must(sqlite3_open_v2(DATABASE, &connection, how, NULL), NULL, DATABASE);
    return connection;
}

/// Rows with the keys from 1 on, of which each says its key once more.
static void load(const char *table, uint64_t rows) {
    char sql[512];
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE keys(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM keys WHERE key < %llu) "
             "INSERT INTO %s(key, category, writer, number, payload) "
             "SELECT key, key %% %d, -1, key, zeroblob(%llu) FROM keys",
             (unsigned long long)rows, table, CATEGORIES, (unsigned long long)option_value_bytes);
    execute(keeper, sql);
}

static void open_engine(unsigned threads) {
    if (!sqlite3_threadsafe())
        fail(1, "this SQLite was built without threads (SQLITE_THREADSAFE=0)");
    keeper = connect();
    for (int i = 0; i < 2; i++) {
        char sql[256];
        snprintf(sql, sizeof sql,
                 "CREATE TABLE %s(id INTEGER PRIMARY KEY, key INTEGER NOT NULL, category INTEGER NOT NULL, "
                 "writer INTEGER NOT NULL, number INTEGER NOT NULL, payload BLOB NOT NULL)",
                 i ? "history" : "records");
        execute(keeper, sql);
    }
    execute(keeper, "CREATE INDEX by_key ON records(key); BEGIN");
    load("records", option_records);
    load("history", option_scanned);
    execute(keeper, "COMMIT");

    client_count = threads;
    clients = allocate(threads, sizeof *clients);
    for (unsigned i = 0; i < threads; i++) {
        struct client *client = &clients[i];
        sqlite3 *connection = client->connection = connect();
        client->begin = prepare(connection, "BEGIN DEFERRED");
        client->commit = prepare(connection, "COMMIT");
        client->rollback = prepare(connection, "ROLLBACK");
        client->insert = prepare(connection, "INSERT INTO records(key, category, writer, number, payload) "
                                             "VALUES(?1, ?1 % ?2, ?3, ?4, ?5)");
        client->point = prepare(connection, "SELECT category, writer, number, payload FROM records WHERE key = ?1");
        client->range = prepare(connection, "SELECT count(*) FROM records WHERE key BETWEEN ?1 AND ?2 "
                                            "AND category < ?3");
        client->scan = prepare(connection, "SELECT count(*) FROM history WHERE category < ?1");
        client->payload = allocate(1, option_value_bytes);
    }
}

static void *open_session(struct worker *worker) {
    return &clients[worker->index];
}

/// Executes a statement that returns no row.
static int carry_out(sqlite3_stmt *statement) {
    int result = sqlite3_step(statement);
    sqlite3_reset(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

/// Executes a statement that returns the one number `right`.
static int count(sqlite3_stmt *statement, uint64_t right) {
    int result = sqlite3_step(statement);
    bool is_right = result == SQLITE_ROW && sqlite3_column_int64(statement, 0) == (sqlite3_int64)right;
    sqlite3_reset(statement);
    if (result != SQLITE_ROW)
        return result;
    return is_right ? SQLITE_OK : SQLITE_CORRUPT;
}

static int insert(struct client *client, struct worker *worker, uint64_t draw) {
    uint64_t key = option_records + 1 + draw % (1ull << 40);
    sqlite3_bind_int64(client->insert, 1, (sqlite3_int64)key);
    sqlite3_bind_int(client->insert, 2, CATEGORIES);
    sqlite3_bind_int(client->insert, 3, (int)worker->index);
    sqlite3_bind_int64(client->insert, 4, (sqlite3_int64)client->inserted + 1);
    sqlite3_bind_blob(client->insert, 5, client->payload, (int)option_value_bytes, SQLITE_STATIC);
    return carry_out(client->insert);
}

static int point(struct client *client, uint64_t draw) {
    sqlite3_int64 key = 1 + (sqlite3_int64)(draw % option_records);
    sqlite3_bind_int64(client->point, 1, key);
    int result = sqlite3_step(client->point);
    bool whole = result == SQLITE_ROW && sqlite3_column_int64(client->point, 0) == key % CATEGORIES &&
                 sqlite3_column_int(client->point, 1) == -1 && sqlite3_column_int64(client->point, 2) == key &&
                 sqlite3_column_bytes(client->point, 3) == (int)option_value_bytes;
    sqlite3_reset(client->point);
    if (result != SQLITE_ROW)
        return result;
    return whole ? SQLITE_OK : SQLITE_CORRUPT;
}

static int range(struct client *client, uint64_t draw) {
    uint64_t first = 1 + draw % (option_records - RANGE + 1);
    sqlite3_bind_int64(client->range, 1, (sqlite3_int64)first);
    sqlite3_bind_int64(client->range, 2, (sqlite3_int64)(first + RANGE - 1));
    sqlite3_bind_int(client->range, 3, CATEGORIES / 2);
    return count(client->range, RANGE / 2); // each category once
}

static int scan(struct client *client) {
    sqlite3_bind_int(client->scan, 1, 1); // the first category: every hundredth row
    return count(client->scan, option_scanned / CATEGORIES);
}

static enum outcome operate(struct worker *worker) {
    struct client *client = worker->session;
    bool is_scan = option_scan_every && random_below(&worker->random, option_scan_every) == 0;
    uint64_t which = random_below(&worker->random, 3), draw = random_bits(&worker->random);
    for (unsigned refusals = 0;; refusals++) {
        int result = carry_out(client->begin);
        if (result == SQLITE_OK)
            result = is_scan      ? scan(client)
                     : which == 0 ? insert(client, worker, draw)
                     : which == 1 ? point(client, draw)
                                  : range(client, draw);
        if (result == SQLITE_OK)
            result = carry_out(client->commit);
        if (result == SQLITE_OK) {
            client->inserted += !is_scan && which == 0;
            return DONE;
        }
        if (!sqlite3_get_autocommit(client->connection))
            carry_out(client->rollback);
        if ((result & 0xff) != SQLITE_LOCKED)
            return refused(is_scan ? "scan" : which == 0 ? "insert" : which == 1 ? "point query" : "range query", result);
        if (refusals == REFUSALS_MAX)
            return refused("a transaction that never gets its turn", result);
        worker->conflicts++;
        sched_yield();
    }
}

static uint64_t verify(void) {
    uint64_t made = 0;
    char sql[256];
    for (unsigned i = 0; i < client_count; i++) {
        snprintf(sql, sizeof sql,
                 "SELECT count(DISTINCT number) FROM records WHERE writer = %u AND number BETWEEN 1 AND %llu", i,
                 (unsigned long long)clients[i].inserted);
        uint64_t held = number(keeper, sql);
        if (held != clients[i].inserted)
            fail(1, "self-check: %llu rows of thread %u instead of %llu: inserts were lost", (unsigned long long)held, i,
                 (unsigned long long)clients[i].inserted);
        made += held;
    }
    uint64_t rows = number(keeper, "SELECT count(*) FROM records");
    if (rows != option_records + made)
        fail(1, "self-check: %llu rows instead of %llu loaded and %llu inserted", (unsigned long long)rows,
             (unsigned long long)option_records, (unsigned long long)made);
    check_structure(keeper);
    return made;
}

static void close_engine(void) {
    for (unsigned i = 0; i < client_count; i++) {
        struct client *client = &clients[i];
        sqlite3_stmt *const statements[] = {client->begin, client->commit, client->rollback, client->insert,
                                            client->point, client->range,  client->scan};
        for (size_t s = 0; s < sizeof statements / sizeof *statements; s++)
            sqlite3_finalize(statements[s]);
        must(sqlite3_close(client->connection), client->connection, "close a connection");
    }
    must(sqlite3_close(keeper), keeper, "close the database");
}

int main(int argc, char **argv) {
    const struct engine mix = {
        .name = "sqlite-mix",
        .summary = "SQLite under short transactions and long scans; the result is one JSON object on standard output.",
        .options = options,
        .version = sqlite_version,
        .open = open_engine,
        .session = open_session,
        .operate = operate,
        .verify = verify,
        .close = close_engine,
    };
    return engine_main(argc, argv, &mix);
}
