/* Libraries are opened while threads run. The first argument is the probe, the others are libraries.
 *
 * | probe | libraries | |
 * | --- | --- | --- |
 * | gives | gives | its constructor gives its loops to threads that are there already, a thousand times |
 * | debugged | gives | the same, and until a debugger has come and gone |
 * | many | copies of gives | threads open and close them at once, while others are created |
 * | nested | nests, gives | the constructor of the first opens the second |
 * | fails | lacks | it cannot be relocated, a thousand times; memory must not grow |
 * | namespace | gives | is opened in a namespace of its own |
 * | forks | copies of gives | threads open and close them while the process forks; its children create threads |
 * | callback | copies of gives | are opened in a callback of dl_iterate_phdr, for which another thread waits that looks |
 * | small | gives | is opened on a small stack |
 * | traced | gives | is opened after a tracer has made the loader's text what it was */
#include "check.h"
#include "loader.h"
#include "resident.h"
#include "threads.h"

#include <link.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

typedef void loop(volatile int *);

static char **libraries;
static int count;

static void end(pthread_t thread) { CHECK(pthread_join(thread, NULL) == 0); }

/* The row's first instruction has become a jump. */
static int is_repaired(loop *row) { return *(volatile unsigned char *)row == 0xe9; }

static void *must_open(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    return library;
}

static loop *row_of(void *library) {
    loop *row = (loop *)dlsym(library, "wait_by_row");
    CHECK(row != NULL);
    return row;
}

/* Threads of a pool, one for each loop. */
enum { WAYS = 3 };
static loop *volatile given[WAYS];
static volatile int words[WAYS], waiting[WAYS], over;
static int takes, must_be_repaired = 1;

static void *worker(void *argument) {
    long n = (long)argument;
    for (;;) {
        while (given[n] == NULL) {
            if (over) return NULL;
            sched_yield();
        }
        waiting[n] = 1;
        given[n](&words[n]);
        given[n] = NULL;
    }
}

/* Called by the library's constructor. */
void take_loops(loop **loops) {
    takes++;
    if (must_be_repaired) CHECK(is_repaired(loops[1]));
    for (int n = 0; n < WAYS && over >= 0; n++) given[n] = loops[n];
}

static void set(int n) {
    while (!waiting[n]) sched_yield();
    waiting[n] = 0;
    words[n] = 1;
    while (given[n] != NULL) sched_yield();
    words[n] = 0;
}

/* Until `ends` says so after a round, and for a thousand rounds at least. */
static void give(int (*ends)(void)) {
    pthread_t threads[WAYS];
    for (long n = 0; n < WAYS; n++) threads[n] = start(worker, (void *)n);
    for (int round = 0, last = 0; !last; round++) {
        void *library = must_open(libraries[0]);
        CHECK(takes == round + 1);
        for (int n = 0; n < WAYS; n++) set((n + round) % WAYS);
        last = ends() && round >= 999;
        if (!last) CHECK(dlclose(library) == 0);
    }
    over = 1;
    for (int n = 0; n < WAYS; n++) end(threads[n]);
}

static int at_once(void) { return 1; }

static void gives(void) { give(at_once); }

/* Whether a debugger has come, and gone. */
static int is_left(void) {
    static int came;
    char line[64];
    int tracer = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file)) sscanf(line, "TracerPid: %d", &tracer);
    fclose(file);
    came |= tracer != 0;
    return came && tracer == 0;
}

static void debugged(void) { give(is_left); }

static volatile int stop;

static void *creates(void *unused) {
    while (!stop) one_thread();
    return unused;
}

static void *setter(void *word) {
    usleep(500);
    *(volatile int *)word = 1;
    return NULL;
}

static void *opens_and_closes(void *path) {
    for (int round = 0; round < 100 && !stop; round++) {
        void *library = must_open(path);
        loop *row = row_of(library);
        CHECK(is_repaired(row));
        volatile int word = 0;
        pthread_t thread = start(setter, (void *)&word);
        row(&word);
        end(thread);
        if (round < 99) CHECK(dlclose(library) == 0);
    }
    return NULL;
}

static void many(void) {
    pthread_t threads[8], creator = start(creates, NULL);
    CHECK(count <= 8);
    for (int n = 0; n < count; n++) threads[n] = start(opens_and_closes, libraries[n]);
    for (int n = 0; n < count; n++) end(threads[n]);
    stop = 1;
    end(creator);
}

static void fails(void) {
    long before = 0;
    for (int round = 0; round < 1000; round++) {
        CHECK(dlopen(libraries[0], RTLD_NOW) == NULL);
        CHECK(dlopen("/nowhere/libnothing.so", RTLD_NOW) == NULL);
        if (round == 100) before = resident_kib();
    }
    long grown = resident_kib() - before;
    if (grown > 600) fprintf(stderr, "grown by %ld KiB\n", grown);
    CHECK(grown <= 600);
}

static void in_a_namespace(void) {
    for (int round = 0; round < 5; round++) {
        void *library = dlmopen(LM_ID_NEWLM, libraries[0], RTLD_NOW);
        if (library == NULL) fprintf(stderr, "%s\n", dlerror());
        CHECK(library != NULL);
        volatile int word = 1;
        row_of(library)(&word);
        CHECK(dlclose(library) == 0);
    }
    CHECK(is_repaired(row_of(must_open(libraries[0]))));
}

static void forks(void) {
    pthread_t threads[8];
    CHECK(count <= 8);
    for (int n = 0; n < count; n++) threads[n] = start(opens_and_closes, libraries[n]);
    for (int round = 0; round < 200; round++) {
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            alarm(20);
            one_thread();
            CHECK(dlsym(RTLD_DEFAULT, "malloc") != NULL);
            _exit(0);
        }
        int status;
        CHECK(waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    stop = 1;
    for (int n = 0; n < count; n++) end(threads[n]);
}

static volatile pid_t looking;

static void *looks(void *unused) {
    looking = (pid_t)syscall(SYS_gettid);
    while (!stop) CHECK(dlsym(RTLD_DEFAULT, "malloc") != NULL);
    return unused;
}

static volatile unsigned char *place;

static int opens_all(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info, (void)size, (void)unused;
    /* Each look asks the loader now: the other thread comes to where it wants the lock that is held here. */
    write_text(place, 0xc3);
    until_it_sleeps(&looking);
    write_text(place, 0xe9);
    for (int n = 0; n < count; n++) must_open(libraries[n]);
    return 1;
}

static void callback(void) {
    place = rendezvous();
    must_be_repaired = 0;
    pthread_t other = start(looks, NULL);
    CHECK(dl_iterate_phdr(opens_all, NULL) == 1);
    stop = 1;
    end(other);
    one_thread();
    volatile int word = 1;
    for (int n = 0; n < count; n++) ((loop *)dlsym(must_open(libraries[n]), "wait_by_whole"))(&word);
}

static void *opens(void *path) {
    CHECK(is_repaired(row_of(must_open(path))));
    return NULL;
}

static void small(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 20 << 10) == 0);
    CHECK(pthread_create(&thread, &attributes, opens, libraries[0]) == 0);
    end(thread);
}

static void traced(void) {
    must_be_repaired = 0;
    write_text(rendezvous(), 0xc3);
    void *library = must_open(libraries[0]);
    volatile int word = 0;
    loop *waits = (loop *)dlsym(library, "wait_by_whole");
    CHECK(waits != NULL);
    pthread_t thread = start(setter, (void *)&word);
    waits(&word);
    end(thread);
}

const char *nested;

static void nests(void) {
    nested = libraries[1];
    must_open(libraries[0]);
    CHECK(takes == 1);
}

int main(int arguments, char **argument) {
    static const struct { const char *name; void (*probe)(void); } probes[] = {
        {"gives", gives}, {"debugged", debugged}, {"many", many}, {"nested", nests}, {"fails", fails}, {"namespace", in_a_namespace},
        {"forks", forks}, {"callback", callback}, {"small", small}, {"traced", traced},
    };
    CHECK(arguments >= 3);
    libraries = argument + 2, count = arguments - 2;
    /* A thread that stays: from here on the program is not alone. */
    pthread_t other = start((void *(*)(void *))pause, NULL);
    if (strcmp(argument[1], "gives") != 0 && strcmp(argument[1], "debugged") != 0) over = -1;
    for (size_t n = 0; n < sizeof probes / sizeof *probes; n++) {
        if (strcmp(argument[1], probes[n].name) == 0) {
            probes[n].probe();
            CHECK(pthread_cancel(other) == 0 && pthread_join(other, NULL) == 0);
            return 0;
        }
    }
    CHECK(!"a probe");
}
