//! SQLite under YCSB's workloads: a connection a thread, a write-ahead log, nothing synced to the disk.
//!
//!     cc -O2 -pthread ycsb_sqlite.c -lsqlite3 -lm
//!
//! Keys are BLOBs of a table WITHOUT ROWID. Writers take turns by the library's busy handler, which sleeps.

#include "home.h"
#include "ycsb.h"

#include "sqlite_calls.h"

static const struct option_spec options[] = {
    YCSB_OPTIONS,
    HOME_OPTION,
    {0},
};

/// How long the library tries for a lock before it gives up with SQLITE_BUSY.
enum { BUSY_MS = 10000 };

struct client {
    sqlite3 *connection;
    sqlite3_stmt *read, *put, *scan, *begin, *commit, *rollback;
};

static char path[4096];

static struct client connect(void) {
    struct client client;
    int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    must(sqlite3_open_v2(path, &client.connection, how, NULL), NULL, path);
    must(sqlite3_busy_timeout(client.connection, BUSY_MS), client.connection, "set the busy handler");
    execute(client.connection, "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA cache_size=-200000;"
                               "CREATE TABLE IF NOT EXISTS records(key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID");
    client.read = prepare(client.connection, "SELECT value FROM records WHERE key = ?1");
    client.put = prepare(client.connection, "INSERT INTO records VALUES(?1, ?2) ON CONFLICT DO UPDATE SET value = ?2");
    client.scan = prepare(client.connection, "SELECT key, value FROM records WHERE key >= ?1 ORDER BY key LIMIT ?2");
    client.begin = prepare(client.connection, "BEGIN IMMEDIATE");
    client.commit = prepare(client.connection, "COMMIT");
    client.rollback = prepare(client.connection, "ROLLBACK");
    return client;
}

static void disconnect(const struct client *client) {
    sqlite3_stmt *all[] = {client->read, client->put, client->scan, client->begin, client->commit, client->rollback};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sqlite3_finalize(all[i]);
    must(sqlite3_close(client->connection), client->connection, "close a connection");
}

/// Steps once, resets, and says what went wrong, or 0.
static int once(sqlite3_stmt *statement) {
    int result = sqlite3_step(statement);
    sqlite3_reset(statement);
    return result == SQLITE_DONE || result == SQLITE_ROW ? 0 : result;
}

static enum tried failed(const char *what, int error) {
    if (error == SQLITE_BUSY || error == SQLITE_BUSY_SNAPSHOT)
        return TRIED_CONFLICT;
    refused(what, error);
    return TRIED_FAILED;
}

static int put(const struct client *client, uint64_t key, const char *value) {
    sqlite3_bind_blob(client->put, 1, &key, sizeof key, SQLITE_STATIC);
    sqlite3_bind_blob(client->put, 2, value, (int)option_value_bytes, SQLITE_STATIC);
    return once(client->put);
}

static void load(uint64_t first, uint64_t end) {
    static struct client loader;
    if (first == 1)
        loader = connect();
    char *value = allocate(1, option_value_bytes);
    must(once(loader.begin), loader.connection, "load");
    for (uint64_t number = first; number < end; number++) {
        ledger_load(value, number);
        must(put(&loader, ycsb_key(number), value), loader.connection, "load a row");
    }
    must(once(loader.commit), loader.connection, "load");
    free(value);
    if (end == option_records + 1)
        disconnect(&loader);
}

/// Looks for `key`; the value is valid until the statement is reset. Null if there is none.
static int search(const struct client *client, uint64_t key, const char **value, size_t *bytes) {
    sqlite3_bind_blob(client->read, 1, &key, sizeof key, SQLITE_TRANSIENT);
    int result = sqlite3_step(client->read);
    *value = result == SQLITE_ROW ? sqlite3_column_blob(client->read, 0) : NULL;
    *bytes = result == SQLITE_ROW ? (size_t)sqlite3_column_bytes(client->read, 0) : 0;
    return result == SQLITE_ROW || result == SQLITE_DONE ? 0 : result;
}

static enum tried read_record(struct worker *worker, uint64_t number, uint64_t key) {
    const struct client *client = ycsb_own(worker);
    const char *value;
    size_t bytes;
    int error = search(client, key, &value, &bytes);
    enum tried tried = error ? failed("read", error) : ycsb_found(worker, number, value, bytes);
    sqlite3_reset(client->read);
    return tried;
}

static enum tried put_record(struct worker *worker, uint64_t key, const char *value) {
    int error = put(ycsb_own(worker), key, value);
    return error ? failed("put", error) : TRIED_DONE;
}

static enum tried change_record(struct worker *worker, uint64_t number, uint64_t key, char *next) {
    const struct client *client = ycsb_own(worker);
    const char *value;
    size_t bytes;
    int error = once(client->begin);
    if (error)
        return failed("begin", error);
    error = search(client, key, &value, &bytes);
    enum tried tried = error ? failed("read", error) : ycsb_changed(next, number, value, bytes);
    sqlite3_reset(client->read);
    if (tried == TRIED_DONE) {
        error = put(client, key, next);
        if (!error)
            error = once(client->commit);
        if (error)
            tried = failed("change", error);
    }
    if (tried != TRIED_DONE)
        once(client->rollback);
    return tried;
}

static enum tried scan_records(struct worker *worker, uint64_t key, unsigned records) {
    const struct client *client = ycsb_own(worker);
    sqlite3_bind_blob(client->scan, 1, &key, sizeof key, SQLITE_STATIC);
    sqlite3_bind_int64(client->scan, 2, records);
    enum tried tried = TRIED_DONE;
    int result;
    while (tried == TRIED_DONE && (result = sqlite3_step(client->scan)) != SQLITE_DONE) {
        if (result != SQLITE_ROW) {
            tried = failed("scan", result);
            break;
        }
        uint64_t found = 0;
        if (sqlite3_column_bytes(client->scan, 0) == sizeof found)
            memcpy(&found, sqlite3_column_blob(client->scan, 0), sizeof found);
        tried = ycsb_scanned(worker, found, sqlite3_column_blob(client->scan, 1),
                             (size_t)sqlite3_column_bytes(client->scan, 1));
    }
    sqlite3_reset(client->scan);
    return tried;
}

static void settle(void) {
    struct client client = connect();
    for (uint64_t number = 1; number <= ycsb_records(); number++) {
        const char *value;
        size_t bytes;
        must(search(&client, ycsb_key(number), &value, &bytes), client.connection, "self-check");
        ycsb_settle(value, bytes, number);
        sqlite3_reset(client.read);
    }
    check_structure(client.connection);
    disconnect(&client);
}

static void open_engine(unsigned threads) {
    home_file(path, "records.db");
    if (!sqlite3_threadsafe())
        fail(1, "this SQLite was built without threads (SQLITE_THREADSAFE=0)");
    ycsb_open(threads);
}

static void *open_session(struct worker *worker) {
    struct client *client = allocate(1, sizeof *client);
    *client = connect();
    return ycsb_session(worker, client);
}

static void end_session(struct worker *worker) {
    disconnect(ycsb_own(worker));
}

int main(int argc, char **argv) {
    const struct engine sqlite = {
        .name = "sqlite",
        .summary = "SQLite under YCSB's workloads; the result is one JSON object on standard output.",
        .options = options,
        .version = sqlite_version,
        .open = open_engine,
        .session = open_session,
        .operate = ycsb_operate,
        .end = end_session,
        .verify = ycsb_verify,
    };
    return engine_main(argc, argv, &sqlite);
}
