//! A gang by OpenMP: four `parallel for` over 20,000 doubles make one operation.
//!
//!     clang -O2 -fopenmp gang.c -o gang && ./gang THREADS SECONDS

#include "tail.h"

enum { LENGTH = 20000, LOOPS = 4 };

static double values[LENGTH];
static int threads;

static void operate(void) {
    for (int loop = 0; loop < LOOPS; loop++) {
#pragma omp parallel for num_threads(threads)
        for (int i = 0; i < LENGTH; i++)
            values[i] = values[i] * 0.5 + 1.0;
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: gang THREADS SECONDS\n");
        return 2;
    }
    threads = atoi(argv[1]);
    tail_measure(atof(argv[2]), operate);
    return 0;
}
