//! SQLite under several threads: half reads of a row, half updates of one, each a transaction of its own.
//!
//!     cc -O2 -pthread sqlite.c -lsqlite3 -lm
//!
//! `--mode=shared`: one connection in serialized mode, which all threads use; each call into the library takes the
//! connection's recursive mutex. The database is in memory, so that nothing but the library is measured.
//! `--mode=two`: two such connections, each to a database of its own; half of the threads use each.
//! `--mode=wal`: a connection a thread and a write-ahead log, not synced to the disk; writers take turns by file
//! locks and the library's busy handler, which sleeps.
//!
//! An update counts its row up, so the sum over all rows of a database is the number of updates that were not lost.

#include "home.h"
#include "sqlite_calls.h"

static const char *option_mode = "shared";
static uint64_t option_records = 10000, option_value_bytes = 100;

static const struct option_spec options[] = {
    {"records", OPTION_COUNT, &option_records, 1, 1e8, NULL, "rows to load (10000)"},
    {"value-bytes", OPTION_COUNT, &option_value_bytes, 1, 1 << 20, NULL, "size of a row's payload (100)"},
    HOME_OPTION_WHEN("required by --mode=wal"),
    {"mode", OPTION_WORD, &option_mode, 0, 0, "shared|two|wal",
     "one connection for all threads, two to two databases, or one each and a write-ahead log (shared)"},
    {0},
};

/// How long the library tries for a lock before it gives up with SQLITE_BUSY.
enum { BUSY_MS = 10000 };

/// One thread's statements; unless in wal mode, other threads' belong to the same connection.
struct client {
    sqlite3 *connection;
    sqlite3_stmt *read, *update;
    uint64_t updates;
};

/// The first connection to each database. Thread i uses database i % database_count.
static sqlite3 *databases[2];
static unsigned database_count;
static struct client *clients;
static unsigned client_count;
static char path[4096] = ":memory:";
static bool shared;

static sqlite3 *connect(void) {
    sqlite3 *connection;
    int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | (shared ? SQLITE_OPEN_FULLMUTEX : SQLITE_OPEN_NOMUTEX);
    must(sqlite3_open_v2(path, &connection, how, NULL), NULL, path);
    must(sqlite3_busy_timeout(connection, BUSY_MS), connection, "set the busy handler");
    if (!shared)
        execute(connection, "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF");
    return connection;
}

static void load(sqlite3 *database) {
    execute(database, "CREATE TABLE records(id INTEGER PRIMARY KEY, updates INTEGER NOT NULL, value BLOB); BEGIN");
    sqlite3_stmt *insert = prepare(database, "INSERT INTO records VALUES(?1, 0, zeroblob(?2))");
    for (uint64_t id = 1; id <= option_records; id++) {
        sqlite3_bind_int64(insert, 1, (sqlite3_int64)id);
        sqlite3_bind_int64(insert, 2, (sqlite3_int64)option_value_bytes);
        if (sqlite3_step(insert) != SQLITE_DONE)
            must(SQLITE_ERROR, database, "load a row");
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    execute(database, "COMMIT");
}

static void open_engine(unsigned threads) {
    shared = strcmp(option_mode, "wal") != 0;
    database_count = strcmp(option_mode, "two") == 0 ? 2 : 1;
    if (!sqlite3_threadsafe())
        fail(1, "this SQLite was built without threads (SQLITE_THREADSAFE=0)");
    if (!shared)
        home_file(path, "records.db");
    for (unsigned i = 0; i < database_count; i++)
        load(databases[i] = connect());
    client_count = threads;
    clients = allocate(threads, sizeof *clients);
    for (unsigned i = 0; i < threads; i++) {
        clients[i].connection = shared ? databases[i % database_count] : connect();
        clients[i].read = prepare(clients[i].connection, "SELECT updates, value FROM records WHERE id = ?1");
        clients[i].update = prepare(clients[i].connection, "UPDATE records SET updates = updates + 1 WHERE id = ?1");
    }
}

static void *open_session(struct worker *worker) {
    return &clients[worker->index];
}

static enum outcome read_row(struct client *client, uint64_t id) {
    sqlite3_bind_int64(client->read, 1, (sqlite3_int64)id);
    int result = sqlite3_step(client->read);
    bool whole = result == SQLITE_ROW && sqlite3_column_int64(client->read, 0) >= 0 &&
                 sqlite3_column_bytes(client->read, 1) == (int)option_value_bytes;
    int reset = sqlite3_reset(client->read);
    if (whole && reset == SQLITE_OK)
        return DONE;
    if (result == SQLITE_ROW || result == SQLITE_DONE) {
        note_error("read: row %llu is not what was loaded", (unsigned long long)id);
        return FAILED;
    }
    return refused("read", result);
}

static enum outcome update_row(struct client *client, uint64_t id) {
    sqlite3_bind_int64(client->update, 1, (sqlite3_int64)id);
    int result = sqlite3_step(client->update);
    int reset = sqlite3_reset(client->update);
    if (result != SQLITE_DONE || reset != SQLITE_OK)
        return refused("update", result != SQLITE_DONE ? result : reset);
    client->updates++;
    return DONE;
}

static enum outcome operate(struct worker *worker) {
    uint64_t id = 1 + random_below(&worker->random, option_records);
    return random_bits(&worker->random) & 1 ? update_row(worker->session, id) : read_row(worker->session, id);
}

static uint64_t verify_database(unsigned which) {
    sqlite3 *database = databases[which];
    uint64_t made = 0;
    for (unsigned i = which; i < client_count; i += database_count)
        made += clients[i].updates;
    uint64_t rows = number(database, "SELECT count(*) FROM records");
    uint64_t held = number(database, "SELECT sum(updates) FROM records");
    if (rows != option_records || held != made)
        fail(1, "self-check: %llu rows with %llu updates instead of %llu with %llu", (unsigned long long)rows,
             (unsigned long long)held, (unsigned long long)option_records, (unsigned long long)made);
    check_structure(database);
    return made;
}

static uint64_t verify(void) {
    uint64_t made = 0;
    for (unsigned i = 0; i < database_count; i++)
        made += verify_database(i);
    return made;
}

static void close_engine(void) {
    for (unsigned i = 0; i < client_count; i++) {
        sqlite3_finalize(clients[i].read);
        sqlite3_finalize(clients[i].update);
        if (!shared)
            must(sqlite3_close(clients[i].connection), clients[i].connection, "close a connection");
    }
    for (unsigned i = 0; i < database_count; i++)
        must(sqlite3_close(databases[i]), databases[i], "close a database");
}

int main(int argc, char **argv) {
    const struct engine sqlite = {
        .name = "sqlite",
        .summary = "SQLite under several threads; the result is one JSON object on standard output.",
        .options = options,
        .version = sqlite_version,
        .open = open_engine,
        .session = open_session,
        .operate = operate,
        .verify = verify,
        .close = close_engine,
    };
    return engine_main(argc, argv, &sqlite);
}
