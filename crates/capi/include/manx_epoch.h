/*
 * Latency targets for programs that keep their pthread mutexes and are linked with nothing of Manx.
 *
 *     #include <manx_epoch.h>
 *
 *     manx_epoch_start(1);
 *     serve(request);
 *     manx_epoch_end(1, 2000000);
 *
 * "99 of a hundred requests take 2 ms at most": under `manx run`, or linked with libmanx_preload or libmanx, that is
 * how far the locks inside may put throughput before order. Otherwise the lines do nothing.
 *
 * The functions are weak symbols, and these macros look whether they are there. In a file that needs the rest of
 * libmanx as well, include manx.h instead, or first.
 *
 * Compile position-independent (-fPIE or -fPIC, as most compilers do unasked): in an executable at a fixed address the linker
 * decides that they are not there.
 */
#ifndef MANX_EPOCH_H
#define MANX_EPOCH_H

#ifndef MANX_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void manx_epoch_start(uint64_t id) __attribute__((weak));
void manx_epoch_end(uint64_t id, uint64_t slo_ns) __attribute__((weak));
void manx_epoch_end_at(uint64_t id, uint64_t slo_ns, double percentile) __attribute__((weak));
void manx_epoch_abandon(uint64_t id) __attribute__((weak));
uint64_t manx_epoch_window_ns(void) __attribute__((weak));

#ifdef __cplusplus
}
#endif

/* An epoch begins on the calling thread. The id is a number of the program's choice for a kind of work. */
#define manx_epoch_start(id) ((manx_epoch_start) ? (manx_epoch_start)(id) : (void)0)
/* It ends; 99 of a hundred are to end within slo_ns nanoseconds. */
#define manx_epoch_end(id, slo_ns) ((manx_epoch_end) ? (manx_epoch_end)(id, slo_ns) : (void)0)
/* As manx_epoch_end, for another percentile: 50 to 99.99. */
#define manx_epoch_end_at(id, slo_ns, percentile) \
    ((manx_epoch_end_at) ? (manx_epoch_end_at)(id, slo_ns, percentile) : (void)0)
/* It ends and teaches nothing. */
#define manx_epoch_abandon(id) ((manx_epoch_abandon) ? (manx_epoch_abandon)(id) : (void)0)
/* For how long the thread may be overtaken, in nanoseconds; UINT64_MAX outside of any epoch. */
#define manx_epoch_window_ns() ((manx_epoch_window_ns) ? (manx_epoch_window_ns)() : UINT64_MAX)

#endif /* MANX_H */

#endif /* MANX_EPOCH_H */
