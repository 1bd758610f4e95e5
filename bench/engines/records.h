//! YCSB-like operations on numbered records: what one operation reads or updates.
//!
//! An operation is a read of one record with probability `--read-share`, and otherwise one transaction
//! that updates `--updates` records. Keys are drawn uniformly or from YCSB's zipfian distribution.

#ifndef MANX_ENGINES_RECORDS_H
#define MANX_ENGINES_RECORDS_H

#include "engine.h"

static uint64_t option_records = 100000, option_value_bytes = 1024, option_updates = 1;
static double option_read_share = 0;
static const char *option_keys = "uniform";

#define RECORD_OPTIONS                                                                                             \
    {"records", OPTION_COUNT, &option_records, 1, 1e9, NULL, "records to load (100000)"},                          \
        {"value-bytes", OPTION_COUNT, &option_value_bytes, 8, 1 << 20, NULL, "size of a value (1024)"},            \
        {"keys", OPTION_WORD, &option_keys, 0, 0, "uniform|zipfian", "how keys are drawn (uniform)"},              \
        {"read-share", OPTION_NUMBER, &option_read_share, 0, 1, NULL, "share of reads, 0 to 1 (0)"}, {             \
        "updates", OPTION_COUNT, &option_updates, 1, MAX_UPDATES, NULL, "updates in a transaction (1)"             \
    }

enum { MAX_UPDATES = 64, CONFLICTS_AT_ONCE = 4, CONFLICTS_MAX = 2000 };

struct operation {
    bool read;
    unsigned keys;
    /// From 1 to `--records`, all different
    uint64_t key[MAX_UPDATES];
};

static struct zipfian record_zipfian;

/// To be called from `open`.
static inline void records_init(void) {
    if (option_updates > option_records)
        fail(2, "--updates %llu: there are only %llu records", (unsigned long long)option_updates,
             (unsigned long long)option_records);
    if (strcmp(option_keys, "zipfian") == 0)
        zipfian_init(&record_zipfian, option_records);
}

static inline uint64_t record_draw(struct random *random) {
    return 1 + (record_zipfian.items ? zipfian_draw(&record_zipfian, random) : random_below(random, option_records));
}

static inline void operation_draw(struct operation *operation, struct random *random) {
    operation->read = option_read_share > 0 && random_unit(random) < option_read_share;
    operation->keys = operation->read ? 1 : (unsigned)option_updates;
    for (unsigned i = 0; i < operation->keys; i++) {
        uint64_t key = record_draw(random);
        for (unsigned j = 0; j < i;) // a key that was drawn already gives way to its successor
            if (operation->key[j] == key) {
                key = key % option_records + 1;
                j = 0;
            } else {
                j++;
            }
        operation->key[i] = key;
    }
}

/// After the `times`-th conflict of one operation: at once at first, then after a sleep, as servers do.
/// False if it is time to give up.
static inline bool conflict_wait(struct worker *worker, unsigned times) {
    worker->conflicts++;
    if (times > CONFLICTS_AT_ONCE)
        usleep(1000);
    return times < CONFLICTS_MAX;
}

#endif
