//! WiredTiger under a YCSB-like load: every operation is a transaction with snapshot isolation.
//!
//!     cc -O2 -pthread wiredtiger.c -lwiredtiger -lm
//!
//! An ordinary client of the library's public interface, for 3.2 and for 11.3: one connection, a session
//! and a cursor a thread. The database lies in `--home`, a folder that exists; what it writes there is the
//! caller's to remove. By default there is no log and no checkpoint while it runs, and the cache is large
//! enough for the records, so that what is measured is the engine's transactions and not the disk.
//!
//! Values of 48 bytes and more tell who wrote them, and are looked for at the end (`ledger.h`).

#include "ledger.h"
#include "records.h"
#include "wiredtiger_calls.h"

static uint64_t option_cache_mb = 1024;

static const struct option_spec options[] = {
    RECORD_OPTIONS,
    WIREDTIGER_OPTIONS,
    {"cache-mb", OPTION_COUNT, &option_cache_mb, 1, 1 << 24, NULL, "size of the cache in MiB (1024)"},
    {0},
};

struct client {
    struct cursor on;
    char *value;
    struct operation operation;
};

/// Values have room for what the ledger wants to know
static bool checked;

static void value_fill(char *value, uint64_t key) {
    for (uint64_t i = 0; i < option_value_bytes; i++)
        value[i] = (char)('a' + (key + i) % 26);
    if (checked)
        ledger_stamp(value, key, LEDGER_LOADER, 0);
}

static void open_engine(unsigned threads) {
    records_init();
    checked = option_value_bytes >= LEDGER_VALUE_MIN;
    if (checked)
        ledger_init(threads, option_records, option_value_bytes);
    wiredtiger_create(threads, option_cache_mb, "", "key_format=Q,value_format=u");
    WT_SESSION *session;
    WT_CURSOR *cursor;
    must(connection->open_session(connection, NULL, NULL, &session), "open a session");
    must(session->open_cursor(session, TABLE, NULL, "bulk", &cursor), "open a cursor for loading");
    char *value = allocate(1, option_value_bytes);
    for (uint64_t key = 1; key <= option_records; key++) {
        WT_ITEM item = {.data = value, .size = option_value_bytes};
        value_fill(value, key);
        cursor->set_key(cursor, key);
        cursor->set_value(cursor, &item);
        must(cursor->insert(cursor), "load a record");
    }
    free(value);
    must(cursor->close(cursor), "end the loading");
    must(session->close(session, NULL), "close the session");
}

static void *open_session(struct worker *worker) {
    struct client *client = allocate(1, sizeof *client);
    client->on = open_cursor();
    client->value = allocate(1, option_value_bytes);
    value_fill(client->value, worker->index);
    return client;
}

/// Everything between begin and commit.
static int within(struct worker *worker) {
    struct client *client = worker->session;
    WT_CURSOR *cursor = client->on.cursor;
    WT_ITEM item;
    if (client->operation.read) {
        cursor->set_key(cursor, client->operation.key[0]);
        int error = cursor->search(cursor);
        if (error)
            return error;
        error = cursor->get_value(cursor, &item);
        if (error)
            return error;
        // As a server does that must send it.
        memcpy(client->value, item.data, item.size < option_value_bytes ? item.size : option_value_bytes);
        if (checked && ledger_found(item.data, item.size, client->operation.key[0], worker) != DONE)
            return WT_ERROR;
        return 0;
    }
    for (unsigned i = 0; i < client->operation.keys; i++) {
        item = (WT_ITEM){.data = client->value, .size = option_value_bytes};
        if (checked)
            ledger_next(client->value, client->operation.key[i], worker, i);
        cursor->set_key(cursor, client->operation.key[i]);
        cursor->set_value(cursor, &item);
        int error = cursor->update(cursor);
        if (error)
            return error;
    }
    return 0;
}

static int transaction(struct worker *worker) {
    struct client *client = worker->session;
    WT_SESSION *session = client->on.session;
    int error = session->begin_transaction(session, "isolation=snapshot");
    if (error)
        return error;
    error = within(worker);
    int reset = client->on.cursor->reset(client->on.cursor);
    if (error == 0 && reset == 0)
        return session->commit_transaction(session, NULL);
    session->rollback_transaction(session, NULL);
    return error ? error : reset;
}

static enum outcome operate(struct worker *worker) {
    struct client *client = worker->session;
    operation_draw(&client->operation, &worker->random);
    client->value[0]++;
    int error;
    unsigned times = 0;
    while ((error = transaction(worker)) == WT_ROLLBACK && conflict_wait(worker, ++times))
        ;
    if (error == 0) {
        if (checked && !client->operation.read)
            for (unsigned i = 0; i < client->operation.keys; i++)
                ledger_note(client->operation.key[i], worker);
        return DONE;
    }
    note_error("%s", wiredtiger_strerror(error));
    return FAILED;
}

static void end_session(struct worker *worker) {
    struct client *client = worker->session;
    client->on.session->close(client->on.session, NULL);
}

static uint64_t verify(void) {
    if (!checked)
        return 0;
    WT_SESSION *session;
    WT_CURSOR *cursor;
    must(connection->open_session(connection, NULL, NULL, &session), "self-check");
    must(session->open_cursor(session, TABLE, NULL, NULL, &cursor), "self-check");
    for (uint64_t key = 1; key <= option_records; key++) {
        WT_ITEM item = {0};
        cursor->set_key(cursor, key);
        int error = cursor->search(cursor);
        if (error == 0)
            error = cursor->get_value(cursor, &item);
        if (error && error != WT_NOTFOUND)
            must(error, "self-check");
        ledger_settle(item.data, item.size, key);
    }
    must(session->close(session, NULL), "self-check");
    return ledger_puts();
}

static void close_engine(void) {
    must(connection->close(connection, "leak_memory=true"), "close the database");
}

int main(int argc, char **argv) {
    const struct engine wiredtiger = {
        .name = "wiredtiger",
        .summary = "WiredTiger under a YCSB-like load; the result is one JSON object on standard output.",
        .options = options,
        .version = version,
        .open = open_engine,
        .session = open_session,
        .operate = operate,
        .end = end_session,
        .verify = verify,
        .close = close_engine,
    };
    return engine_main(argc, argv, &wiredtiger);
}
