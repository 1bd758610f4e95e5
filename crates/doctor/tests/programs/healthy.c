/* Nothing is wrong: some threads work for a third of the time and sleep for the rest, others wait
 * for work that never comes. */
#include "diseases.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void *worker(void *unused) {
  (void)unused;
  for (;;) {
    work(1000000);
    usleep(4000);
  }
  return NULL;
}

static void *idle(void *unused) {
  (void)unused;
  pthread_mutex_lock(&lock);
  for (;;) pthread_cond_wait(&never, &lock);
  return NULL;
}

int main(void) {
  start(worker, NULL);
  for (int thread = 0; thread < 8; thread++) start(idle, NULL);
  run_until_told();
}
