//! WiredTiger under YCSB's workloads: every operation is a transaction with snapshot isolation, and nothing leaves memory.
//!
//!     cc -O2 -pthread ycsb_wiredtiger.c -lwiredtiger -lm
//!
//! As `wiredtiger.c`, but the database is in memory (`in_memory=true`), and what an operation is is `ycsb.h`'s. `--home` is where the
//! library keeps its lock file.

#include "wiredtiger_calls.h"
#include "ycsb.h"

static uint64_t option_cache_mb = 2048;

static const struct option_spec options[] = {
    YCSB_OPTIONS,
    WIREDTIGER_OPTIONS,
    {"cache-mb", OPTION_COUNT, &option_cache_mb, 1, 1 << 24, NULL, "size of the cache in MiB (2048)"},
    {0},
};

static void set_key(WT_CURSOR *cursor, const uint64_t *key) {
    WT_ITEM item = {.data = key, .size = sizeof *key};
    cursor->set_key(cursor, &item);
}

static void set_value(WT_CURSOR *cursor, const char *value) {
    WT_ITEM item = {.data = value, .size = option_value_bytes};
    cursor->set_value(cursor, &item);
}

static void load(uint64_t first, uint64_t end) {
    struct cursor client = open_cursor();
    char *value = allocate(1, option_value_bytes);
    must(client.session->begin_transaction(client.session, NULL), "load");
    for (uint64_t number = first; number < end; number++) {
        const uint64_t key = ycsb_key(number);
        ledger_load(value, number);
        set_key(client.cursor, &key);
        set_value(client.cursor, value);
        must(client.cursor->insert(client.cursor), "load a record");
    }
    must(client.session->commit_transaction(client.session, NULL), "load");
    free(value);
    must(client.session->close(client.session, NULL), "load");
}

static enum tried refused(int error) {
    if (error == WT_ROLLBACK)
        return TRIED_CONFLICT;
    note_error("%s", wiredtiger_strerror(error));
    return TRIED_FAILED;
}

/// Ends a transaction; `tried` is what became of it until then.
static enum tried end(struct cursor *client, int error, enum tried tried) {
    int reset = client->cursor->reset(client->cursor);
    error = error ? error : reset;
    if (error == 0 && tried == TRIED_DONE)
        error = client->session->commit_transaction(client->session, NULL);
    else
        client->session->rollback_transaction(client->session, NULL);
    return error ? refused(error) : tried;
}

static int begin(struct cursor *client) {
    return client->session->begin_transaction(client->session, "isolation=snapshot");
}

/// What the cursor finds at `key`; an empty item for nothing.
static int search(WT_CURSOR *cursor, uint64_t key, WT_ITEM *item) {
    set_key(cursor, &key);
    int error = cursor->search(cursor);
    *item = (WT_ITEM){0};
    return error == WT_NOTFOUND ? 0 : error ? error : cursor->get_value(cursor, item);
}

static enum tried read_record(struct worker *worker, uint64_t number, uint64_t key) {
    struct cursor *client = ycsb_own(worker);
    WT_ITEM item;
    int error = begin(client);
    if (error)
        return refused(error);
    enum tried tried = TRIED_DONE;
    error = search(client->cursor, key, &item);
    if (error == 0)
        tried = ycsb_found(worker, number, item.data, item.size);
    return end(client, error, tried);
}

static enum tried put_record(struct worker *worker, uint64_t key, const char *value) {
    struct cursor *client = ycsb_own(worker);
    int error = begin(client);
    if (error)
        return refused(error);
    set_key(client->cursor, &key);
    set_value(client->cursor, value);
    return end(client, client->cursor->insert(client->cursor), TRIED_DONE);
}

static enum tried change_record(struct worker *worker, uint64_t number, uint64_t key, char *value) {
    struct cursor *client = ycsb_own(worker);
    WT_ITEM item;
    int error = begin(client);
    if (error)
        return refused(error);
    enum tried tried = TRIED_DONE;
    error = search(client->cursor, key, &item);
    if (error == 0)
        tried = ycsb_changed(value, number, item.data, item.size);
    if (error == 0 && tried == TRIED_DONE) {
        set_value(client->cursor, value);
        error = client->cursor->update(client->cursor);
    }
    return end(client, error, tried);
}

static enum tried scan_records(struct worker *worker, uint64_t key, unsigned records) {
    struct cursor *client = ycsb_own(worker);
    WT_CURSOR *cursor = client->cursor;
    int error = begin(client), order;
    if (error)
        return refused(error);
    enum tried tried = TRIED_DONE;
    set_key(cursor, &key);
    error = cursor->search_near(cursor, &order);
    if (error == 0 && order < 0)
        error = cursor->next(cursor);
    for (unsigned i = 0; error == 0 && tried == TRIED_DONE && i < records; i++) {
        WT_ITEM name, item;
        uint64_t found;
        error = cursor->get_key(cursor, &name);
        if (error == 0)
            error = cursor->get_value(cursor, &item);
        if (error)
            break;
        memcpy(&found, name.data, sizeof found);
        tried = ycsb_scanned(worker, found, item.data, item.size);
        if (i + 1 < records)
            error = cursor->next(cursor);
    }
    return end(client, error == WT_NOTFOUND ? 0 : error, tried);
}

static void settle(void) {
    struct cursor client = open_cursor();
    for (uint64_t number = 1; number <= ycsb_records(); number++) {
        WT_ITEM item;
        must(search(client.cursor, ycsb_key(number), &item), "self-check");
        ycsb_settle(item.data, item.size, number);
    }
    must(client.session->close(client.session, NULL), "self-check");
}

static void open_engine(unsigned threads) {
    wiredtiger_create(threads, option_cache_mb, "in_memory=true,", "key_format=u,value_format=u");
    ycsb_open(threads);
}

static void *open_session(struct worker *worker) {
    struct cursor *client = allocate(1, sizeof *client);
    *client = open_cursor();
    return ycsb_session(worker, client);
}

static void end_session(struct worker *worker) {
    struct cursor *client = ycsb_own(worker);
    client->session->close(client->session, NULL);
}

static void close_engine(void) {
    must(connection->close(connection, "leak_memory=true"), "close the database");
}

int main(int argc, char **argv) {
    const struct engine wiredtiger = {
        .name = "wiredtiger",
        .summary = "WiredTiger in memory under YCSB's workloads; the result is one JSON object on standard output.",
        .options = options,
        .version = version,
        .open = open_engine,
        .session = open_session,
        .operate = ycsb_operate,
        .end = end_session,
        .verify = ycsb_verify,
        .close = close_engine,
    };
    return engine_main(argc, argv, &wiredtiger);
}
