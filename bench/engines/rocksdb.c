//! RocksDB under several threads: reads within a snapshot, reads alone, or half reads and half writes.
//!
//!     cc -O2 -pthread rocksdb.c -lrocksdb -lm -ldl
//!
//! Reads take no mutex of the database, but making and releasing a snapshot does. Writers form a group without
//! a lock, wait for its leader by spinning, yielding and then on a mutex and a condition variable, and the
//! leader takes the database's mutex.

#include "ledger.h"
#include "rocksdb_calls.h"

#define STORE(name) rocksdb_##name

/// The cache belongs to the format of the tables here.
static void store_set_cache(rocksdb_options_t *options, rocksdb_cache_t *cache) {
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_options_set_block_based_table_factory(options, table);
}

#include "log_structured.h"

int main(int argc, char **argv) {
    const char *summary = "RocksDB under several threads; the result is one JSON object on standard output.";
    return log_structured_main(argc, argv, "rocksdb", summary, version);
}
