/* One hot mutex: all threads need it for nearly all that they do. */
#include "diseases.h"

static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void update(void) {
  pthread_mutex_lock(&hot);
  work(200000);
  pthread_mutex_unlock(&hot);
}

static void *worker(void *unused) {
  (void)unused;
  for (;;) {
    update();
    work(1000);
  }
  return NULL;
}

int main(void) {
  for (long thread = 0; thread < 8; thread++) start(worker, NULL);
  run_until_told();
}
