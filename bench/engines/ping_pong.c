//! Pairs of threads play ping-pong by a condition variable: each thread gives the turn to its partner and waits for it to come back.
//!
//!     cc -O2 -pthread ping_pong.c -lm
//!
//! An operation is a round trip: a thread takes the mutex, gives the turn away, signals its partner while it holds the mutex, and
//! waits until the turn is back. All threads run on the first of `--cpus`, unless `--pin` says otherwise. So the CPU switches threads
//! for each turn, and a partner that runs as soon as it is signalled finds the mutex taken.
//!
//! 1. A thread adds 1 to `turns` only while `turns` is even, if it is the first of its pair, or odd, if it is the second. So the
//!    sum is the number of turns that both threads counted for themselves, and the first is ahead by at most one.
//! 2. A thread that ends sets `ended` under the mutex, so that its partner stops waiting for the turn.

#include "engine.h"

#include <gnu/libc-version.h>

struct pair {
    _Alignas(64) pthread_mutex_t mutex;
    pthread_cond_t changed;
    /// The number of turns that the pair gave away, and the number that each thread counted of its own
    uint64_t turns, given[2];
    /// One of the two has ended (Rule 2)
    bool ended;
};

static struct pair *pairs;
static unsigned pair_count;

static const char *c_library_version(void) {
    static char text[64];
    snprintf(text, sizeof text, "glibc %s", gnu_get_libc_version());
    return text;
}

static void open_pairs(unsigned threads) {
    if (threads % 2)
        fail(2, "--threads %u: give an even number, because each thread needs a partner", threads);
    class_pin(0); // threads inherit it
    pair_count = threads / 2;
    pairs = allocate(pair_count, sizeof *pairs);
    for (unsigned i = 0; i < pair_count; i++) {
        pthread_mutex_init(&pairs[i].mutex, NULL);
        pthread_cond_init(&pairs[i].changed, NULL);
    }
}

static struct pair *pair_of(const struct worker *worker) {
    return &pairs[worker->index / 2];
}

/// True once it is the thread's turn; false if its partner has ended.
static bool await_turn(struct pair *pair, unsigned which) {
    while (pair->turns % 2 != which && !pair->ended)
        pthread_cond_wait(&pair->changed, &pair->mutex);
    return pair->turns % 2 == which;
}

static enum outcome operate(struct worker *worker) {
    struct pair *pair = pair_of(worker);
    unsigned which = worker->index % 2;
    pthread_mutex_lock(&pair->mutex);
    if (await_turn(pair, which)) { // at once, but for the second thread's first turn
        pair->turns++;
        pair->given[which]++;
        pthread_cond_signal(&pair->changed);
        await_turn(pair, which);
    }
    pthread_mutex_unlock(&pair->mutex);
    return DONE;
}

static void end(struct worker *worker) {
    struct pair *pair = pair_of(worker);
    pthread_mutex_lock(&pair->mutex);
    pair->ended = true;
    pthread_cond_signal(&pair->changed);
    pthread_mutex_unlock(&pair->mutex);
}

static uint64_t verify(void) {
    uint64_t turns = 0;
    for (unsigned i = 0; i < pair_count; i++) {
        const struct pair *pair = &pairs[i];
        uint64_t first = pair->given[0], second = pair->given[1];
        if (pair->turns != first + second || first - second > 1)
            fail(1, "self-check: pair %u gave away %llu turns, but its threads counted %llu and %llu",
                 i, (unsigned long long)pair->turns, (unsigned long long)first, (unsigned long long)second);
        turns += pair->turns;
    }
    return turns;
}

int main(int argc, char **argv) {
    const struct engine ping_pong = {
        .name = "ping-pong",
        .summary = "Pairs of threads that signal each other; the result is one JSON object on standard output.",
        .version = c_library_version,
        .open = open_pairs,
        .operate = operate,
        .end = end,
        .verify = verify,
    };
    return engine_main(argc, argv, &ping_pong);
}
