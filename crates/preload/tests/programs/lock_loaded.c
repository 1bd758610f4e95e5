// Callers, and the ways by which they call: constructors and destructors, libraries opened later, each version of each symbol,
// addresses looked up by hand, and the C library itself.
#include "lock_probe.h"

#include "lock_early.h"

#include <dlfcn.h>
#include <spawn.h>

extern char **environ;

pthread_mutex_t held_while_opening = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static const char *deep_path, *plugin_path;

static void constructors_before_ours(void) {
    // Locked by the constructor, on this thread, before anybody could decide anything.
    IS(pthread_mutex_trylock(&early_normal), EBUSY);
    IS(pthread_mutex_unlock(&early_normal), 0);
    IS(pthread_mutex_lock(&early_checking), EDEADLK);
    IS(pthread_mutex_unlock(&early_checking), 0);
    IS(pthread_mutex_unlock(&early_recursive), 0);
    IS(pthread_mutex_unlock(&early_recursive), 0);
    CHECK(early_finish() == 4 * 2000);
    IS(pthread_mutex_unlock(&early_checking), EPERM);
    IS(pthread_mutex_unlock(&early_recursive), EPERM);
}

static pthread_mutex_t at_the_end = PTHREAD_MUTEX_INITIALIZER;
static int left;

static void *hold_at_the_end(void *unused) {
    IS(pthread_mutex_lock(&at_the_end), 0);
    left = 1;
    sleep_us(3000);
    IS(pthread_mutex_unlock(&at_the_end), 0);
    return unused;
}

static void last_words(void) {
    pthread_t thread = start(hold_at_the_end, NULL);
    IS(pthread_mutex_lock(&at_the_end), 0);
    IS(pthread_mutex_unlock(&at_the_end), 0);
    join(thread);
    CHECK(left);
}

static void destructors_after_ours(void) {
    early_arm();
    CHECK(atexit(last_words) == 0);
    // The destructor says 0.
    exit(9);
}

/* The ways to one mutex. */
struct way {
    int (*lock)(pthread_mutex_t *);
    int (*trylock)(pthread_mutex_t *);
    int (*timedlock)(pthread_mutex_t *, const struct timespec *);
    int (*unlock)(pthread_mutex_t *);
};

struct work {
    const struct way *way;
    struct owned *owned;
};

static void *contend(void *argument) {
    const struct work *work = argument;
    pthread_mutex_t *mutex = &work->owned->mutex;
    for (int round = 0; round < 2000; round++) {
        if (round % 16 == 3) {
            while (work->way->trylock(mutex) != 0)
                sched_yield();
        } else if (round % 16 == 5) {
            struct timespec deadline = after_ns(CLOCK_REALTIME, 40000 * MS);
            IS(work->way->timedlock(mutex, &deadline), 0);
        } else {
            IS(work->way->lock(mutex), 0);
        }
        enter(work->owned);
        if (round % 250 == 0)
            sleep_us(2000);
        else if (round % 32 == 0)
            sched_yield();
        leave(work->owned);
        IS(work->way->unlock(mutex), 0);
    }
    return NULL;
}

static const struct way OURS = {pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_timedlock, pthread_mutex_unlock};

/* Two threads by each way, all on one mutex, for each kind of mutex. */
static void contend_by(const struct way *ways, int count) {
    for (int i = 0; i < KIND_COUNT; i++) {
        struct owned owned = {.count = 0};
        init_kind(&owned.mutex, KINDS[i].type);
        pthread_t threads[16];
        struct work work[8];
        CHECK(count <= 8);
        for (int w = 0; w < count; w++) {
            work[w] = (struct work){&ways[w], &owned};
            start_all(&threads[2 * w], 2, contend, &work[w]);
        }
        join_all(threads, 2 * count);
        if (owned.count != 2L * count * 2000)
            FAIL("%s: %ld acquisitions of %d", KINDS[i].name, owned.count, 2 * count * 2000);
        IS(pthread_mutex_destroy(&owned.mutex), 0);
    }
}

static void *open_library(const char *path, int flags) {
    void *library = dlopen(path, flags);
    if (library == NULL)
        FAIL("%s", dlerror());
    return library;
}

static void *found(void *library, const char *name) {
    void *address = dlsym(library, name);
    if (address == NULL)
        FAIL("%s", dlerror());
    return address;
}

static int lies_in(void *address, const char *name) {
    Dl_info info;
    CHECK(dladdr(address, &info) != 0);
    return strstr(info.dli_fname, name) != NULL;
}

static void library_contends(const char *path, int flags, const char *function) {
    void *library = open_library(path, flags);
    for (int i = 0; i < KIND_COUNT; i++) {
        struct owned owned = {.count = 0};
        init_kind(&owned.mutex, KINDS[i].type);
        struct work work = {&OURS, &owned};
        pthread_t threads[6];
        start_all(threads, 3, (routine *)found(library, function), &owned);
        start_all(threads + 3, 3, contend, &work);
        join_all(threads, 6);
        if (owned.count != 6 * 2000)
            FAIL("%s: %ld acquisitions", KINDS[i].name, owned.count);
        IS(elsewhere(pthread_mutex_trylock, &owned.mutex), 0);
        IS(pthread_mutex_destroy(&owned.mutex), 0);
    }
    CHECK(dlclose(library) == 0);
}

static void opened_library_locks(void) {
    library_contends(plugin_path, RTLD_NOW | RTLD_LOCAL, "plugin_contend");
}

static void deep_binding_library_locks_the_same_mutex(void) {
    void *library = open_library(deep_path, RTLD_NOW | RTLD_DEEPBIND);
    // Otherwise this probe would show nothing.
    CHECK(lies_in(((void *(*)(void))found(library, "deep_where"))(), "libc.so"));
    library_contends(deep_path, RTLD_NOW | RTLD_DEEPBIND, "deep_contend");
}

#define OLD(name, version, result, ...) \
    extern result name##_##version(__VA_ARGS__)
#define VERSION(name, tag, version) __asm__(".symver " #name "_" #tag "," #name "@" version)

OLD(pthread_mutex_trylock, v225, int, pthread_mutex_t *);
OLD(pthread_mutex_trylock, v234, int, pthread_mutex_t *);
OLD(pthread_mutex_timedlock, v225, int, pthread_mutex_t *, const struct timespec *);
OLD(pthread_mutex_timedlock, v234, int, pthread_mutex_t *, const struct timespec *);
VERSION(pthread_mutex_trylock, v225, "GLIBC_2.2.5");
VERSION(pthread_mutex_trylock, v234, "GLIBC_2.34");
VERSION(pthread_mutex_timedlock, v225, "GLIBC_2.2.5");
VERSION(pthread_mutex_timedlock, v234, "GLIBC_2.34");

OLD(pthread_cond_init, v225, int, pthread_cond_t *, const pthread_condattr_t *);
OLD(pthread_cond_wait, v225, int, pthread_cond_t *, pthread_mutex_t *);
OLD(pthread_cond_timedwait, v225, int, pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
OLD(pthread_cond_signal, v225, int, pthread_cond_t *);
OLD(pthread_cond_broadcast, v225, int, pthread_cond_t *);
OLD(pthread_cond_destroy, v225, int, pthread_cond_t *);
VERSION(pthread_cond_init, v225, "GLIBC_2.2.5");
VERSION(pthread_cond_wait, v225, "GLIBC_2.2.5");
VERSION(pthread_cond_timedwait, v225, "GLIBC_2.2.5");
VERSION(pthread_cond_signal, v225, "GLIBC_2.2.5");
VERSION(pthread_cond_broadcast, v225, "GLIBC_2.2.5");
VERSION(pthread_cond_destroy, v225, "GLIBC_2.2.5");

OLD(pthread_cond_wait, v232, int, pthread_cond_t *, pthread_mutex_t *);
OLD(pthread_cond_signal, v232, int, pthread_cond_t *);
OLD(pthread_cond_clockwait, v230, int, pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
OLD(pthread_cond_clockwait, v234, int, pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
VERSION(pthread_cond_wait, v232, "GLIBC_2.3.2");
VERSION(pthread_cond_signal, v232, "GLIBC_2.3.2");
VERSION(pthread_cond_clockwait, v230, "GLIBC_2.30");
VERSION(pthread_cond_clockwait, v234, "GLIBC_2.34");

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int open, waiting, way;
    int (*wait)(pthread_cond_t *, pthread_mutex_t *);
    int (*signal)(pthread_cond_t *);
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

/* Waits by another way than the others, if there is one. */
static int (*wait_otherwise)(pthread_cond_t *, pthread_mutex_t *);

static void *pass_gate(void *otherwise) {
    IS(pthread_mutex_lock(&gate.mutex), 0);
    int way = otherwise ? 0 : gate.way++;
    gate.waiting++;
    while (gate.open == 0) {
        struct timespec deadline = after_ns(CLOCK_MONOTONIC, 40000 * MS);
        IS(otherwise                                            ? wait_otherwise(&gate.cond, &gate.mutex)
           : way % 3 == 0 || gate.wait != pthread_cond_wait_v232 ? gate.wait(&gate.cond, &gate.mutex)
           : way % 3 == 1 ? pthread_cond_clockwait_v230(&gate.cond, &gate.mutex, CLOCK_MONOTONIC, &deadline)
                          : pthread_cond_clockwait_v234(&gate.cond, &gate.mutex, CLOCK_MONOTONIC, &deadline),
           0);
    }
    gate.open--;
    IS(pthread_mutex_unlock(&gate.mutex), 0);
    return NULL;
}

/* Six threads wait, every second one by the other way if there is one. None is forgotten by this number of signals, and a
 * broadcast for the rest. */
static void pass_by(int rounds, int signals) {
    for (int round = 0; round < rounds; round++) {
        gate.waiting = gate.way = 0;
        pthread_t threads[6];
        for (int i = 0; i < 6; i++)
            threads[i] = start(pass_gate, i % 2 ? (void *)wait_otherwise : NULL);
        until_under(&gate.mutex, &gate.waiting, 6);
        for (int left = 6, one; left > 0; left -= one ? 1 : left) {
            one = left > 6 - signals;
            IS(pthread_mutex_lock(&gate.mutex), 0);
            gate.open += one ? 1 : left;
            IS(one ? gate.signal(&gate.cond) : pthread_cond_broadcast(&gate.cond), 0);
            IS(pthread_mutex_unlock(&gate.mutex), 0);
        }
        join_all(threads, 6);
    }
}

static void pass_both_ways(int rounds) { pass_by(rounds, 4); }

static void pass_by_ones(int rounds) { pass_by(rounds, 6); }

static void every_symbol_version(void) {
    const struct way ways[] = {
        OURS,
        {pthread_mutex_lock, pthread_mutex_trylock_v225, pthread_mutex_timedlock_v225, pthread_mutex_unlock},
        {pthread_mutex_lock, pthread_mutex_trylock_v234, pthread_mutex_timedlock_v234, pthread_mutex_unlock},
    };
    contend_by(ways, 3);
    gate.wait = pthread_cond_wait_v232;
    gate.signal = pthread_cond_signal_v232;
    pass_by_ones(20);
}

static void old_condition_variables(void) {
    IS(pthread_cond_init_v225(&gate.cond, NULL), 0);
    gate.wait = pthread_cond_wait_v225;
    gate.signal = pthread_cond_signal_v225;
    pass_by_ones(20);
    gate.signal = pthread_cond_broadcast_v225;
    pass_by_ones(5);
    IS(pthread_mutex_lock(&gate.mutex), 0);
    struct timespec deadline = after_ns(CLOCK_REALTIME, 3 * MS);
    int result;
    while ((result = pthread_cond_timedwait_v225(&gate.cond, &gate.mutex, &deadline)) == 0)
        CHECK(!is_over(CLOCK_REALTIME, &deadline));
    IS(result, ETIMEDOUT);
    IS(pthread_mutex_unlock(&gate.mutex), 0);
    IS(pthread_cond_destroy_v225(&gate.cond), 0);
}

static void looked_up_explicitly(void) {
    void *libc = open_library("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *from[] = {RTLD_DEFAULT, RTLD_NEXT, libc};
    struct way ways[5] = {OURS};
    for (int i = 0; i < 3; i++)
        ways[i + 1] = (struct way){
            (int (*)(pthread_mutex_t *))found(from[i], "pthread_mutex_lock"),
            (int (*)(pthread_mutex_t *))found(from[i], "pthread_mutex_trylock"),
            (int (*)(pthread_mutex_t *, const struct timespec *))found(from[i], "pthread_mutex_timedlock"),
            (int (*)(pthread_mutex_t *))found(from[i], "pthread_mutex_unlock"),
        };
    CHECK(lies_in((void *)ways[3].lock, "libc.so"));
    ways[4] = ways[3];
    ways[4].trylock = (int (*)(pthread_mutex_t *))dlvsym(RTLD_DEFAULT, "pthread_mutex_trylock", "GLIBC_2.2.5");
    ways[4].unlock = (int (*)(pthread_mutex_t *))dlvsym(RTLD_NEXT, "pthread_mutex_unlock", "GLIBC_2.2.5");
    CHECK(ways[4].trylock != NULL && ways[4].unlock != NULL);
    contend_by(ways, 5);
    // All by addresses that were asked of the C library.
    gate.wait = (int (*)(pthread_cond_t *, pthread_mutex_t *))found(libc, "pthread_cond_wait");
    gate.signal = (int (*)(pthread_cond_t *))found(libc, "pthread_cond_signal");
    pass_by_ones(20);
}

static void signals_reach_waiters_of_a_deep_binding_library(void) {
    void *library = open_library(deep_path, RTLD_NOW | RTLD_DEEPBIND);
    CHECK(lies_in(((void *(*)(void))found(library, "deep_where"))(), "libc.so"));
    gate.wait = pthread_cond_wait;
    gate.signal = pthread_cond_signal;
    wait_otherwise = (int (*)(pthread_cond_t *, pthread_mutex_t *))found(library, "deep_wait");
    pass_both_ways(30);
    CHECK(pthread_cond_destroy(&gate.cond) == 0);
}

static void conditions_looked_up_explicitly_are_the_same(void) {
    void *libc = open_library("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    gate.wait = pthread_cond_wait;
    gate.signal = pthread_cond_signal;
    wait_otherwise = (int (*)(pthread_cond_t *, pthread_mutex_t *))found(libc, "pthread_cond_wait");
    pass_both_ways(20);
    wait_otherwise = (int (*)(pthread_cond_t *, pthread_mutex_t *))dlvsym(libc, "pthread_cond_wait", "GLIBC_2.3.2");
    CHECK(wait_otherwise != NULL);
    gate.signal = (int (*)(pthread_cond_t *))found(libc, "pthread_cond_signal");
    pass_both_ways(20);
    CHECK(dlsym(libc, "pthread_cond_nonsense") == NULL && dlerror() != NULL);
}

static void locked_before_dlopen_unlocked_after(void) {
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < KIND_COUNT; i++) {
            struct owned owned = {.count = 0};
            init_kind(&owned.mutex, KINDS[i].type);
            IS(pthread_mutex_lock(&owned.mutex), 0);
            IS(pthread_mutex_lock(&held_while_opening), 0);
            struct work work = {&OURS, &owned};
            pthread_t thread = 0;
            if (round < 2)
                thread = start(contend, &work);
            void *plugin = open_library(plugin_path, RTLD_NOW | (round % 2 ? RTLD_GLOBAL : RTLD_LOCAL));
            CHECK(dlsym(plugin, "plugin_where") != NULL);
            IS(pthread_mutex_unlock(&held_while_opening), 0);
            IS(pthread_mutex_unlock(&owned.mutex), 0);
            CHECK(dlclose(plugin) == 0);
            if (round < 2) {
                join(thread);
                CHECK(owned.count == 2000);
            }
            IS(elsewhere(pthread_mutex_trylock, &owned.mutex), 0);
        }
}

static FILE *file;

static void *use_the_c_library(void *number) {
    size_t me = (size_t)number;
    for (int round = 0; round < 200; round++) {
        flockfile(file);
        fprintf(file, "%zu", me);
        fprintf(file, " %zu\n", me);
        funlockfile(file);
        char *text = NULL;
        for (size_t bytes = 1; bytes < 3000; bytes = bytes * 2 + me) {
            text = realloc(text, bytes);
            CHECK(text != NULL);
            memset(text, (int)me, bytes);
        }
        free(text);
        if (round % 20 == 0) {
            void *plugin = open_library(plugin_path, RTLD_NOW);
            CHECK(dlsym(plugin, "plugin_contend") != NULL && dlclose(plugin) == 0);
        }
        if (round % 100 == 50) {
            pid_t pid;
            char *arguments[] = {"true", NULL};
            CHECK(posix_spawnp(&pid, "true", NULL, NULL, arguments, environ) == 0);
            int status;
            CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        }
        time_t now = round * 86400L;
        struct tm broken;
        CHECK(localtime_r(&now, &broken) != NULL && getenv("PATH") != NULL);
    }
    return NULL;
}

static void the_c_librarys_own_locks(void) {
    file = tmpfile();
    CHECK(file != NULL);
    pthread_t threads[8];
    for (size_t i = 0; i < 8; i++)
        threads[i] = start(use_the_c_library, (void *)i);
    join_all(threads, 8);
    rewind(file);
    size_t first, second, lines = 0;
    while (fscanf(file, "%zu %zu\n", &first, &second) == 2) {
        CHECK(first == second);
        lines++;
    }
    CHECK(lines == 8 * 200);
}

int main(int arguments, char **argument) {
    static const struct probe probes[] = {
        P(constructors_before_ours),
        P(destructors_after_ours),
        P(opened_library_locks),
        P(deep_binding_library_locks_the_same_mutex),
        P(every_symbol_version),
        P(old_condition_variables),
        P(looked_up_explicitly),
        P(signals_reach_waiters_of_a_deep_binding_library),
        P(conditions_looked_up_explicitly_are_the_same),
        P(locked_before_dlopen_unlocked_after),
        P(the_c_librarys_own_locks),
    };
    if (arguments == 4) {
        deep_path = argument[2];
        plugin_path = argument[3];
    }
    return run_probe(probes, sizeof probes / sizeof *probes, arguments, argument);
}
