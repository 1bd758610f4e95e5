/* OpenBLAS multiplies matrices of many sizes with several threads; a number that stands for all bits of the results is
 * written. `blas ROUNDS` */
#include "kinds.h"
#include <cblas.h>

extern void openblas_set_num_threads(int);

enum { MOST = 200 };
static double a[MOST * MOST], b[MOST * MOST], c[MOST * MOST];

int main(int count, char **arguments) {
    CHECK(count == 2);
    int rounds = atoi(arguments[1]);
    uint64_t all = 0;
    openblas_set_num_threads(4);
    for (int i = 0; i < MOST * MOST; i++) a[i] = (double)(i % 1013) / 7, b[i] = (double)(i % 857) / 11;
    for (int round = 0; round < rounds; round++) {
        static const int sizes[] = {30, 64, 100, 129, 150, 200};
        int size = sizes[round % 6];
        cblas_dgemm(CblasRowMajor, CblasNoTrans, round % 2 ? CblasTrans : CblasNoTrans, size, size, size, 1.0, a, size, b, size,
                    0.0, c, size);
        for (int i = 0; i < size * size; i++) {
            uint64_t bits;
            memcpy(&bits, &c[i], sizeof bits);
            all = all * 6364136223846793005 + bits;
        }
    }
    printf("%016lx\n", all);
    return 0;
}
