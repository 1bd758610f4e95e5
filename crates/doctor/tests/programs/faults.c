/* A spin lock that is held across page faults: each thread puts an entry into memory that it has
 * not touched before, and holds the lock meanwhile. Where the kernel has huge pages for this, that
 * is one long fault, else 512 short ones. The memory is given back without the lock. */
#include <stdint.h>
#include <sys/mman.h>

#include "diseases.h"

enum { ENTRY_BYTES = 2 << 20, PAGE_BYTES = 4096 };

static atomic_int locked;

__attribute__((noinline)) static void take_lock(void) {
  while (atomic_exchange_explicit(&locked, 1, memory_order_acquire)) {
    while (atomic_load_explicit(&locked, memory_order_relaxed)) {
      pause_a_moment();
    }
  }
}

__attribute__((noinline)) static void insert(volatile char *entry) {
  take_lock();
  for (long at = 0; at < ENTRY_BYTES; at += PAGE_BYTES) {
    entry[at] = 1;
  }
  atomic_store_explicit(&locked, 0, memory_order_release);
}

static void *writer(void *argument) {
  (void)argument;
  char *room = mmap(NULL, 2 * ENTRY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    perror("mmap");
    exit(1);
  }
  char *entry = (char *)(((uintptr_t)room + ENTRY_BYTES - 1) & ~(uintptr_t)(ENTRY_BYTES - 1));
  /* Without huge pages the faults are short, and many. */
  (void)madvise(entry, ENTRY_BYTES, MADV_HUGEPAGE);
  for (;;) {
    insert(entry);
    if (madvise(entry, ENTRY_BYTES, MADV_DONTNEED) != 0) {
      perror("madvise");
      exit(1);
    }
  }
  return NULL;
}

int main(void) {
  for (long thread = 0; thread < 2 * cpus(); thread++) {
    start(writer, NULL);
  }
  run_until_told();
}
