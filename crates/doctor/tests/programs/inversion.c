/* Priority inversion, on one CPU: a thread with nice 19 holds a mutex that threads with nice 0 need,
 * and another thread with nice 0 uses the CPU meanwhile. */
#include "diseases.h"
#include <sys/resource.h>
#include <sys/syscall.h>

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;

static void *holder(void *unused) {
  (void)unused;
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
  for (;;) {
    pthread_mutex_lock(&shared);
    work(20000000);
    pthread_mutex_unlock(&shared);
    usleep(100);
  }
  return NULL;
}

static void *needs_it(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&shared);
    work(1000);
    pthread_mutex_unlock(&shared);
    usleep(1000);
  }
  return NULL;
}

static void *hog(void *unused) {
  (void)unused;
  for (;;) work(1000000);
  return NULL;
}

int main(void) {
  stay_on(1);
  start(holder, NULL);
  for (int thread = 0; thread < 3; thread++) start(needs_it, NULL);
  start(hog, NULL);
  run_until_told();
}
