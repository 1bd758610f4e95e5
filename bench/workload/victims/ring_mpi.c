//! Ranks of Open MPI that add up vectors: twenty `MPI_Allreduce` an operation, with about 20 µs of work before each.
//!
//! Rank 0 measures and speaks with the benchmark. Each operation begins with a word from it: work, tell your CPU time,
//! or end. Open MPI waits by polling; what it polls is memory that the ranks share.

#include "victim.h"

#include <mpi.h>

enum { ROUNDS = 20, LENGTH = 64, STEPS = 20000 };
enum word { END, WORK, TELL };

static int rank, ranks;

static enum word say(enum word word) {
    int sent = (int)word;
    MPI_Bcast(&sent, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return (enum word)sent;
}

static uint32_t work(void) {
    double mine[LENGTH], sum[LENGTH];
    uint64_t drawn = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < STEPS; i++) {
            drawn = drawn * 6364136223846793005u + 1442695040888963407u;
            __asm__ volatile("" : "+r"(drawn));
        }
        for (int i = 0; i < LENGTH; i++)
            mine[i] = (double)(rank + i + round);
        MPI_Allreduce(mine, sum, LENGTH, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < LENGTH; i++)
            if (sum[i] != ranks * (i + round) + ranks * (ranks - 1) / 2.0)
                fail(1, "rank %d: a sum is wrong", rank);
    }
    return victim_checksum(sum, sizeof sum);
}

static uint64_t tell(void) {
    uint64_t own = victim_cpu(), all = 0;
    MPI_Reduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

static uint32_t operate(void) {
    say(WORK);
    return work();
}

static uint64_t cpu_ns(void) {
    say(TELL);
    return tell();
}

int main(int argc, char **argv) {
    static const struct option_spec options[] = {VICTIM_OPTIONS, {0}};
    const struct option_spec *const tables[] = {options, NULL};
    options_parse(argc, argv, "Ranks of Open MPI that add up vectors; `mpirun` says how many.", tables);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0) {
        victim_run(operate, cpu_ns);
        say(END);
    } else {
        for (enum word word; (word = say(END)) != END;)
            word == WORK ? (void)work() : (void)tell();
    }
    MPI_Finalize();
    return 0;
}
