//! Tasks by oneTBB: a sum over 200,000 doubles in pieces of 2,000 is one operation.
//!
//!     c++ -O2 tasks.cpp -o tasks -ltbb && ./tasks THREADS SECONDS

#include "tail.h"

#include <numeric>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_reduce.h>
#include <tbb/task_arena.h>
#include <vector>

static const std::vector<double> values(200000, 1.5);
static tbb::task_arena *arena;

static void operate() {
    using Range = tbb::blocked_range<size_t>;
    auto piece = [](const Range &range, double sum) {
        return std::accumulate(values.begin() + range.begin(), values.begin() + range.end(), sum);
    };
    double sum = arena->execute([&] {
        return tbb::parallel_reduce(Range(0, values.size(), 2000), 0.0, piece, std::plus<double>(),
                                    tbb::simple_partitioner());
    });
    if (sum != 1.5 * values.size())
        exit(1);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: tasks THREADS SECONDS\n");
        return 2;
    }
    const int threads = atoi(argv[1]);
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    tbb::task_arena of(threads);
    arena = &of;
    tail_measure(atof(argv[2]), operate);
}
