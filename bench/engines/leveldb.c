//! LevelDB under several threads: reads within a snapshot, reads alone, or half reads and half writes.
//!
//!     cc -O2 -pthread leveldb.c -lleveldb -lm
//!
//! The whole database has one mutex. A read takes it twice, and making and releasing a snapshot once each, so
//! `--mode=read` is four short critical sections an operation and `--mode=get`, db_bench's random read, two. In `--mode=mixed` writers queue, each on a
//! condition variable of its own, and the first of them writes for all who wait.

#include "ledger.h"

#include <leveldb/c.h>

#define STORE(name) leveldb_##name
#define store_set_cache leveldb_options_set_cache

#include "log_structured.h"

static const char *version(void) {
    static char text[64];
    snprintf(text, sizeof text, "LevelDB %d.%d", leveldb_major_version(), leveldb_minor_version());
    return text;
}

int main(int argc, char **argv) {
    const char *summary = "LevelDB under several threads; the result is one JSON object on standard output.";
    return log_structured_main(argc, argv, "leveldb", summary, version);
}
