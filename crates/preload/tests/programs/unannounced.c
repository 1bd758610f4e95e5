// Children that nobody was told of: `_Fork` and a bare `clone` run no handlers of pthread_atfork.
//
// | argument | what the child finds, and does |
// | --- | --- |
// | searching | another thread was in the middle of a search; it asks for a symbol, and creates a thread |
// | owner | it locks mutexes of each kind; their owner is the child |
// | waited_for | another thread waited for a mutex; it unlocks and locks that |
#include "check.h"
#include "loader.h"
#include "threads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
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

static volatile int search;
static volatile pid_t searcher_id;

static void *searcher(void *unused) {
    searcher_id = (pid_t)syscall(SYS_gettid);
    while (!search) {}
    CHECK(dlsym(RTLD_DEFAULT, "malloc") != NULL);
    return unused;
}

static void searching(const char *way) {
    pthread_t searches;
    CHECK(pthread_create(&searches, NULL, searcher, NULL) == 0);
    write_text(rendezvous(), 0xc3);
    pthread_t holder = hold_the_loader();
    // The one that searches waits for the loader's lock now, and holds the guard's latch.
    search = 1;
    until_it_sleeps(&searcher_id);
    pid_t process = fork_by(way);
    if (process == 0) {
        syscall(SYS_alarm, 20);
        CHECK(dlsym(RTLD_DEFAULT, "free") != NULL);
        one_thread();
        CHECK(dlsym(RTLD_DEFAULT, "calloc") != NULL);
        _exit(0);
    }
    succeeds(process);
    let_go_of_the_loader(holder);
    CHECK(pthread_join(searches, NULL) == 0);
    // The parent's guard works on.
    one_thread();
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
    one_thread();
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
