//! A product of two square matrices by the machine's OpenBLAS, 150 x 150; its threads are OpenBLAS's.

#include "victim.h"

#include <cblas.h>

enum { SIDE = 150 };

static double a[SIDE * SIDE], b[SIDE * SIDE], product[SIDE * SIDE], first[SIDE];

static void draw(double *values) {
    static uint64_t state = 1;
    for (int i = 0; i < SIDE * SIDE; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        values[i] = (double)(state >> 40) / (1 << 24) - 0.5;
    }
}

static uint32_t operate(void) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, product, SIDE);
    for (int row = 0; row < SIDE; row++)
        if (fabs(product[row * SIDE] - first[row]) > 1e-9)
            fail(1, "the product is wrong in row %d", row);
    return victim_checksum(product, sizeof product);
}

int main(int argc, char **argv) {
    static const struct option_spec options[] = {VICTIM_OPTIONS, {0}};
    const struct option_spec *const tables[] = {options, NULL};
    options_parse(argc, argv, "A product of two matrices by OpenBLAS.", tables);
    draw(a);
    draw(b);
    for (int row = 0; row < SIDE; row++)
        for (int i = 0; i < SIDE; i++)
            first[row] += a[row * SIDE + i] * b[i * SIDE];
    victim_run(operate, victim_cpu);
    return 0;
}
