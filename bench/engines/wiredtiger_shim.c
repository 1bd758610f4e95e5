//! WiredTiger's calls as plain functions, for a server that is compiled without the library's header.
//!
//!     cc -O2 -shared -fPIC wiredtiger_shim.c -o shim.so -lwiredtiger
//!
//! WiredTiger's interface is structs of function pointers, whose layout depends on the version. So this file is
//! compiled once for each library, with the header that belongs to it, and `manx-mongod --library` loads what comes of
//! it. `manx_wiredtiger` is the only name that it exports. Its layout is that of `Calls` in
//! `bench/mongo/src/engine/wiredtiger.rs`; a change of one increases ABI in both.
//!
//! Functions return WiredTiger's errors. A session is one of WiredTiger's with a cursor on the only table, used by one
//! thread at a time. What `search` and `entry` show lasts until the next call.

#include <stdlib.h>
#include <wiredtiger.h>

#define ABI 1

static const char TABLE[] = "table:documents";

struct session {
    WT_SESSION *session;
    WT_CURSOR *cursor;
};

struct bytes {
    const void *data;
    size_t size;
};

static const char *version(void) {
    return wiredtiger_version(NULL, NULL, NULL);
}

static int close_connection(WT_CONNECTION *connection) {
    // The process ends, so its memory need not be freed piece by piece; mongod does the same.
    return connection->close(connection, "leak_memory=true");
}

static int open_connection(const char *home, const char *config, const char *format, WT_CONNECTION **opened) {
    WT_SESSION *session;
    int error = wiredtiger_open(home, NULL, config, opened);
    if (error)
        return error;
    error = (*opened)->open_session(*opened, NULL, NULL, &session);
    if (error == 0)
        error = session->create(session, TABLE, format);
    if (error == 0)
        error = session->close(session, NULL);
    if (error)
        close_connection(*opened);
    return error;
}

static int close_session(struct session *it) {
    int error = it->session->close(it->session, NULL);
    free(it);
    return error;
}

static int open_session(WT_CONNECTION *connection, struct session **opened) {
    struct session *it = malloc(sizeof *it);
    if (it == NULL)
        return WT_PANIC;
    int error = connection->open_session(connection, NULL, "isolation=snapshot", &it->session);
    if (error) {
        free(it);
        return error;
    }
    error = it->session->open_cursor(it->session, TABLE, NULL, "overwrite=true", &it->cursor);
    if (error)
        close_session(it);
    else
        *opened = it;
    return error;
}

static int begin(struct session *it) {
    return it->session->begin_transaction(it->session, "isolation=snapshot");
}

static int commit(struct session *it) {
    return it->session->commit_transaction(it->session, NULL);
}

static int rollback(struct session *it) {
    return it->session->rollback_transaction(it->session, NULL);
}

static void set_key(struct session *it, struct bytes key) {
    const WT_ITEM item = {.data = key.data, .size = key.size};
    it->cursor->set_key(it->cursor, &item);
}

static int value_of(struct session *it, struct bytes *value) {
    WT_ITEM item;
    int error = it->cursor->get_value(it->cursor, &item);
    if (error == 0)
        *value = (struct bytes){item.data, item.size};
    return error;
}

static int search(struct session *it, struct bytes key, struct bytes *value) {
    set_key(it, key);
    int error = it->cursor->search(it->cursor);
    return error ? error : value_of(it, value);
}

static int put(struct session *it, struct bytes key, struct bytes value) {
    const WT_ITEM item = {.data = value.data, .size = value.size};
    set_key(it, key);
    it->cursor->set_value(it->cursor, &item);
    return it->cursor->insert(it->cursor);
}

static int take(struct session *it, struct bytes key) {
    set_key(it, key);
    return it->cursor->remove(it->cursor);
}

/// Goes to the first key that is not below this one.
static int seek(struct session *it, struct bytes key) {
    int order;
    set_key(it, key);
    int error = it->cursor->search_near(it->cursor, &order);
    return error || order >= 0 ? error : it->cursor->next(it->cursor);
}

static int next(struct session *it) {
    return it->cursor->next(it->cursor);
}

static int entry(struct session *it, struct bytes *key, struct bytes *value) {
    WT_ITEM item;
    int error = it->cursor->get_key(it->cursor, &item);
    if (error)
        return error;
    *key = (struct bytes){item.data, item.size};
    return value_of(it, value);
}

static int reset(struct session *it) {
    return it->cursor->reset(it->cursor);
}

static int flush(struct session *it) {
    return it->session->log_flush(it->session, "sync=on");
}

struct calls {
    size_t abi;
    int not_found, rolled_back;
    const char *(*version)(void);
    const char *(*words)(int error);
    int (*open_connection)(const char *home, const char *config, const char *format, WT_CONNECTION **opened);
    int (*close_connection)(WT_CONNECTION *);
    int (*open_session)(WT_CONNECTION *, struct session **opened);
    int (*close_session)(struct session *);
    int (*begin)(struct session *);
    int (*commit)(struct session *);
    int (*rollback)(struct session *);
    int (*search)(struct session *, struct bytes key, struct bytes *value);
    int (*put)(struct session *, struct bytes key, struct bytes value);
    int (*take)(struct session *, struct bytes key);
    int (*seek)(struct session *, struct bytes key);
    int (*next)(struct session *);
    int (*entry)(struct session *, struct bytes *key, struct bytes *value);
    int (*reset)(struct session *);
    int (*flush)(struct session *);
};

const struct calls manx_wiredtiger = {
    .abi = ABI,
    .not_found = WT_NOTFOUND,
    .rolled_back = WT_ROLLBACK,
    .version = version,
    .words = wiredtiger_strerror,
    .open_connection = open_connection,
    .close_connection = close_connection,
    .open_session = open_session,
    .close_session = close_session,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .search = search,
    .put = put,
    .take = take,
    .seek = seek,
    .next = next,
    .entry = entry,
    .reset = reset,
    .flush = flush,
};
