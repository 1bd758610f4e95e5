/*
 * A queue between threads, with libmanx's mutex and condition variable.
 *
 *     cc -pthread -o queue queue.c $(pkg-config --cflags --libs manx)
 */
#include <errno.h>
#include <manx.h>
#include <pthread.h>
#include <stdio.h>

enum { ROOM = 8, ITEMS = 5000, PRODUCERS = 2 };

static struct {
    manx_mutex_t mutex;
    manx_cond_t not_empty, not_full;
    int items[ROOM];
    int first, count;
} queue = {.mutex = MANX_MUTEX_INIT, .not_empty = MANX_COND_INIT, .not_full = MANX_COND_INIT};

static void put(int item) {
    manx_mutex_lock(&queue.mutex);
    while (queue.count == ROOM)
        manx_cond_wait(&queue.not_full, &queue.mutex);
    queue.items[(queue.first + queue.count++) % ROOM] = item;
    manx_mutex_unlock(&queue.mutex);
    manx_cond_signal(&queue.not_empty);
}

/* Takes an item out, or gives up after a minute. */
static int take(int *item) {
    const uint64_t deadline_ns = manx_now_ns() + UINT64_C(60000000000);
    int result = 0;
    manx_mutex_lock(&queue.mutex);
    while (queue.count == 0 && result == 0)
        result = manx_cond_timedwait(&queue.not_empty, &queue.mutex, deadline_ns);
    if (queue.count > 0) {
        result = 0;
        *item = queue.items[queue.first];
        queue.first = (queue.first + 1) % ROOM;
        queue.count--;
    }
    manx_mutex_unlock(&queue.mutex);
    if (result == 0)
        manx_cond_signal(&queue.not_full);
    return result;
}

static void *producer(void *unused) {
    for (int i = 1; i <= ITEMS; i++)
        put(i);
    return unused;
}

int main(void) {
    pthread_t threads[PRODUCERS];
    for (int i = 0; i < PRODUCERS; i++) {
        if (pthread_create(&threads[i], NULL, producer, NULL) != 0)
            return 1;
    }
    long long sum = 0;
    for (int i = 0; i < PRODUCERS * ITEMS; i++) {
        int item = 0;
        if (take(&item) == ETIMEDOUT) {
            fprintf(stderr, "nothing came\n");
            return 1;
        }
        sum += item;
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    printf("libmanx %s: the sum is %lld\n", manx_version(), sum);
    return 0;
}
