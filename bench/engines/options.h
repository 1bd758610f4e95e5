//! Options of a measured program: one table says what there is, its bounds, and its help.
//!
//! A program lists its options as `struct option_spec` rows; `options_parse` fills the variables that they
//! point to. Anything that cannot be understood ends the program with status 2 and a line that says what,
//! where, and what would have been right; nothing is guessed and nothing is clamped.

#ifndef MANX_ENGINES_OPTIONS_H
#define MANX_ENGINES_OPTIONS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Ends the program: 2 for a bad command line, 1 for what went wrong later.
static inline void fail(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

static inline void fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(status);
}

enum option_kind {
    /// uint64_t within [low, high]
    OPTION_COUNT,
    /// double within [low, high]
    OPTION_NUMBER,
    /// int within [low, high]
    OPTION_SIGNED,
    /// const char *
    OPTION_TEXT,
    /// bool; takes no value
    OPTION_FLAG,
    /// One of `words`, separated by `|`; the variable is a const char *
    OPTION_WORD,
};

struct option_spec {
    /// Without the two dashes. A row without a name ends the table.
    const char *name;
    enum option_kind kind;
    void *into;
    double low, high;
    /// For OPTION_WORD
    const char *words;
    const char *help;
};

static inline bool option_is_word(const char *words, const char *text) {
    size_t length = strlen(text);
    for (const char *at = words; *at;) {
        const char *end = strchrnul(at, '|');
        if ((size_t)(end - at) == length && strncmp(at, text, length) == 0)
            return true;
        at = *end ? end + 1 : end;
    }
    return false;
}

static inline void option_set(const struct option_spec *spec, const char *text) {
    char *end = NULL;
    errno = 0;
    switch (spec->kind) {
    case OPTION_COUNT: {
        unsigned long long value = strtoull(text, &end, 10);
        if (end == text || *end || errno || *text == '-' || (double)value < spec->low || (double)value > spec->high)
            fail(2, "--%s: '%s' is not a whole number from %.0f to %.0f", spec->name, text, spec->low, spec->high);
        *(uint64_t *)spec->into = value;
        return;
    }
    case OPTION_SIGNED: {
        long value = strtol(text, &end, 10);
        if (end == text || *end || errno || (double)value < spec->low || (double)value > spec->high)
            fail(2, "--%s: '%s' is not a whole number from %.0f to %.0f", spec->name, text, spec->low, spec->high);
        *(int *)spec->into = (int)value;
        return;
    }
    case OPTION_NUMBER: {
        double value = strtod(text, &end);
        if (end == text || *end || errno || !(value >= spec->low && value <= spec->high))
            fail(2, "--%s: '%s' is not a number from %g to %g", spec->name, text, spec->low, spec->high);
        *(double *)spec->into = value;
        return;
    }
    case OPTION_WORD:
        if (!option_is_word(spec->words, text))
            fail(2, "--%s: '%s' is not one of %s", spec->name, text, spec->words);
        *(const char **)spec->into = text;
        return;
    case OPTION_TEXT:
        *(const char **)spec->into = text;
        return;
    case OPTION_FLAG:
        *(bool *)spec->into = true;
        return;
    }
}

static inline void options_help(const char *summary, const struct option_spec *const *tables) {
    printf("%s\n\nOptions:\n", summary);
    for (; *tables; tables++)
        for (const struct option_spec *spec = *tables; spec->name; spec++) {
            char left[64];
            const char *value = spec->kind == OPTION_FLAG   ? ""
                                : spec->kind == OPTION_WORD ? spec->words
                                : spec->kind == OPTION_TEXT ? "TEXT"
                                                            : "N";
            snprintf(left, sizeof left, "--%s %s", spec->name, value);
            printf("  %-28s %s\n", left, spec->help);
        }
}

/// Reads `--name VALUE` and `--name=VALUE`. `tables` ends with a null pointer.
static inline void options_parse(int argc, char **argv, const char *summary,
                                 const struct option_spec *const *tables) {
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            options_help(summary, tables);
            exit(0);
        }
        if (strncmp(argument, "--", 2) != 0)
            fail(2, "'%s': not an option; --help lists them", argument);
        const char *name = argument + 2, *value = strchr(name, '=');
        size_t length = value ? (size_t)(value - name) : strlen(name);
        const struct option_spec *found = NULL;
        for (const struct option_spec *const *table = tables; *table && !found; table++)
            for (const struct option_spec *spec = *table; spec->name && !found; spec++)
                if (strlen(spec->name) == length && strncmp(spec->name, name, length) == 0)
                    found = spec;
        if (!found)
            fail(2, "'%s': there is no such option; --help lists them", argument);
        if (found->kind == OPTION_FLAG && value)
            fail(2, "--%s takes no value", found->name);
        if (found->kind != OPTION_FLAG && !value && i + 1 >= argc)
            fail(2, "--%s: a value is missing", found->name);
        option_set(found, found->kind == OPTION_FLAG ? NULL : value ? value + 1 : argv[++i]);
    }
}

/// Reads a list of CPUs such as `0-1,4`, the value of the option `name`.
static inline void cpus_parse(const char *name, const char *text, cpu_set_t *set) {
    CPU_ZERO(set);
    for (const char *at = text; *at;) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end == at)
            fail(2, "--%s: '%s' is not a list of CPUs such as 0-1,4", name, text);
        if (*end == '-') {
            at = end + 1;
            last = strtoul(at, &end, 10);
            if (end == at)
                fail(2, "--%s: '%s' is not a list of CPUs such as 0-1,4", name, text);
        }
        if (last < first || last >= CPU_SETSIZE || (*end && *end != ',') || (*end == ',' && !end[1]))
            fail(2, "--%s: '%s' is not a list of CPUs such as 0-1,4", name, text);
        for (unsigned long cpu = first; cpu <= last; cpu++)
            CPU_SET(cpu, set);
        at = *end ? end + 1 : end;
    }
    if (CPU_COUNT(set) == 0)
        fail(2, "--%s: an empty list; write for example 0-1", name);
}

#endif
