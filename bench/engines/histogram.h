//! A histogram of nanoseconds: log-linear, less than 1 % wide, with exact minimum, maximum and sum.
//!
//! Values below 256 have a bucket each; above, each power of two is cut into 128 equal buckets, so a
//! bucket is at most 1/128 of its values wide and its midpoint is at most 0.4 % away from each of them.
//! Values from 2^40 ns (18 minutes) on share the last bucket; `max_ns` still holds them exactly.
//!
//! A thread counts into a private histogram without atomic operations and hands it over with
//! `histogram_give`, which adds what is there to a shared one and empties the private one. Everything is
//! allocated and touched beforehand.

#ifndef MANX_ENGINES_HISTOGRAM_H
#define MANX_ENGINES_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    HISTOGRAM_BITS = 7,
    HISTOGRAM_TOP = 40,
    HISTOGRAM_BUCKETS = (HISTOGRAM_TOP - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS,
};

struct histogram {
    uint64_t count, sum_ns, min_ns, max_ns;
    uint32_t low, high; // the buckets in use lie in [low, high)
    uint32_t buckets[HISTOGRAM_BUCKETS];
};

struct shared_histogram {
    _Atomic uint64_t count, sum_ns, min_ns, max_ns;
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
};

static inline uint32_t histogram_bucket(uint64_t value_ns) {
    if (value_ns < 2u << HISTOGRAM_BITS)
        return (uint32_t)value_ns;
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(value_ns) - HISTOGRAM_BITS;
    uint64_t bucket = ((uint64_t)shift << HISTOGRAM_BITS) + (value_ns >> shift);
    return bucket < HISTOGRAM_BUCKETS ? (uint32_t)bucket : HISTOGRAM_BUCKETS - 1;
}

/// The midpoint of a bucket.
static inline uint64_t histogram_value(uint32_t bucket) {
    if (bucket < 2u << HISTOGRAM_BITS)
        return bucket;
    uint32_t shift = (bucket >> HISTOGRAM_BITS) - 1;
    uint64_t first = (uint64_t)(bucket - (shift << HISTOGRAM_BITS)) << shift;
    return first + ((1ull << shift) >> 1);
}

/// All counts zero, and every page touched.
static inline void histogram_clear(struct histogram *h) {
    memset(h, 0, sizeof *h);
    h->min_ns = UINT64_MAX;
    h->low = HISTOGRAM_BUCKETS;
}

static inline void shared_histogram_clear(struct shared_histogram *h) {
    memset((void *)h, 0, sizeof *h);
    atomic_init(&h->min_ns, UINT64_MAX);
}

static inline void histogram_record(struct histogram *h, uint64_t value_ns) {
    uint32_t bucket = histogram_bucket(value_ns);
    h->buckets[bucket]++;
    h->count++;
    h->sum_ns += value_ns;
    if (value_ns < h->min_ns)
        h->min_ns = value_ns;
    if (value_ns > h->max_ns)
        h->max_ns = value_ns;
    if (bucket < h->low)
        h->low = bucket;
    if (bucket >= h->high)
        h->high = bucket + 1;
}

static inline void shared_lower(_Atomic uint64_t *at, uint64_t value) {
    uint64_t seen = atomic_load_explicit(at, memory_order_relaxed);
    while (value < seen && !atomic_compare_exchange_weak(at, &seen, value))
        ;
}

static inline void shared_raise(_Atomic uint64_t *at, uint64_t value) {
    uint64_t seen = atomic_load_explicit(at, memory_order_relaxed);
    while (value > seen && !atomic_compare_exchange_weak(at, &seen, value))
        ;
}

/// Moves what `from` holds to `into`. Relaxed: whoever reads `into` has joined the threads before.
static inline void histogram_give(struct histogram *from, struct shared_histogram *into) {
    if (from->count == 0)
        return;
    for (uint32_t i = from->low; i < from->high; i++)
        if (from->buckets[i]) {
            atomic_fetch_add_explicit(&into->buckets[i], from->buckets[i], memory_order_relaxed);
            from->buckets[i] = 0;
        }
    atomic_fetch_add_explicit(&into->count, from->count, memory_order_relaxed);
    atomic_fetch_add_explicit(&into->sum_ns, from->sum_ns, memory_order_relaxed);
    shared_lower(&into->min_ns, from->min_ns);
    shared_raise(&into->max_ns, from->max_ns);
    from->count = from->sum_ns = from->max_ns = 0;
    from->min_ns = UINT64_MAX;
    from->low = HISTOGRAM_BUCKETS;
    from->high = 0;
}

/// Adds a shared histogram to another one, after all threads have ended.
static inline void shared_histogram_add(struct shared_histogram *into, struct shared_histogram *from) {
    if (from->count == 0)
        return;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    shared_lower(&into->min_ns, from->min_ns);
    shared_raise(&into->max_ns, from->max_ns);
}

/// `{"count":…,"min_ns":…,"max_ns":…,"sum_ns":…,"counts":[[value_ns,count],…]}`
static inline void histogram_print(FILE *out, struct shared_histogram *h) {
    fprintf(out, "{\"count\":%llu,\"min_ns\":%llu,\"max_ns\":%llu,\"sum_ns\":%llu,\"counts\":[",
            (unsigned long long)h->count, (unsigned long long)(h->count ? h->min_ns : 0),
            (unsigned long long)h->max_ns, (unsigned long long)h->sum_ns);
    const char *separator = "";
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        if (h->buckets[i]) {
            fprintf(out, "%s[%llu,%llu]", separator, (unsigned long long)histogram_value(i),
                    (unsigned long long)h->buckets[i]);
            separator = ",";
        }
    fputs("]}", out);
}

#endif
