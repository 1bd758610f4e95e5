/* What every function of manx_cpu.h does and returns. */
#define _GNU_SOURCE
#include "../../../preload/tests/programs/check.h"
#include <manx_cpu.h>
#include <sched.h>
#include <string.h>

static void bind_to_first(void) {
    cpu_set_t allowed, one;
    int cpu = 0;
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    while (!CPU_ISSET(cpu, &allowed))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

int main(void) {
    char whole[4096], part[8];
    double budget = manx_cpu_budget();
    long count = manx_cpu_count();
    CHECK(budget > 0 && count >= 1);
    CHECK(count == (budget < 1 ? 1 : (long)budget));

    memset(whole, 'x', sizeof whole);
    size_t length = manx_cpu_why(whole, sizeof whole);
    CHECK(length == strlen(whole) && strstr(whole, " CPU") && strstr(whole, ": "));
    CHECK(manx_cpu_why(NULL, 0) == length && manx_cpu_why(NULL, 77) == length);
    memset(part, 'x', sizeof part);
    CHECK(manx_cpu_why(part, 0) == length && part[0] == 'x');
    CHECK(manx_cpu_why(part, 4) == length && part[3] == 0 && part[4] == 'x' && !memcmp(part, whole, 3));

    bind_to_first();
    CHECK(manx_cpu_budget() <= 1 && manx_cpu_count() == 1);
    return 0;
}
