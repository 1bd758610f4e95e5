/* Thousands of threads, each with a bit of work again and again. */
#include "diseases.h"

static void *worker(void *argument) {
  for (;;) {
    work(2000);
    usleep(100000);
  }
  return argument;
}

int main(void) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (int thread = 0; thread < 5000; thread++) {
    pthread_t it;
    if (pthread_create(&it, &small, worker, NULL) != 0) return 77;
  }
  run_until_told();
}
