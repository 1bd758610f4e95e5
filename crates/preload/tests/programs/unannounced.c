// Children that nobody was told of: `_Fork` and a bare `clone` run no handlers of pthread_atfork.
//
// | argument | what the child finds, and does |
// | --- | --- |
// | searching | another thread was in the middle of a search; it asks for a symbol, and creates a thread |
// | owner | it locks mutexes of each kind; their owner is the child |
// | waited_for | another thread waited for a mutex; it unlocks and locks that |
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern pid_t _Fork(void) __attribute__((weak));

static pid_t fork_by(const char *way) {
    if (!strcmp(way, "_Fork") && _Fork) return _Fork();
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void succeeds(pid_t process) {
    int status;
    CHECK(process > 0 && waitpid(process, &status, 0) == process);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *nothing(void *unused) { return unused; }

static void create_a_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

/// As a tracer does that goes away: takes the jump out of the function in which the loader tells the guard of libraries. From then on each
/// look asks the loader.
static void restore_the_loader(void) {
    unsigned char *function = dlsym(RTLD_DEFAULT, "_dl_debug_state");
    CHECK(function != NULL);
    while (*function != 0xe9) function++;
    uintptr_t page = (uintptr_t)function & ~(uintptr_t)4095;
    CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    *(volatile unsigned char *)function = 0xc3;
    CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_EXEC) == 0);
}

static sem_t inside, leave;

static int stays(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info, (void)size, (void)unused;
    CHECK(sem_post(&inside) == 0);
    while (sem_wait(&leave) != 0) {}
    return 1;
}

static void *holder(void *unused) {
    CHECK(dl_iterate_phdr(stays, NULL) == 1);
    return unused;
}

static sem_t search;
static volatile pid_t searcher_id;

static void *searcher(void *unused) {
    searcher_id = (pid_t)syscall(SYS_gettid);
    while (sem_wait(&search) != 0) {}
    CHECK(dlsym(RTLD_DEFAULT, "malloc") != NULL);
    return unused;
}

/// Waits until a thread sleeps in the kernel, for a lock.
static void until_it_sleeps(volatile pid_t *thread) {
    char path[64], state[64];
    for (;;) {
        usleep(1000);
        if (*thread == 0) continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", *thread);
        FILE *file = fopen(path, "r");
        CHECK(file != NULL);
        char *line = fgets(state, sizeof state, file);
        fclose(file);
        if (line && atol(line) == SYS_futex) return;
    }
}

static void searching(const char *way) {
    pthread_t held, searches;
    CHECK(sem_init(&inside, 0, 0) == 0 && sem_init(&leave, 0, 0) == 0 && sem_init(&search, 0, 0) == 0);
    CHECK(pthread_create(&searches, NULL, searcher, NULL) == 0);
    restore_the_loader();
    CHECK(pthread_create(&held, NULL, holder, NULL) == 0);
    while (sem_wait(&inside) != 0) {}
    // The one that searches waits for the loader's lock now, and holds the guard's latch.
    until_it_sleeps(&searcher_id);
    CHECK(sem_post(&search) == 0);
    usleep(20000);
    until_it_sleeps(&searcher_id);
    pid_t process = fork_by(way);
    if (process == 0) {
        syscall(SYS_alarm, 20);
        CHECK(dlsym(RTLD_DEFAULT, "free") != NULL);
        create_a_thread();
        CHECK(dlsym(RTLD_DEFAULT, "calloc") != NULL);
        _exit(0);
    }
    succeeds(process);
    CHECK(sem_post(&leave) == 0);
    CHECK(pthread_join(held, NULL) == 0 && pthread_join(searches, NULL) == 0);
    // The parent's guard works on.
    create_a_thread();
}

static pthread_mutex_t mutex(int kind) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t made;
    CHECK(pthread_mutexattr_init(&attributes) == 0 && pthread_mutexattr_settype(&attributes, kind) == 0);
    CHECK(pthread_mutex_init(&made, &attributes) == 0);
    return made;
}

static const int kinds[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
enum { KINDS = 3 };
static pthread_mutex_t held_by_parent[KINDS], locked_by_child[KINDS];

static void in_child(const char *way, int generation) {
    pid_t own = (pid_t)syscall(SYS_gettid);
    for (int n = 0; n < KINDS; n++) {
        CHECK(pthread_mutex_lock(&locked_by_child[n]) == 0);
        CHECK(locked_by_child[n].__data.__owner == own);
        int again = pthread_mutex_trylock(&locked_by_child[n]);
        CHECK(again == (kinds[n] == PTHREAD_MUTEX_RECURSIVE ? 0 : EBUSY));
        if (again == 0) CHECK(pthread_mutex_unlock(&locked_by_child[n]) == 0);
        CHECK(pthread_mutex_unlock(&locked_by_child[n]) == 0);
        // What the parent's thread holds is not the child's.
        CHECK(pthread_mutex_trylock(&held_by_parent[n]) == EBUSY);
        if (kinds[n] != PTHREAD_MUTEX_NORMAL) CHECK(pthread_mutex_unlock(&held_by_parent[n]) == EPERM);
    }
    if (generation == 0) {
        pid_t process = fork_by(way);
        if (process == 0) {
            in_child(way, 1);
            _exit(0);
        }
        succeeds(process);
        CHECK(pthread_mutex_lock(&locked_by_child[0]) == 0);
        CHECK(locked_by_child[0].__data.__owner == own);
    }
}

static void owner(const char *way) {
    create_a_thread();
    pid_t own = (pid_t)syscall(SYS_gettid);
    for (int n = 0; n < KINDS; n++) {
        held_by_parent[n] = mutex(kinds[n]);
        locked_by_child[n] = mutex(kinds[n]);
        CHECK(pthread_mutex_lock(&held_by_parent[n]) == 0);
        CHECK(held_by_parent[n].__data.__owner == own);
    }
    pid_t process = fork_by(way);
    if (process == 0) {
        syscall(SYS_alarm, 20);
        in_child(way, 0);
        _exit(0);
    }
    succeeds(process);
    for (int n = 0; n < KINDS; n++) CHECK(pthread_mutex_unlock(&held_by_parent[n]) == 0);
    CHECK(pthread_mutex_lock(&locked_by_child[0]) == 0 && locked_by_child[0].__data.__owner == own);
}

static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static volatile pid_t waiter_id;

static void *waits(void *unused) {
    waiter_id = (pid_t)syscall(SYS_gettid);
    CHECK(pthread_mutex_lock(&contended) == 0 && pthread_mutex_unlock(&contended) == 0);
    return unused;
}

static void waited_for(const char *way) {
    pthread_t thread;
    CHECK(pthread_mutex_lock(&contended) == 0);
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    until_it_sleeps(&waiter_id);
    pid_t process = fork_by(way);
    if (process == 0) {
        syscall(SYS_alarm, 20);
        for (int round = 0; round < 3; round++) {
            CHECK(pthread_mutex_unlock(&contended) == 0);
            CHECK(pthread_mutex_lock(&contended) == 0);
        }
        _exit(0);
    }
    succeeds(process);
    CHECK(pthread_mutex_unlock(&contended) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    if (!strcmp(arguments[1], "searching")) {
        searching(arguments[2]);
    } else if (!strcmp(arguments[1], "waited_for")) {
        waited_for(arguments[2]);
    } else {
        owner(arguments[2]);
    }
    return 0;
}
