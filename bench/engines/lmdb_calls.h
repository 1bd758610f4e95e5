//! LMDB's calls as the drivers make them: an error ends the program. Nothing is synced to the disk.

#ifndef MANX_ENGINES_LMDB_CALLS_H
#define MANX_ENGINES_LMDB_CALLS_H

#include "engine.h"
#include "home.h"

#include <lmdb.h>

static MDB_env *environment;
static MDB_dbi table;

static inline void must(int error, const char *what) {
    if (error)
        fail(1, "%s: %s", what, mdb_strerror(error));
}

static inline const char *version(void) {
    return mdb_version(NULL, NULL, NULL);
}

/// Opens the database in `--home`. It may grow to `map_bytes`, and have `readers` readers at once.
static inline void environment_open(size_t map_bytes, unsigned readers) {
    must(mdb_env_create(&environment), "create an environment");
    must(mdb_env_set_mapsize(environment, map_bytes), "set the map's size");
    must(mdb_env_set_maxreaders(environment, readers), "set the number of readers");
    must(mdb_env_open(environment, home(), MDB_NOSYNC | MDB_WRITEMAP, 0600), home());
}

static inline void table_open(unsigned flags) {
    MDB_txn *transaction;
    must(mdb_txn_begin(environment, NULL, 0, &transaction), "begin");
    must(mdb_dbi_open(transaction, NULL, flags, &table), "open the table");
    must(mdb_txn_commit(transaction), "open the table");
}

/// A thread's read transaction, which it renews for each read.
static inline MDB_txn *reader_open(void) {
    MDB_txn *reader;
    must(mdb_txn_begin(environment, NULL, MDB_RDONLY, &reader), "begin a read");
    mdb_txn_reset(reader);
    return reader;
}

static inline void close_engine(void) {
    mdb_env_close(environment);
}

#endif
