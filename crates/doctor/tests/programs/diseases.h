/* What the sick programs share: threads, work that nobody can leave out, and a way to end.
 *
 * Each program has exactly one disease and runs until its standard input ends, so it never outlives
 * the test that started it. It writes one line when all threads run. */
#ifndef DISEASES_H
#define DISEASES_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_ulong sink;

/* Some CPU time, in rounds of about a nanosecond. */
static inline void work(unsigned long rounds) {
  unsigned long value = atomic_load_explicit(&sink, memory_order_relaxed) | 1;
  for (unsigned long round = 0; round < rounds; round++) {
    value = value * 6364136223846793005UL + 1442695040888963407UL;
    __asm__ volatile("" : "+r"(value));
  }
  atomic_store_explicit(&sink, value, memory_order_relaxed);
}

static inline void start(void *(*body)(void *), void *argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, argument) != 0) {
    perror("pthread_create");
    exit(1);
  }
}

/* Stays on these CPUs: the mask of the first 64. */
static inline void stay_on(unsigned long mask) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = 0; cpu < 64; cpu++)
    if (mask >> cpu & 1) CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    perror("sched_setaffinity");
    exit(77);
  }
}

/* The processor's hint that a loop waits. */
static inline void pause_a_moment(void) {
#ifdef __x86_64__
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

static inline long cpus(void) { return sysconf(_SC_NPROCESSORS_ONLN); }

/* Says that it runs, and ends with the standard input. */
static inline void run_until_told(void) {
  char byte;
  printf("runs\n");
  fflush(stdout);
  while (read(0, &byte, 1) > 0) {
  }
  exit(0);
}

#endif
