/*
 * Manx for C: how many CPUs the process can really use, and why not more.
 *
 *     long threads = manx_cpu_count();
 *
 * That is the least of the CPUs that are online, the calling thread's affinity, the CPUs of the process' group, and the quotas of its group
 * and of all groups above (cgroups of either version). All of it is read at each call, which takes some 100 microseconds and
 * allocates memory; the functions never fail.
 *
 * Link with `pkg-config --cflags --libs manx`.
 *
 * Generated from the library's sources by cbindgen: do not edit.
 */

#ifndef MANX_CPU_H
#define MANX_CPU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * How many CPUs the process can use at this moment: more than 0, and a fraction where a quota
 * decides.
 */
double manx_cpu_budget(void);

/**
 * How many threads that need CPUs the process has CPUs for: the budget rounded down, and at
 * least 1.
 */
long manx_cpu_count(void);

/**
 * Writes the budget and its reason, such as "1.5 CPUs: quota 150000/100000 of the parent group /a
 * of /a/b", as much as there is room for and with a zero at the end. Returns how long it is
 * without the zero, so `manx_cpu_why(NULL, 0)` says how much room is needed.
 * There are `size` bytes to write to, or `buffer` is NULL.
 */
size_t manx_cpu_why(char *buffer, size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MANX_CPU_H */
