//! SQLite's calls as the drivers make them: an error ends the program, or is an operation's outcome.

#ifndef MANX_ENGINES_SQLITE_CALLS_H
#define MANX_ENGINES_SQLITE_CALLS_H

#include "engine.h"

#include <sqlite3.h>

static inline void must(int error, sqlite3 *connection, const char *what) {
    if (error)
        fail(1, "%s: %s", what, connection ? sqlite3_errmsg(connection) : sqlite3_errstr(error));
}

static inline const char *sqlite_version(void) {
    static char text[64];
    snprintf(text, sizeof text, "SQLite %s", sqlite3_libversion());
    return text;
}

static inline void execute(sqlite3 *connection, const char *sql) {
    must(sqlite3_exec(connection, sql, NULL, NULL, NULL), connection, sql);
}

static inline sqlite3_stmt *prepare(sqlite3 *connection, const char *sql) {
    sqlite3_stmt *statement;
    must(sqlite3_prepare_v3(connection, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL), connection, sql);
    return statement;
}

/// The one number that a query returns.
static inline uint64_t number(sqlite3 *connection, const char *sql) {
    sqlite3_stmt *statement = prepare(connection, sql);
    if (sqlite3_step(statement) != SQLITE_ROW)
        must(SQLITE_ERROR, connection, sql);
    uint64_t value = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

/// To be called at the end: the database holds together.
static inline void check_structure(sqlite3 *connection) {
    if (number(connection, "SELECT count(*) FROM pragma_quick_check WHERE quick_check <> 'ok'"))
        fail(1, "self-check: the database's structure is broken (PRAGMA quick_check)");
}

/// By the statement's own result, since another thread may have changed the connection's.
static inline enum outcome refused(const char *what, int error) {
    note_error("%s: %s", what, sqlite3_errstr(error));
    return FAILED;
}

#endif
