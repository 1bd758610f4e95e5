/* As many threads as CPUs, at most four, each of which works all the time. That is healthy, unless
 * a control group has a quota or other processes use the CPUs; the tests see to that. */
#include "diseases.h"

static void *worker(void *unused) {
  (void)unused;
  for (;;) work(1000000);
  return NULL;
}

int main(void) {
  long threads = cpus() < 4 ? cpus() : 4;
  for (long thread = 0; thread < threads; thread++) start(worker, NULL);
  run_until_told();
}
