/* One hot mutex that is held for 5 ms each time: its waiters sleep, and the CPUs are idle. */
#include "diseases.h"

static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void take_order(void) {
  pthread_mutex_lock(&hot);
  usleep(5000);
  pthread_mutex_unlock(&hot);
}

static void *worker(void *unused) {
  (void)unused;
  for (;;) {
    take_order();
    work(1000);
  }
  return NULL;
}

int main(void) {
  for (long thread = 0; thread < 4; thread++) start(worker, NULL);
  run_until_told();
}
