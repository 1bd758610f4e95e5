/* How much memory a program has. To be included behind what defines CHECK. */
#ifndef RESIDENT_H
#define RESIDENT_H

#include <stdio.h>
#include <unistd.h>

static inline long resident_kib(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long total, resident;
    CHECK(file != NULL && fscanf(file, "%ld %ld", &total, &resident) == 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

#endif
