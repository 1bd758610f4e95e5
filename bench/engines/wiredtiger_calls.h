//! WiredTiger's calls as the drivers make them: an error ends the program, or is an operation's outcome.

#ifndef MANX_ENGINES_WIREDTIGER_CALLS_H
#define MANX_ENGINES_WIREDTIGER_CALLS_H

#include "engine.h"
#include "home.h"

#include <wiredtiger.h>

static const char *option_config = "";

#define WIREDTIGER_OPTIONS                                                                                         \
    HOME_OPTION, {                                                                                                 \
        "config", OPTION_TEXT, &option_config, 0, 0, NULL, "more of wiredtiger_open's configuration"               \
    }

static const char TABLE[] = "table:records";
static WT_CONNECTION *connection;

static inline void must(int error, const char *what) {
    if (error)
        fail(1, "%s: %s", what, wiredtiger_strerror(error));
}

static inline const char *version(void) {
    return wiredtiger_version(NULL, NULL, NULL);
}

/// Opens the database for `threads` threads, with an empty table of this format. `more` is
/// configuration that ends with a comma.
static inline void wiredtiger_create(unsigned threads, uint64_t cache_mb, const char *more, const char *format) {
    char config[4096];
    // The dirty limits leave room for the updates of a run: eviction that writes would measure the disk.
    int length = snprintf(config, sizeof config,
                          "create,%scache_size=%lluMB,session_max=%u,eviction_dirty_target=80,"
                          "eviction_dirty_trigger=95,%s%s",
                          more, (unsigned long long)cache_mb, threads + 32,
#if WIREDTIGER_VERSION_MAJOR >= 10
                          "eviction_updates_target=80,eviction_updates_trigger=95,",
#else
                          "",
#endif
                          option_config);
    if (length < 0 || (size_t)length >= sizeof config)
        fail(2, "--config: longer than %zu bytes", sizeof config);
    must(wiredtiger_open(home(), NULL, config, &connection), home());
    WT_SESSION *session;
    must(connection->open_session(connection, NULL, NULL, &session), "open a session");
    must(session->create(session, TABLE, format), "create the table");
    must(session->close(session, NULL), "close the session");
}

/// A session and its cursor on the table.
struct cursor {
    WT_SESSION *session;
    WT_CURSOR *cursor;
};

static inline struct cursor open_cursor(void) {
    struct cursor it;
    must(connection->open_session(connection, NULL, "isolation=snapshot", &it.session), "open a session");
    must(it.session->open_cursor(it.session, TABLE, NULL, "overwrite=true", &it.cursor), "open a cursor");
    return it;
}

#endif
