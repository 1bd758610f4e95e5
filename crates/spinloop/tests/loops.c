/* Loops around PAUSE. The first word of a function's name is what is to be said of every PAUSE in it. */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <x86intrin.h>

#define PAUSE() __asm__ volatile("pause" ::: "memory")
#define READ(x) (*(volatile __typeof__(x) *)&(x))

/* The protocol of a storage engine's transactions: wait while a session allocates its id. */
struct session { uint64_t id, pinned, metadata; volatile bool allocating; char pad[39]; };
struct snapshot { uint64_t ids[1024], least; uint32_t count; };
void wait_for_allocation(struct session *sessions, uint32_t count, uint64_t current, uint64_t oldest,
                         struct snapshot *out, struct session *own) {
    uint64_t least = current, id;
    uint32_t n = 0;
    struct session *s = sessions;
    for (uint32_t i = 0; i < count; i++, s++)
        while (s != own && (id = READ(s->id)) != 0 && oldest <= id && id < current) {
            if (!s->allocating) {
                if (id == READ(s->id)) {
                    if (id < least) least = id;
                    out->ids[n++] = id;
                    break;
                }
            }
            PAUSE();
        }
    out->count = n;
    out->least = least;
}

void wait_test_and_test_and_set(atomic_int *lock) {
    for (;;) {
        while (atomic_load_explicit(lock, memory_order_relaxed)) PAUSE();
        if (!atomic_exchange(lock, 1)) return;
    }
}

struct ticket { atomic_uint next, serving; };
void wait_ticket(struct ticket *lock) {
    unsigned mine = atomic_fetch_add(&lock->next, 1);
    while (atomic_load_explicit(&lock->serving, memory_order_acquire) != mine) PAUSE();
}

void wait_exchange(atomic_int *lock) {
    while (atomic_exchange(lock, 1)) PAUSE();
}

void wait_compare_and_swap(atomic_long *word) {
    for (;;) {
        long old = atomic_load(word);
        if ((old & 1) == 0 && atomic_compare_exchange_strong(word, &old, old + 1)) return;
        PAUSE();
    }
}

uint64_t wait_seqlock(atomic_uint *sequence, const volatile uint64_t *data) {
    for (;;) {
        unsigned before;
        while ((before = atomic_load_explicit(sequence, memory_order_acquire)) & 1) PAUSE();
        uint64_t value = data[0] + data[1];
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(sequence, memory_order_relaxed) == before) return value;
    }
}

/* The rounds are counted, but nothing depends on how many there were. */
unsigned long wait_with_statistics(volatile int *ready) {
    unsigned long rounds = 0;
    while (!*ready) { rounds++; PAUSE(); }
    return rounds;
}

/* The index forms addresses only. */
void wait_for_all(volatile int *busy, size_t count) {
    for (size_t i = 0; i < count; i++)
        while (busy[i]) PAUSE();
}

void wait_for_both(volatile int *one, volatile int *other) {
    while (*one && *other) PAUSE();
}

/* A queue lock's node on the waiter's own stack. */
struct node { struct node *volatile next; volatile int granted; };
void wait_on_own_stack(struct node *volatile *tail) {
    struct node node = {0, 0};
    *tail = &node;
    while (!node.granted) PAUSE();
}

/* A short wait in a long loop that shares its head. */
long wait_in_worker(volatile long *queue, volatile long *stop, long *sums) {
    long total = 0;
    while (!*stop) {
        long item = *queue;
        if (item == 0) { PAUSE(); continue; }
        for (int i = 0; i < 16; i++) { sums[i] += item * (i + 3); total ^= sums[i] >> (i & 7); }
        *queue = 0;
    }
    return total;
}

/* What is counted starts anew in every round. */
void wait_for_every(volatile long *counters, const long *goals, unsigned count) {
    for (;;) {
        unsigned i = 0;
        while (i < count && counters[i] >= goals[i]) i++;
        if (i >= count) return;
        PAUSE();
    }
}

void wait_nested(volatile int *outer, volatile int *inner) {
    while (*outer) {
        while (*inner) PAUSE();
        *inner = 1;
    }
}

extern int slow_path(void *);
int wait_unlikely(volatile int *state) {
    int seen = *state;
    if (__builtin_expect(seen == 3, 0)) {
        slow_path((void *)state);
        while (*state == 3) PAUSE();
    }
    return seen;
}

void counted_delay(unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) PAUSE();
}

void counted_down(unsigned rounds) {
    while (rounds--) PAUSE();
}

/* The bound is read again in every round. */
void counted_shared_bound(volatile unsigned *rounds) {
    for (unsigned i = 0; i < *rounds; i++) PAUSE();
}

/* Two hundred tries, as in a log-structured store. */
int counted_tries(volatile unsigned char *state, unsigned char goal) {
    for (int tries = 0; tries < 200; tries++) {
        if (*state & goal) return 1;
        PAUSE();
    }
    return 0;
}

/* An exponential back-off: the PAUSE is in the delay, not in the wait. */
void counted_backoff(atomic_int *lock) {
    unsigned delay = 1;
    while (atomic_exchange(lock, 1)) {
        for (unsigned i = 0; i < delay; i++) PAUSE();
        if (delay < 1024) delay *= 2;
    }
}

/* A team's barrier: spin for a while, then sleep. */
void counted_then_sleep(volatile int *generation, int old, unsigned long long spins) {
    for (unsigned long long i = 0; i < spins; i++) {
        if (*generation != old) return;
        PAUSE();
    }
    slow_path((void *)generation);
}

/* Spins, and yields after each thousandth round. */
void counted_with_yield(volatile int *ready) {
    int rounds = 0;
    while (!*ready) {
        if (++rounds < 1000) PAUSE();
        else { sched_yield(); rounds = 0; }
    }
}

/* The counter is a member of a structure. */
struct cookie { volatile int tries; volatile int done; };
void counted_member(struct cookie *cookie) {
    for (cookie->tries = 0; !cookie->done && cookie->tries < 100; cookie->tries++) PAUSE();
}

int timed_wait(volatile int *ready, uint64_t ticks) {
    uint64_t start = __rdtsc();
    while (!*ready) {
        if (__rdtsc() - start > ticks) return 0;
        PAUSE();
    }
    return 1;
}

void calls_in_every_round(volatile int *ready) {
    while (!*ready) { PAUSE(); sched_yield(); }
}

_Noreturn void noexit_for_ever(void) {
    for (;;) PAUSE();
}

void notinaloop_relax(void) { PAUSE(); }
