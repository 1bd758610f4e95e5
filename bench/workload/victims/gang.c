//! A gang of OpenMP threads: twenty parallel regions an operation, each thread with about 20 µs of work in each.
//!
//! The team meets at a barrier after each region. The one that is early waits as libgomp does: it spins, and sleeps
//! after that.

#include "victim.h"

#include <omp.h>

enum { REGIONS = 20, THREADS_MAX = 64, STEPS = 20000 };

static struct {
    _Alignas(64) uint64_t value;
} lanes[THREADS_MAX];

static uint32_t operate(void) {
    for (int i = 0; i < THREADS_MAX; i++)
        lanes[i].value = (uint64_t)i;
    for (int region = 0; region < REGIONS; region++) {
#pragma omp parallel num_threads((int)victim_threads)
        {
            int lane = omp_get_thread_num();
            uint64_t value = lanes[lane].value + lanes[(lane + 1) % (int)victim_threads].value;
#pragma omp barrier
            for (int i = 0; i < STEPS; i++) {
                value = value * 6364136223846793005u + 1442695040888963407u;
                __asm__ volatile("" : "+r"(value));
            }
            lanes[lane].value = value;
        }
    }
    return victim_checksum(lanes, sizeof lanes);
}

int main(int argc, char **argv) {
    static const struct option_spec options[] = {VICTIM_OPTIONS, {0}};
    const struct option_spec *const tables[] = {options, NULL};
    options_parse(argc, argv, "A gang of OpenMP threads that meet at barriers.", tables);
    if (victim_threads > THREADS_MAX)
        fail(2, "--threads: %d are the most", THREADS_MAX);
    victim_run(operate, victim_cpu);
    return 0;
}
