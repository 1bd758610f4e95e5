//! A `pthread_spin_lock` that is always held by somebody, for about a microsecond each time.
//!
//! An operation is one acquisition; its latency is the time until the lock is held. There are too many for a line
//! each, so each thread keeps a histogram, and the whole is told at the end, as lines `many NANOSECONDS COUNT`, the
//! largest latency exactly. What the lock protects is a plain counter, which must come out right.

#include "victim.h"

#include "histogram.h"

#include <pthread.h>

enum { THREADS_MAX = 256 };

static double option_hold_ns = 1000;
static pthread_spinlock_t lock;
static _Alignas(64) uint64_t protected_count;
static _Alignas(64) _Atomic int phase; // 0: wait, 1: go, 2: end
static double steps_per_ns;
static struct histogram histograms[THREADS_MAX];
static uint64_t acquired[THREADS_MAX];

/// What a thread's histogram is in: both sides change it by compare-and-exchange only, so each wait is counted once.
///
/// | value | meaning |
/// | --- | --- |
/// | IDLE | the thread holds the lock or is about to wait |
/// | RECORDING | the thread counts a wait that is over |
/// | TAKEN | the time is over: the histogram is the main thread's |
/// | other | the thread waits since then |
enum { IDLE, RECORDING, TAKEN };
static struct {
    _Alignas(64) _Atomic uint64_t since;
} waits[THREADS_MAX];

static bool change(size_t self, uint64_t from, uint64_t to) {
    return atomic_compare_exchange_strong(&waits[self].since, &from, to);
}

static __attribute__((noinline)) uint64_t compute(uint64_t steps) {
    uint64_t value = steps;
    for (uint64_t i = 0; i < steps; i++) {
        value = value * 6364136223846793005u + i;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

static void calibrate(void) {
    for (int tries = 0; tries < 20; tries++) { // the fastest is the one without interruption
        uint64_t begin = victim_now();
        compute(100000);
        double rate = 100000 / (double)(victim_now() - begin);
        steps_per_ns = rate > steps_per_ns ? rate : steps_per_ns;
    }
}

static void *work(void *argument) {
    size_t self = (size_t)argument;
    uint64_t steps = (uint64_t)(option_hold_ns * steps_per_ns);
    while (phase == 0)
        usleep(1000);
    for (bool counts = true; phase < 2;) {
        uint64_t begin = victim_now();
        counts = counts && change(self, IDLE, begin);
        pthread_spin_lock(&lock);
        uint64_t end = victim_now();
        protected_count++;
        compute(steps);
        pthread_spin_unlock(&lock);
        acquired[self]++;
        if (counts && change(self, begin, RECORDING)) {
            histogram_record(&histograms[self], end - begin);
            change(self, RECORDING, IDLE);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    static const struct option_spec options[] = {
        VICTIM_OPTIONS,
        {"hold-ns", OPTION_NUMBER, &option_hold_ns, 0, 1e6, NULL, "how long the lock is held (1000)"},
        {0},
    };
    const struct option_spec *const tables[] = {options, NULL};
    options_parse(argc, argv, "A pthread_spin_lock under contention.", tables);
    if (victim_threads > THREADS_MAX)
        fail(2, "--threads: %d are the most", THREADS_MAX);
    pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
    calibrate();
    pthread_t threads[THREADS_MAX];
    for (size_t i = 0; i < victim_threads; i++) {
        histogram_clear(&histograms[i]);
        if (pthread_create(&threads[i], NULL, work, (void *)i))
            fail(1, "a thread cannot be started");
    }

    victim_begin();
    uint64_t cpu = victim_cpu();
    phase = 1;
    usleep((useconds_t)(victim_seconds * 1e6));
    cpu = victim_cpu() - cpu;
    for (size_t i = 0; i < victim_threads; i++) {
        uint64_t since;
        while ((since = waits[i].since) == RECORDING || !change(i, since, TAKEN))
            usleep(100);
        if (since != IDLE) // it has waited for so long already
            histogram_record(&histograms[i], victim_now() - since);
    }
    static struct histogram all;
    histogram_clear(&all);
    for (size_t i = 0; i < victim_threads; i++) {
        all.max_ns = histograms[i].max_ns > all.max_ns ? histograms[i].max_ns : all.max_ns;
        for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
            all.buckets[bucket] += histograms[i].buckets[bucket];
    }
    all.buckets[histogram_bucket(all.max_ns)]--;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
        if (all.buckets[bucket])
            printf("many %llu %u\n", (unsigned long long)histogram_value(bucket), all.buckets[bucket]);
    printf("many %llu 1\n", (unsigned long long)all.max_ns);
    victim_done(cpu);
    while (victim_goes_on())
        usleep(10000);
    phase = 2;
    uint64_t sum = 0;
    for (size_t i = 0; i < victim_threads; i++) {
        pthread_join(threads[i], NULL);
        sum += acquired[i];
    }
    if (sum != protected_count)
        fail(1, "%llu acquisitions, but the protected counter says %llu", (unsigned long long)sum,
             (unsigned long long)protected_count);
    return 0;
}
