/*
 * A server that keeps its pthread mutexes, with three lines for Manx: the include, the start and the end of a request.
 *
 *     cc -pthread -o requests requests.c -I PREFIX/include
 *     ./requests
 *     manx run ./requests
 *
 * Nothing is linked. It prints how many requests were served, and, where Manx is present, the window of the last one: for how
 * long the locks in it let others go first.
 */
#include <manx_epoch.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { REQUEST = 1, THREADS = 4, REQUESTS = 500 };

static const uint64_t SLO_NS = 2000000;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long served;
static uint64_t window_ns = UINT64_MAX;

static void serve(void) {
    pthread_mutex_lock(&mutex);
    served++;
    window_ns = manx_epoch_window_ns();
    pthread_mutex_unlock(&mutex);
}

static void *worker(void *unused) {
    for (int i = 0; i < REQUESTS; i++) {
        manx_epoch_start(REQUEST);
        serve();
        manx_epoch_end(REQUEST, SLO_NS);
    }
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, worker, NULL) != 0) {
            fprintf(stderr, "no thread could be created\n");
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%lu requests", served);
    if (window_ns == UINT64_MAX)
        printf(", without Manx\n");
    else
        printf(", the last one with a window of %llu ns\n", (unsigned long long)window_ns);
    return 0;
}
