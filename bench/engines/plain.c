//! A program without any busy wait: its threads compute, and meet at a mutex.
//!
//! What it shows is what Manx costs a program that has nothing to repair.

#include "engine.h"

static uint64_t option_work = 2000;

static const struct option_spec options[] = {
    {"work", OPTION_COUNT, &option_work, 1, 1e9, NULL, "steps of computation in an operation (2000)"},
    {0},
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t total;

static enum outcome operate(struct worker *worker) {
    uint64_t sum = worker->index;
    for (uint64_t i = 0; i < option_work; i++)
        sum = mix64(sum + i);
    pthread_mutex_lock(&mutex);
    total += sum;
    pthread_mutex_unlock(&mutex);
    return DONE;
}

int main(int argc, char **argv) {
    const struct engine plain = {
        .name = "plain",
        .summary = "Computation and a mutex; the result is one JSON object on standard output.",
        .options = options,
        .operate = operate,
    };
    return engine_main(argc, argv, &plain);
}
