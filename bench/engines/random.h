//! Random keys and think times: uniform, zipfian as YCSB draws it, exponential.
//!
//! The generator is splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
//! 2014). Zipfian keys follow Gray et al., "Quickly generating billion-record synthetic databases" (1994)
//! with YCSB's constant of 0.99, and are scattered over the key space by a hash, as YCSB's "scrambled
//! zipfian" does, so that popular keys are not neighbours.

#ifndef MANX_ENGINES_RANDOM_H
#define MANX_ENGINES_RANDOM_H

#include <math.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

static inline uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t random_bits(struct random *r) {
    return mix64(r->state += 0x9e3779b97f4a7c15u);
}

/// Uniform in [0, 1).
static inline double random_unit(struct random *r) {
    return (double)(random_bits(r) >> 11) * 0x1p-53;
}

/// Uniform in [0, bound); the bias of at most bound / 2^64 is of no concern here.
static inline uint64_t random_below(struct random *r, uint64_t bound) {
    return (uint64_t)(((unsigned __int128)random_bits(r) * bound) >> 64);
}

/// Exponential with this mean.
static inline double random_exponential(struct random *r, double mean) {
    return -mean * log(1.0 - random_unit(r));
}

struct zipfian {
    uint64_t items;
    double theta, alpha, zeta, eta, half_power;
};

/// Takes time linear in `items`.
static inline void zipfian_init(struct zipfian *z, uint64_t items) {
    double zeta = 0, theta = 0.99;
    for (uint64_t i = 1; i <= items; i++)
        zeta += pow(1.0 / (double)i, theta);
    double zeta_two = 1.0 + pow(0.5, theta);
    z->items = items;
    z->theta = theta;
    z->alpha = 1.0 / (1.0 - theta);
    z->zeta = zeta;
    z->eta = (1.0 - pow(2.0 / (double)items, 1.0 - theta)) / (1.0 - zeta_two / zeta);
    z->half_power = pow(0.5, theta);
}

/// From 0 on, the most popular first.
static inline uint64_t zipfian_rank(const struct zipfian *z, struct random *r) {
    double u = random_unit(r), uz = u * z->zeta;
    if (z->items < 3)
        return random_below(r, z->items);
    if (uz < 1.0)
        return 0;
    if (uz < 1.0 + z->half_power)
        return 1;
    uint64_t rank = (uint64_t)((double)z->items * pow(z->eta * u - z->eta + 1.0, z->alpha));
    return rank < z->items ? rank : z->items - 1;
}

static inline uint64_t zipfian_draw(const struct zipfian *z, struct random *r) {
    return mix64(zipfian_rank(z, r)) % z->items;
}

#endif
