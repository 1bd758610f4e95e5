// Says that it is ready when it is told the first count, and ends well when it is told the second.
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) == atol(argv[1]));
    puts("ready");
    fflush(stdout);
    alarm(50);
    while (sysconf(_SC_NPROCESSORS_ONLN) != atol(argv[2]))
        usleep(10 * 1000);
    return 0;
}
