//! The folder in which a database lies.

#ifndef MANX_ENGINES_HOME_H
#define MANX_ENGINES_HOME_H

#include "options.h"

static const char *option_home = NULL;

/// A row of the options; `when` is when it is required.
#define HOME_OPTION_WHEN(when)                                                                                     \
    {"home", OPTION_TEXT, &option_home, 0, 0, NULL, "an empty folder for the database (" when ")"}
#define HOME_OPTION HOME_OPTION_WHEN("required")

/// The folder, which must have been named.
static inline const char *home(void) {
    if (!option_home)
        fail(2, "--home is missing: an empty folder for the database");
    return option_home;
}

/// The path of a file in it.
static inline void home_file(char path[4096], const char *name) {
    int length = snprintf(path, 4096, "%s/%s", home(), name);
    if (length < 0 || length >= 4096)
        fail(2, "--home: longer than %zu bytes", 4095 - 1 - strlen(name));
}

#endif
