/* Four threads hold one mutex for 5 ms each, asleep, and want it again at once. It never ends. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;

static void *worker(void *unused) {
  for (;;) {
    pthread_mutex_lock(&hot);
    usleep(5000);
    pthread_mutex_unlock(&hot);
  }
  return unused;
}

int main(void) {
  for (int thread = 0; thread < 4; thread++) {
    pthread_t started;
    if (pthread_create(&started, NULL, worker, NULL) != 0) {
      perror("pthread_create");
      return 1;
    }
  }
  for (;;) pause();
}
