// A function that is known to count only is told the count by the mask; any other gets the mask. The arguments are
// both counts; 0 stands for all.
#include "check.h"
#include <sched.h>

#define COUNTS(name) \
    __attribute__((noinline)) int name(void) { \
        cpu_set_t set; \
        CHECK(sched_getaffinity(0, sizeof set, &set) == 0); \
        return CPU_COUNT(&set); \
    }

COUNTS(uv_available_parallelism)
COUNTS(somebody)

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(uv_available_parallelism() == atoi(argv[1]));
    CHECK(somebody() == atoi(argv[2]));
    return 0;
}
