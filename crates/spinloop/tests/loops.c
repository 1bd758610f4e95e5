/* Loops that wait, and loops that do not. The first word of a function's name is what is to be said of the seeds in
   it: see verdicts.rs. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAUSE() __asm__ volatile("pause" ::: "memory")
#define NOPS() __asm__ volatile("nop;nop;nop;nop;nop;nop;nop;nop" ::: "memory")
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

/* Empty bodies, with and without something to see in them. */
void wait_empty(volatile int *ready) {
    while (!*ready) {}
}

void wait_empty_bit(volatile unsigned *flags) {
    while ((*flags & 4) == 0) {}
}

void wait_empty_pointer(void *volatile *slot, void *old) {
    while (*slot == old) {}
}

static volatile int stop_flag;
int wait_empty_global(void) {
    while (stop_flag == 0) {}
    return stop_flag;
}

/* What passes for a pause in OpenBLAS. */
void wait_nops(volatile long *job) {
    while (*job) NOPS();
}

void wait_nops_two(volatile long *job, volatile long *other) {
    while (*job && *other != 3) NOPS();
}

/* The clock, and nothing else. */
int timed_nops(volatile int *ready, uint64_t ticks) {
    uint64_t start = __rdtsc();
    while (!*ready) {
        if (__rdtsc() - start > ticks) return 0;
        NOPS();
    }
    return 1;
}

int timed_pause(volatile int *ready, uint64_t ticks) {
    uint64_t start = __rdtsc();
    while (!*ready) {
        if (__rdtsc() - start > ticks) return 0;
        PAUSE();
    }
    return 1;
}

int timed_tpause(volatile int *ready, uint64_t end) {
    while (!*ready) {
        uint64_t now = __rdtsc();
        if (now >= end) return 0;
        _tpause(0, now + 1000);
    }
    return 1;
}

void wait_tpause(volatile int *ready, uint64_t deadline) {
    while (!*ready) _tpause(0, deadline);
}

int timed_umwait(volatile int *ready, uint64_t end) {
    while (!*ready) {
        if (__rdtsc() >= end) return 0;
        _umonitor((void *)ready);
        _umwait(0, end);
    }
    return 1;
}

void delay_clock(uint64_t ticks) {
    uint64_t start = __rdtsc();
    while (__rdtsc() - start < ticks) PAUSE();
}

/* What the clock said last lasts. */
int works_clock_state(volatile int *ready, uint64_t ticks) {
    uint64_t last = __rdtsc(), longest = 0;
    while (!*ready && longest < ticks) {
        uint64_t now = __rdtsc();
        if (now - last > longest) longest = now - last;
        last = now;
        PAUSE();
    }
    return longest < ticks;
}

void delay_rounds(unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) PAUSE();
}

void delay_down(unsigned rounds) {
    while (rounds--) PAUSE();
}

/* An exponential back-off: the PAUSE is in the delay, not in the wait. */
void delay_backoff(atomic_int *lock) {
    unsigned delay = 1;
    while (atomic_exchange(lock, 1)) {
        for (unsigned i = 0; i < delay; i++) PAUSE();
        if (delay < 1024) delay *= 2;
    }
}

/* The bound is read again in every round, and nothing else. */
void delay_shared_bound(volatile unsigned *rounds) {
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

#define COUNTED(name, type, begin, go_on, step, bound_type)                        \
    int counted_##name(volatile int *ready, bound_type bound, type from) {         \
        for (type i = begin; go_on; step) {                                        \
            if (*ready) return 1;                                                  \
            PAUSE();                                                               \
        }                                                                          \
        return 0;                                                                  \
    }
COUNTED(up32_less_constant, int, 0, i < 1000, i++, int)
COUNTED(up32_less_register, int, 0, i < bound, i++, int)
COUNTED(up32_equal_less, int, from, i <= bound, i++, int)
COUNTED(up32_below, uint32_t, 0, i < bound, i++, uint32_t)
COUNTED(up32_below_equal, uint32_t, from, i <= bound, i++, uint32_t)
COUNTED(up32_other, uint32_t, from, i != bound, i++, uint32_t)
COUNTED(up32_by_four, uint32_t, from, i < bound, i += 4, uint32_t)
COUNTED(up32_signed_by_four, int, from, i < 4000, i += 4, int)
COUNTED(up64_less, long, from, i < bound, i++, long)
COUNTED(up64_below, uint64_t, from, i < bound, i++, uint64_t)
COUNTED(up64_other, uint64_t, from, i != bound, i++, uint64_t)
COUNTED(up64_constant, uint64_t, 0, i < 300000, i++, uint64_t)
COUNTED(up64_by_four, uint64_t, from, i < bound, i += 4, uint64_t)
COUNTED(down32_greater, int, from, i > bound, i--, int)
COUNTED(down32_greater_equal, int, from, i >= bound, i--, int)
COUNTED(down32_zero, int, from, i > 0, i--, int)
COUNTED(down32_sign, int, from, i >= 0, i--, int)
COUNTED(down32_above, uint32_t, from, i > bound, i--, uint32_t)
COUNTED(down32_other, uint32_t, from, i != bound, i--, uint32_t)
COUNTED(down32_not_zero, uint32_t, from, i != 0, i--, uint32_t)
COUNTED(down32_by_four, int, from, i > bound, i -= 4, int)
COUNTED(down64_greater, long, from, i > bound, i--, long)
COUNTED(down64_above, uint64_t, from, i > bound, i--, uint64_t)
COUNTED(down64_not_zero, uint64_t, from, i != 0, i--, uint64_t)
COUNTED(down64_by_four, long, from, i > bound, i -= 4, long)

int counted_down_post(volatile int *ready, int n) {
    while (n-- > 0) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

int counted_at_the_bottom(volatile int *ready, unsigned n) {
    unsigned i = 0;
    do {
        if (*ready) return 1;
        PAUSE();
    } while (++i != n);
    return 0;
}

static unsigned spin_limit = 1000;
void set_limit(unsigned limit) { spin_limit = limit; }
int counted_global_bound(volatile int *ready) {
    for (unsigned i = 0; i < READ(spin_limit); i++) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

struct team { long pad; unsigned long spins; unsigned short_spins; };
int counted_bound_by_pointer(volatile int *ready, volatile struct team *team) {
    for (unsigned long i = 0; i < team->spins; i++) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

int counted_bound_by_pointer_narrow(volatile int *ready, volatile struct team *team) {
    for (unsigned i = 0; i != team->short_spins; i++) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

int counted_two_exits(volatile int *ready, volatile int *stop, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (*ready) return 1;
        if (*stop) return 2;
        PAUSE();
    }
    return 0;
}

/* The counter's last value is used after the loop. */
unsigned counted_used_after(volatile int *ready, unsigned n) {
    unsigned i;
    for (i = 0; i < n; i++) {
        if (*ready) break;
        PAUSE();
    }
    return i;
}

int counted_nops(volatile int *ready, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (*ready) return 1;
        NOPS();
    }
    return 0;
}

/* A team's barrier: spin for a while, then sleep. */
extern int slow_path_of(void *);
void counted_then_calls(volatile int *generation, int old, unsigned long long spins) {
    for (unsigned long long i = 0; i < spins; i++) {
        if (*generation != old) return;
        PAUSE();
    }
    slow_path_of((void *)generation);
}

/* A timeout: the function that reports it takes a lock, and blocks for nothing that ends the wait. */
__attribute__((noinline)) static void report_under_lock(pthread_mutex_t *mutex) {
    pthread_mutex_lock(mutex);
    slow_path_of(mutex);
    pthread_mutex_unlock(mutex);
}
int counted_then_reports(volatile int *ready, unsigned n, pthread_mutex_t *mutex) {
    for (unsigned i = 0; i < n; i++) {
        if (*ready) return 1;
        PAUSE();
    }
    report_under_lock(mutex);
    return 0;
}
int counted_then_writes(volatile int *ready, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (*ready) return 1;
        PAUSE();
    }
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_write), "D"(2), "S"("late"), "d"(4) : "rcx", "r11", "memory");
    return 0;
}

/* The same, with what blocks for something else in the loop's own function. */
extern long late_of_all;
#define THEN(name, ...)                                                            \
    int counted_then_##name(volatile int *ready, unsigned n, pthread_mutex_t *mutex) { \
        for (unsigned i = 0; i < n; i++) {                                         \
            if (*ready) return 1;                                                  \
            PAUSE();                                                               \
        }                                                                          \
        __VA_ARGS__;                                                               \
        return 0;                                                                  \
    }
THEN(locks, pthread_mutex_lock(mutex), late_of_all++, pthread_mutex_unlock(mutex))
THEN(sleeps, usleep(10))
THEN(polls, poll(NULL, 0, 1))
THEN(yields, sched_yield())
THEN(asks, syscall(SYS_gettid))
THEN(sleeps_by_syscall, syscall(SYS_sched_yield))
THEN(wakes, syscall(SYS_futex, ready, FUTEX_WAKE, 1))

/* A number of tries is a timeout, too. */
int counted_tries_with_yields(volatile int *ready, unsigned n, unsigned tries) {
    while (tries-- > 0) {
        for (unsigned i = 0; i < n; i++) {
            if (*ready) return 1;
            PAUSE();
        }
        sched_yield();
    }
    return 0;
}

/* A loop of a server that counts how often nothing came. */
int counted_with_statistics(volatile int *ready, unsigned n) {
    for (;;) {
        for (unsigned i = 0; i < n; i++) {
            if (*ready) return 1;
            PAUSE();
        }
        late_of_all++;
        sched_yield();
    }
}

int blocks_and_sleeps(volatile int *ready, unsigned n) {
    for (;;) {
        for (unsigned i = 0; i < n; i++) {
            if (*ready) return 1;
            PAUSE();
        }
        usleep(10);
    }
}

void blocks_then_yields(volatile int *ready, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (*ready) return;
        PAUSE();
    }
    while (!*ready) sched_yield();
}

void blocks_futex(int *word, int old, unsigned long long spins) {
    for (unsigned long long i = 0; i < spins; i++) {
        if (__atomic_load_n(word, __ATOMIC_RELAXED) != old) return;
        PAUSE();
    }
    syscall(SYS_futex, word, FUTEX_WAIT, old, NULL);
}

void blocks_inline_futex(int *word, int old, unsigned long long spins) {
    for (unsigned long long i = 0; i < spins; i++) {
        if (__atomic_load_n(word, __ATOMIC_RELAXED) != old) return;
        PAUSE();
    }
    long result;
    register long timeout __asm__("r10") = 0;
    __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_futex), "D"(word), "S"(FUTEX_WAIT), "d"(old), "r"(timeout)
                     : "rcx", "r11", "memory");
}

void blocks_condition(volatile int *ready, unsigned n, pthread_mutex_t *mutex, pthread_cond_t *condition) {
    for (unsigned i = 0; i < n; i++) {
        if (*ready) return;
        PAUSE();
    }
    pthread_mutex_lock(mutex);
    while (!*ready) pthread_cond_wait(condition, mutex);
    pthread_mutex_unlock(mutex);
}

/* Spins, and yields after each thousandth round. */
void blocks_with_yield(volatile int *ready) {
    int rounds = 0;
    while (!*ready) {
        if (++rounds < 1000) PAUSE();
        else { sched_yield(); rounds = 0; }
    }
}

/* What follows lasts, or can be seen, or cannot be proven. */
struct cookie { volatile int tries; volatile int done; };
void bounded_member(struct cookie *cookie) {
    for (cookie->tries = 0; !cookie->done && cookie->tries < 100; cookie->tries++) PAUSE();
}

static volatile unsigned spins_of_all;
int bounded_global_counter(volatile int *ready, unsigned n) {
    for (spins_of_all = 0; spins_of_all < n; spins_of_all++) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

extern void publish(void *);
int bounded_counter_escapes(volatile int *ready, int n) {
    volatile int tries = 0;
    publish((void *)&tries);
    for (tries = 0; tries < n; tries++) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

/* A list's node is known to others, and with it what lies before it. */
struct waiter { volatile int tries; struct { void *next; } node; };
int bounded_container_escapes(volatile int *ready, int n) {
    struct waiter waiter = {0};
    publish(&waiter.node);
    for (; waiter.tries < n; waiter.tries++) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

int bounded_index(volatile int *slots, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (slots[i]) return 1;
        PAUSE();
    }
    return 0;
}

int bounded_modulo(volatile int *ready, volatile int *other, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (i % 8 == 0 && *other) return 2;
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

int bounded_two_counters(volatile int *ready, unsigned n, unsigned m) {
    for (unsigned i = 0, j = 7; i < n && j != m; i++, j += 3) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

int bounded_doubling(volatile int *ready, unsigned n) {
    for (unsigned i = 1; i < n; i *= 2) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

int bounded_store(volatile int *ready, volatile int *shared, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (*ready) return 1;
        *shared = 1;
        PAUSE();
    }
    return 0;
}

int bounded_moving_bound(volatile int *ready, unsigned n) {
    for (unsigned i = 0; i < n; i++, n -= 3) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

int bounded_short_counter(volatile int *ready, unsigned short n) {
    for (unsigned short i = 0; i != n; i++) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

/* It may step over the bound: the numbers tell, when it is moved on. */
int counted_to_unequal_in_steps(volatile int *ready, int n) {
    for (unsigned i = 10; i != (unsigned)n; i += 3) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

/* What is not counted in a general register. */
int bounded_double(volatile int *ready, double n) {
    for (double i = 0; i < n; i += 1) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

int bounded_float_product(volatile int *ready, float n) {
    for (float i = 1; i < n; i *= 1.5f) {
        if (*ready) return 1;
        PAUSE();
    }
    return 0;
}

int bounded_vector(volatile int *ready, int n) {
    __m128i step = _mm_set1_epi32(1), i = _mm_setzero_si128();
    for (; _mm_cvtsi128_si32(i) < n; i = _mm_add_epi32(i, step)) {
        if (*ready) return 1;
        PAUSE();
        __asm__("" : "+x"(i));
    }
    return 0;
}

int bounded_sum(volatile int *values, unsigned n) {
    unsigned sum = 0;
    for (unsigned i = 0; i < n; i++) {
        if (*values == 7) return 1;
        sum += *values;
        PAUSE();
    }
    return sum;
}

void hint_calls_in_every_round(volatile int *ready) {
    while (!*ready) { PAUSE(); sched_yield(); }
}

__attribute__((noinline)) void hint_relax(void) { PAUSE(); }
void nothing_calls_relax(volatile int *ready) {
    while (!*ready) hint_relax();
}

_Noreturn void noexit_for_ever(void) {
    for (;;) PAUSE();
}
