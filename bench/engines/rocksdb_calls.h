//! What the drivers of RocksDB have in common.

#ifndef MANX_ENGINES_ROCKSDB_CALLS_H
#define MANX_ENGINES_ROCKSDB_CALLS_H

#include "engine.h"

#include <dlfcn.h>
#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

/// The C interface does not tell it, so the library's file name has to, such as librocksdb.so.7.8.3.
static inline const char *version(void) {
    static char path[4096];
    Dl_info library;
    if (!dladdr((void *)rocksdb_open, &library) || !realpath(library.dli_fname, path))
        return "RocksDB";
    return strrchr(path, '/') + 1;
}

#endif
