//! A measured program: threads that think, then operate, and are timed around the operation.
//!
//! An engine says how to open itself and how one thread performs one operation; this file does the rest:
//! options, CPUs, niceness, the common start, the clock, and one JSON object on standard output.
//!
//! What is measured is **service latency**: from just before the operation to just after it, repetitions
//! after a write conflict included, think time excluded. The loop is closed, so an operation that stalls
//! delays those that its thread would have begun meanwhile; the maximum, the per-second histograms and
//! the slowest thread's share show what a percentile over operations then hides.
//!
//! 1. An operation counts in the second in which it *began*, and if it began within the measured time. All
//!    that began are waited for, so the longest stalls are never cut off.
//! 2. Each thread counts into its own histogram and adds it to its class's shared one when a new second
//!    begins, outside of what is timed. Nothing is allocated after the start.
//! 3. An engine that keeps data checks it at the end. One that lost any fails and prints no result: the
//!    throughput of a broken run is worth nothing.
//! 4. A thread is `boosted` for the whole run if it is one of the first `--boost` threads, also outside the
//!    window in which its niceness really differs; `normal` otherwise. It is `little` if the CPU that `--pin` keeps
//!    it on is one of `--little`, and `big` otherwise.
//! 5. With `--little` each operation begins and ends with a mutex of its thread's own. A library that slows threads
//!    of little CPUs can do so when they lock only: there the thread pays for what it did, so that an operation
//!    which locks nothing is neither spared nor left for the next one to pay.

#ifndef MANX_ENGINES_ENGINE_H
#define MANX_ENGINES_ENGINE_H

#include "options.h"

#include "classes.h"
#include "histogram.h"
#include "random.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/// How an operation ended.
enum outcome { DONE, FAILED };

/// One thread's view while it runs.
struct worker {
    /// The engine's own, from `struct engine::session`
    void *session;
    struct random random;
    /// Repetitions after a write conflict
    uint64_t conflicts;
    unsigned index;
    bool boosted, little;

    // What follows belongs to this file.
    uint64_t operations, errors;
    /// Of the operations, those that took longer than `--slo-us`
    uint64_t missed;
    /// Nobody else's (Rule 5)
    pthread_mutex_t own;
    _Atomic pid_t thread_id;
    pthread_t handle;
    struct histogram *histogram;
};

struct engine {
    const char *name;
    const char *summary;
    /// Further options, or null
    const struct option_spec *options;
    /// What runs, for the result; called after `open`
    const char *(*version)(void);
    /// Opens and loads; null if there is nothing to do
    void (*open)(unsigned threads);
    /// Prepares one thread; may return null
    void *(*session)(struct worker *worker);
    enum outcome (*operate)(struct worker *worker);
    /// Ends one thread's session, or null
    void (*end)(struct worker *worker);
    /// Called when all threads have ended: ends the program if an update was lost or a record is broken, and
    /// returns how many updates it has accounted for, those of the warm-up included. Null: nothing to check
    uint64_t (*verify)(void);
    /// Closes what `open` opened, or null
    void (*close)(void);
};

/// Manx's epochs, if it is in the process.
extern void manx_epoch_start(uint64_t id) __attribute__((weak));
extern void manx_epoch_end(uint64_t id, uint64_t slo_ns) __attribute__((weak));
/// A competitor's epochs, if its locks are in the process: then it is told, and Manx is not.
extern void rival_epoch_start(uint64_t id) __attribute__((weak));
extern void rival_epoch_end(uint64_t id, uint64_t slo_ns) __attribute__((weak));

static uint64_t option_threads = 8, option_boost = 0, option_seed = 1;
static double option_seconds = 5, option_warmup = 1, option_think_us = 0, option_slo_us = 0;
static double option_boost_from = 0, option_boost_to = 0;
static int option_nice = -20, option_others = 0;
static const char *option_cpus = NULL;

static const struct option_spec engine_options[] = {
    {"threads", OPTION_COUNT, &option_threads, 1, 4096, NULL, "session threads (8)"},
    {"seconds", OPTION_NUMBER, &option_seconds, 0.05, 3600, NULL, "measured time (5)"},
    {"warm-up", OPTION_NUMBER, &option_warmup, 0, 3600, NULL, "seconds before it, not measured (1)"},
    {"think-us", OPTION_NUMBER, &option_think_us, 0, 1e7, NULL,
     "mean of the exponential think time, in microseconds; 0: closed loop (0)"},
    {"slo-us", OPTION_NUMBER, &option_slo_us, 0, 1e9, NULL,
     "mark each operation as epoch 1 with this latency target at p99, in microseconds; 0: mark none (0)"},
    {"cpus", OPTION_TEXT, &option_cpus, 0, 0, NULL, "the CPUs to run on, such as 0-1 (all)"},
    {"pin", OPTION_FLAG, &option_pin, 0, 0, NULL, "keep each thread on one of --cpus, in turn"},
    {"little", OPTION_TEXT, &option_little, 0, 0, NULL,
     "with --pin: the slow ones of --cpus, whose threads are counted apart (none)"},
    {"boost", OPTION_COUNT, &option_boost, 0, 4096, NULL, "how many of the threads get --nice (0)"},
    {"nice", OPTION_SIGNED, &option_nice, -20, 19, NULL, "their niceness (-20)"},
    {"others", OPTION_SIGNED, &option_others, -20, 19, NULL, "niceness of the other threads then (0)"},
    {"boost-from", OPTION_NUMBER, &option_boost_from, 0, 3600, NULL,
     "second of the measured time at which the boost begins; with --boost-to (from the start)"},
    {"boost-to", OPTION_NUMBER, &option_boost_to, 0, 3600, NULL, "second at which it ends (never)"},
    {"seed", OPTION_COUNT, &option_seed, 0, 1e18, NULL, "of keys and think times (1)"},
    {0},
};

/// What threads are counted by.
enum { BOOSTED = 1, LITTLE = 2, KINDS = 4 };

static const struct engine *engine;
static struct worker *workers;
static pthread_barrier_t engine_barrier;
static uint64_t measure_from_ns, measure_to_ns;
static unsigned measured_seconds;
/// [second][kind], where a thread's kind is the sum of BOOSTED and LITTLE, if it is that
static struct shared_histogram (*second_histograms)[KINDS];
static char first_error[256];
static atomic_flag first_error_taken = ATOMIC_FLAG_INIT;

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void sleep_until_ns(uint64_t at_ns) {
    struct timespec t = {(time_t)(at_ns / 1000000000u), (long)(at_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/// Keeps the text of the first error for the result.
static inline void note_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void note_error(const char *format, ...) {
    if (atomic_flag_test_and_set(&first_error_taken))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(first_error, sizeof first_error, format, arguments);
    va_end(arguments);
}

/// Zeroed, touched, at a cache line's start; ends the program if there is no memory.
static inline void *allocate(size_t count, size_t size) {
    size_t bytes = count * size;
    void *memory = NULL;
    int error = posix_memalign(&memory, 64, bytes);
    if (error)
        fail(1, "%zu bytes of memory: %s", bytes, strerror(error));
    memset(memory, 0, bytes);
    return memory;
}

static inline void set_niceness(pid_t thread_id, int niceness) {
    if (setpriority(PRIO_PROCESS, (id_t)thread_id, niceness) != 0)
        fail(1, "niceness %d: %s; it needs root or CAP_SYS_NICE", niceness, strerror(errno));
}

static inline bool boost_is_windowed(void) {
    return option_boost_to > 0;
}

static inline int own_niceness(const struct worker *worker) {
    return worker->boosted ? option_nice : option_others;
}

static inline unsigned kind(const struct worker *worker) {
    return (worker->boosted ? BOOSTED : 0) + (worker->little ? LITTLE : 0);
}

/// What the thread did until now is paid for (Rule 5).
static inline void pay(struct worker *worker) {
    if (option_little) {
        pthread_mutex_lock(&worker->own);
        pthread_mutex_unlock(&worker->own);
    }
}

static void *worker_main(void *argument) {
    struct worker *self = argument;
    if (option_pin)
        class_pin(self->index);
    const uint64_t slo_ns = (uint64_t)(option_slo_us * 1000);
    self->session = engine->session ? engine->session(self) : NULL;
    atomic_store(&self->thread_id, (pid_t)syscall(SYS_gettid));
    if (option_boost && !boost_is_windowed() && own_niceness(self) != 0)
        set_niceness(0, own_niceness(self));
    pthread_barrier_wait(&engine_barrier); // ready
    pthread_barrier_wait(&engine_barrier); // the start has been set

    unsigned second = 0;
    for (;;) {
        if (option_think_us > 0) {
            uint64_t until = now_ns() + (uint64_t)(random_exponential(&self->random, option_think_us) * 1000);
            sleep_until_ns(until < measure_to_ns ? until : measure_to_ns);
        }
        pay(self);
        uint64_t begin = now_ns();
        if (begin >= measure_to_ns)
            break;
        if (slo_ns && rival_epoch_start)
            rival_epoch_start(1);
        else if (slo_ns && manx_epoch_start)
            manx_epoch_start(1);
        enum outcome outcome = engine->operate(self);
        pay(self);
        if (slo_ns && rival_epoch_end)
            rival_epoch_end(1, slo_ns);
        else if (slo_ns && manx_epoch_end)
            manx_epoch_end(1, slo_ns);
        if (outcome != DONE) { // also before the measured time: what is broken is broken
            self->errors++;
            if (self->errors > 1000)
                break; // the engine has failed for good; the result says so
            continue;
        }
        if (begin < measure_from_ns)
            continue;
        uint64_t end = now_ns();
        unsigned began_in = (unsigned)((begin - measure_from_ns) / 1000000000u);
        if (began_in != second) {
            histogram_give(self->histogram, &second_histograms[second][kind(self)]);
            second = began_in;
        }
        histogram_record(self->histogram, end - begin);
        self->operations++;
        if (slo_ns && end - begin > slo_ns)
            self->missed++;
    }
    histogram_give(self->histogram, &second_histograms[second][kind(self)]);
    if (engine->end)
        engine->end(self);
    return NULL;
}

/// Changes the threads' niceness at the window's edges. A process that may not raise a priority cannot
/// take back what `--others` lowered either: it then stays so until the end.
static inline void boost_in_window(void) {
    uint64_t from = measure_from_ns + (uint64_t)(option_boost_from * 1e9);
    uint64_t to = measure_from_ns + (uint64_t)(option_boost_to * 1e9);
    sleep_until_ns(from < measure_to_ns ? from : measure_to_ns);
    for (unsigned i = 0; i < option_threads; i++)
        if (own_niceness(&workers[i]) != 0)
            set_niceness(workers[i].thread_id, own_niceness(&workers[i]));
    sleep_until_ns(to < measure_to_ns ? to : measure_to_ns);
    for (unsigned i = 0; i < option_threads; i++)
        setpriority(PRIO_PROCESS, (id_t)workers[i].thread_id, 0); // gone already, if the run has ended
}

static inline void print_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(out, "\\u%04x", *text);
        else
            fputc(*text, out);
    fputc('"', out);
}

static inline void print_options(FILE *out, const struct option_spec *const *tables) {
    const char *separator = "";
    fputs("\"options\":{", out);
    for (; *tables; tables++)
        for (const struct option_spec *spec = *tables; spec->name; spec++, separator = ",") {
            fprintf(out, "%s\"%s\":", separator, spec->name);
            switch (spec->kind) {
            case OPTION_COUNT:
                fprintf(out, "%llu", (unsigned long long)*(uint64_t *)spec->into);
                break;
            case OPTION_SIGNED:
                fprintf(out, "%d", *(int *)spec->into);
                break;
            case OPTION_NUMBER:
                fprintf(out, "%.17g", *(double *)spec->into);
                break;
            case OPTION_FLAG:
                fputs(*(bool *)spec->into ? "true" : "false", out);
                break;
            case OPTION_TEXT:
            case OPTION_WORD:
                if (*(const char **)spec->into)
                    print_text(out, *(const char **)spec->into);
                else
                    fputs("null", out);
            }
        }
    fputs("},", out);
}

static inline void print_result(FILE *out, const struct option_spec *const *tables, uint64_t verified) {
    enum { ALL, NORMAL, BOOST, SLOW, FAST, CLASSES };
    static const char *const names[CLASSES] = {"all", "normal", "boosted", "little", "big"};
    struct shared_histogram *classes = allocate(CLASSES, sizeof *classes);
    for (int i = 0; i < CLASSES; i++)
        shared_histogram_clear(&classes[i]);
    for (unsigned s = 0; s < measured_seconds; s++)
        for (int kind = 0; kind < KINDS; kind++) {
            struct shared_histogram *part = &second_histograms[s][kind];
            shared_histogram_add(&classes[ALL], part);
            shared_histogram_add(&classes[kind & BOOSTED ? BOOST : NORMAL], part);
            shared_histogram_add(&classes[kind & LITTLE ? SLOW : FAST], part);
        }
    uint64_t errors = 0, conflicts = 0, slowest = UINT64_MAX, fastest = 0;
    for (unsigned i = 0; i < option_threads; i++) {
        errors += workers[i].errors;
        conflicts += workers[i].conflicts;
        slowest = workers[i].operations < slowest ? workers[i].operations : slowest;
        fastest = workers[i].operations > fastest ? workers[i].operations : fastest;
    }
    fputs("{\"format\":1,\"engine\":", out);
    print_text(out, engine->name);
    fputs(",\"version\":", out);
    print_text(out, engine->version ? engine->version() : "");
    fputc(',', out);
    print_options(out, tables);
    fprintf(out, "\"verified_updates\":%llu,", (unsigned long long)verified);
    fprintf(out, "\"throughput_per_s\":%.3f,\"errors\":%llu,\"conflicts\":%llu,\"first_error\":",
            (double)classes[ALL].count / option_seconds, (unsigned long long)errors, (unsigned long long)conflicts);
    print_text(out, first_error);
    // Against the mean over all threads, and against the fastest one.
    double mean = (double)classes[ALL].count / (double)option_threads;
    fprintf(out, ",\"slowest_of_mean\":%.6f,\"slowest_of_fastest\":%.6f,\"threads\":[",
            mean > 0 ? (double)slowest / mean : 0, fastest ? (double)slowest / (double)fastest : 0);
    for (unsigned i = 0; i < option_threads; i++) {
        fprintf(out, "%s{\"boosted\":%s,\"little\":%s,\"operations\":%llu", i ? "," : "",
                workers[i].boosted ? "true" : "false", workers[i].little ? "true" : "false",
                (unsigned long long)workers[i].operations);
        if (option_slo_us > 0)
            fprintf(out, ",\"missed\":%llu", (unsigned long long)workers[i].missed);
        fputc('}', out);
    }
    fputc(']', out);
    // Without --little there is one class of CPUs, and nothing to tell apart.
    for (int i = 0; i < (option_little ? CLASSES : SLOW); i++) {
        fprintf(out, ",\"%s\":", names[i]);
        histogram_print(out, &classes[i]);
    }
    fputs(",\"seconds\":[", out);
    for (unsigned s = 0; s < measured_seconds; s++) {
        for (int boosted = 0; boosted < 2; boosted++) {
            struct shared_histogram *both = &second_histograms[s][boosted];
            shared_histogram_add(both, &second_histograms[s][boosted + LITTLE]);
            fputs(boosted ? ",\"boosted\":" : s ? ",{\"normal\":" : "{\"normal\":", out);
            histogram_print(out, both);
        }
        fputc('}', out);
    }
    fputs("]}\n", out);
    free(classes);
}

static inline void engine_check(void) {
    if (option_boost > option_threads)
        fail(2, "--boost %llu: there are only %llu threads", (unsigned long long)option_boost,
             (unsigned long long)option_threads);
    if (option_boost_from > 0 && !boost_is_windowed())
        fail(2, "--boost-from: --boost-to is missing");
    if (boost_is_windowed() && (option_boost_to <= option_boost_from || option_boost_to > option_seconds))
        fail(2, "--boost-to %g: not between --boost-from %g and --seconds %g", option_boost_to, option_boost_from,
             option_seconds);
}

/// Runs an engine and prints its result.
static inline void engine_run(int argc, char **argv, const struct engine *which, FILE *out) {
    const struct option_spec *const tables[] = {engine_options, which->options, NULL};
    engine = which;
    options_parse(argc, argv, which->summary, tables);
    engine_check();
    classes_init(option_cpus);
    unsigned threads = (unsigned)option_threads;
    measured_seconds = (unsigned)ceil(option_seconds);
    second_histograms = allocate(measured_seconds, sizeof *second_histograms);
    for (unsigned s = 0; s < measured_seconds; s++)
        for (int kind = 0; kind < KINDS; kind++)
            shared_histogram_clear(&second_histograms[s][kind]);
    if (engine->open)
        engine->open(threads);

    workers = allocate(threads, sizeof *workers);
    pthread_barrier_init(&engine_barrier, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        workers[i].index = i;
        workers[i].boosted = i < option_boost;
        workers[i].little = class_is_little(i);
        pthread_mutex_init(&workers[i].own, NULL);
        workers[i].random.state = mix64(option_seed) + mix64(i + 1);
        workers[i].histogram = allocate(1, sizeof(struct histogram));
        histogram_clear(workers[i].histogram);
        int error = pthread_create(&workers[i].handle, NULL, worker_main, &workers[i]);
        if (error)
            fail(1, "thread %u of %u: %s", i + 1, threads, strerror(error));
    }
    if (option_boost && boost_is_windowed())
        setpriority(PRIO_PROCESS, 0, -20); // this thread alone, if it may: it sleeps until the window's edges
    pthread_barrier_wait(&engine_barrier);
    measure_from_ns = now_ns() + (uint64_t)(option_warmup * 1e9);
    measure_to_ns = measure_from_ns + (uint64_t)(option_seconds * 1e9);
    pthread_barrier_wait(&engine_barrier);
    if (option_boost && boost_is_windowed())
        boost_in_window();
    for (unsigned i = 0; i < threads; i++)
        pthread_join(workers[i].handle, NULL);

    print_result(out, tables, engine->verify ? engine->verify() : 0);
    if (engine->close)
        engine->close();
    if (fflush(out) != 0)
        fail(1, "the output: %s", strerror(errno));
}

/// The `main` of every engine.
static inline int engine_main(int argc, char **argv, const struct engine *which) {
    engine_run(argc, argv, which, stdout);
    return 0;
}

#endif
