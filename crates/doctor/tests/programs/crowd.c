/* More threads than CPUs: each works all the time. */
#include "diseases.h"

static void *worker(void *unused) {
  (void)unused;
  for (;;) work(1000000);
  return NULL;
}

int main(void) {
  for (long thread = 0; thread < 4 * cpus(); thread++) start(worker, NULL);
  run_until_told();
}
