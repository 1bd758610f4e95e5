// What C++ and OpenMP say; the arguments are what they must say.
#include "check.h"
#include <omp.h>
#include <thread>

int main(int argc, char **argv) {
    CHECK(argc == 4);
    CHECK(std::thread::hardware_concurrency() == static_cast<unsigned>(atoi(argv[1])));
    CHECK(omp_get_num_procs() == atoi(argv[2]));
    CHECK(omp_get_max_threads() == atoi(argv[3]));
    return 0;
}
