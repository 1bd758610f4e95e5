/* Two threads hand a word to each other. Each waits for its turn in a loop that gives up after a number of
 * rounds, and then blocks. What the counter holds when the loop gives up is checked: a moved counter stops where the
 * counted one would. `counters ROUNDS US [NAME]` */
#include "turns.h"

enum { N = 1000 };

unsigned bound_unsigned = N;
int bound_int = N;
/* The upper half of a word that is read whole would be garbage. */
struct { unsigned bound, garbage; } pair = {N, 0x40000001};

/* What a loop does in a round. */
#define LOOK \
    do { \
        if (SEEN(cell, want)) return; \
        PAUSE; \
    } while (0)
#define LOOK_BEHIND \
    do { \
        PAUSE; \
        if (SEEN(cell, want)) return; \
    } while (0)
/* The counter is here when the loop gives up, and then the thread blocks. */
#define GAVE_UP_AT(counter, where) \
    do { \
        UNKNOWN(counter); \
        GAVE_UP((counter) == (where)); \
    } while (0)
#define GAVE_UP(what) \
    do { \
        CHECK(what); \
        block(cell, want); \
    } while (0)

KIND(up) {
    int i;
    for (i = 0; i < N; i++) LOOK;
    GAVE_UP_AT(i, N);
}

KIND(up_long) {
    long i;
    for (i = -N; i <= N; i += 3) LOOK;
    GAVE_UP_AT(i, -N + (2 * N / 3 + 1) * 3);
}

KIND(up_unequal) {
    unsigned i = 7;
    UNKNOWN(i);
    do {
        LOOK_BEHIND;
    } while (++i != N);
    GAVE_UP_AT(i, N);
}

KIND(down) {
    int i;
    for (i = N; i > 0; i--) LOOK_BEHIND;
    GAVE_UP_AT(i, 0);
}

KIND(down_first) {
    int i = N;
    while (--i) LOOK;
    GAVE_UP_AT(i, 0);
}

KIND(down_behind) {
    unsigned i = N;
    while (i--) LOOK;
    GAVE_UP_AT(i, ~0u);
}

KIND(down_signed) {
    long i = N;
    UNKNOWN(i);
    while (--i >= 0) LOOK;
    GAVE_UP_AT(i, -1);
}

KIND(global_bound) {
    int i;
    for (i = 0; i < __atomic_load_n(&bound_int, __ATOMIC_RELAXED); i++) LOOK;
    GAVE_UP_AT(i, N);
}

/* The counter is twice as wide as the word that bounds it. */
KIND(wide) {
    size_t i;
    for (i = 0; i < __atomic_load_n(&pair.bound, __ATOMIC_RELAXED); i++) LOOK;
    GAVE_UP_AT(i, N);
}

/* The same, bounded by half of a register whose other half is garbage. */
static NOINLINE void wide_argument(struct cell *cell, int want, uint64_t bound) {
    uint64_t i = 0;
    __asm__ volatile goto(
        "1: movl %k2, %%eax\n"
        "cmpq %%rax, %0\n"
        "jae 2f\n"
        "cmpl %k3, (%1)\n"
        "je %l[seen]\n"
        "incq %0\n"
        "pause\n"
        "jmp 1b\n"
        "2:"
        : "+r"(i)
        : "r"(&cell->word), "r"(bound), "r"(want)
        : "rax", "cc", "memory"
        : seen);
    GAVE_UP(i == N);
seen:
    return;
}
KIND(wide_register) { wide_argument(cell, want, 0x1234567800000000 | N); }

static NOINLINE void until(struct cell *cell, int want, int bound) {
    int i;
    for (i = 0; i < bound; i++) LOOK;
    GAVE_UP_AT(i, bound);
}
KIND(argument) { until(cell, want, bound_int); }
KIND(no_rounds) { until(cell, want, 0); }
KIND(one_round) { until(cell, want, 1); }

/* Two PAUSEs, and the counter moves between them. */
KIND(two_pauses) {
    unsigned i;
    for (i = 0; i != N; i++) {
        LOOK;
        UNKNOWN(i);
        i++;
        UNKNOWN(i);
        PAUSE;
    }
    GAVE_UP(i == N);
}

/* In the machine's own words: `text` counts in %0 and leaves for `seen` once the word (%1) is as wanted (%2). */
#define COUNT_BY(text) \
    __asm__ volatile goto(text : "+r"(i) : "r"(&cell->word), "r"(want) : "cc", "memory" : seen)
#define LOOK_IN_TEXT "cmpl %k2, (%1)\nje %l[seen]\n"
#define BETWEEN "pause\ncmpq $1000, %0\njne 1b\n"

/* Between the PAUSEs the counter has moved. */
KIND(between) {
    uint64_t i = 0;
    COUNT_BY("1: " LOOK_IN_TEXT "pause\nincq %0\n" BETWEEN);
    GAVE_UP(i == N);
seen:
    return;
}

/* The same, begun between the two. */
KIND(begun_between) {
    uint64_t i = 0;
    COUNT_BY("jmp 2f\n1: " LOOK_IN_TEXT "pause\nincq %0\n2: " BETWEEN);
    GAVE_UP(i == N);
seen:
    return;
}

/* The jump behind PAUSE reads what was set before it. */
KIND(flags) {
    uint64_t i = N;
    COUNT_BY("1: " LOOK_IN_TEXT "decq %0\npause\njnz 1b\n");
    GAVE_UP(i == 0);
seen:
    return;
}

KIND(unrolled) {
    int i;
#ifdef __clang__
#pragma clang loop unroll_count(4)
#else
#pragma GCC unroll 4
#endif
    for (i = 0; i < N; i++) LOOK;
    GAVE_UP_AT(i, N);
}

KIND(four_pauses) {
    int i;
    for (i = 0; i < N; i++) {
        LOOK;
        PAUSE;
        PAUSE;
        PAUSE;
    }
    GAVE_UP_AT(i, N);
}

KIND(nested) {
    int rounds, i = 0;
    for (rounds = 0; rounds < 10; rounds++) {
        for (i = 0; i < N / 10; i++) LOOK;
        UNKNOWN(i);
        CHECK(i == N / 10);
    }
    GAVE_UP_AT(rounds, 10);
}

/* A second variable lasts from round to round. */
KIND(sums) {
    int i;
    unsigned sum = 0;
    for (i = 0; i < N; i++) {
        if (SEEN(cell, want)) return;
        sum += 5;
        UNKNOWN(sum);
        PAUSE;
    }
    UNKNOWN(i);
    GAVE_UP(i == N && sum == 5 * N);
}

/* The counter is used in the loop for more than the bound. */
KIND(counts_in_use) {
    int i, even = 0;
    for (i = 0; i < N; i++) {
        if (SEEN(cell, want)) return;
        if ((i & 1) == 0) even++;
        PAUSE;
    }
    UNKNOWN(i);
    GAVE_UP(i == N && even == N / 2);
}

/* Others see the counter. */
static int seen_by_all;
KIND(shared) {
    int i;
    for (i = 0; i < N; i++) {
        if (SEEN(cell, want)) return;
        __atomic_add_fetch(&seen_by_all, 1, __ATOMIC_RELAXED);
        PAUSE;
    }
    GAVE_UP_AT(i, N);
}

/* The counter's address is known elsewhere. */
static int *volatile known;
KIND(address_known) {
    int i;
    int *volatile mine = &i;
    known = mine;
    for (i = 0; i < N; (*mine)++) LOOK;
    GAVE_UP(i == N);
}

KIND(volatile_local) {
    volatile int i;
    for (i = 0; i < N; i++) LOOK;
    GAVE_UP(i == N);
}

KIND(small) {
    uint16_t i;
    for (i = 0; i < N; i++) {
        LOOK;
        UNKNOWN(i);
    }
    GAVE_UP(i == N);
}

/* The rounds are spun twice as long each time. */
KIND(backoff) {
    int delay, rounds = 0;
    for (delay = 1; delay <= 256; delay *= 2) {
        for (int i = 0; i < delay; i++) LOOK;
        rounds++;
        UNKNOWN(rounds);
    }
    GAVE_UP(rounds == 9);
}

/* A look begins the count again. */
static int progress;
KIND(begins_again) {
    int i, seen = progress;
    for (i = 0; i < N; i++) {
        if (SEEN(cell, want)) return;
        int now = __atomic_load_n(&progress, __ATOMIC_RELAXED);
        if (now != seen) seen = now, i = 0;
        PAUSE;
    }
    GAVE_UP_AT(i, N);
}

/* The bound is compared in some rounds only. */
static int asks = 1;
KIND(sometimes) {
    int i = 0;
    for (;;) {
        if (SEEN(cell, want)) return;
        i++;
        if (__atomic_load_n(&asks, __ATOMIC_RELAXED) && i >= N) break;
        PAUSE;
    }
    GAVE_UP_AT(i, N);
}

KIND(nops) {
    int i;
    for (i = 0; i < N; i++) {
        if (SEEN(cell, want)) return;
        __asm__ volatile("nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop");
    }
    GAVE_UP_AT(i, N);
}

KIND(empty) {
    int i;
    for (i = 0; i < N && !SEEN(cell, want); i++) {}
    if (SEEN(cell, want)) return;
    UNKNOWN(i);
    GAVE_UP(i <= N);
}

/* No hint, and what comes next lets others run. */
#define YIELDS(what) \
    do { \
        CHECK(what); \
        while (!SEEN(cell, want)) sched_yield(); \
    } while (0)
KIND(no_hint) {
    long i;
    for (i = 0; i < 100 * N; i++)
        if (SEEN(cell, want)) return;
    UNKNOWN(i);
    YIELDS(i == 100 * N);
}

KIND(no_hint_down) {
    unsigned i = 100 * N;
    UNKNOWN(i);
    do
        if (SEEN(cell, want)) return;
    while ((i -= 4) != 0);
    UNKNOWN(i);
    YIELDS(i == 0);
}

/* What comes next does not block unless somebody holds the mutex, and nobody does. */
static pthread_mutex_t idle = PTHREAD_MUTEX_INITIALIZER;
KIND(comes_back) {
    for (;;) {
        for (int i = 0; i < 1000 * N; i++)
            if (SEEN(cell, want)) break;
        if (SEEN(cell, want)) return;
        pthread_mutex_lock(&idle);
        pthread_mutex_unlock(&idle);
    }
}

/* A round looks at all of some words. */
static struct cell others[4];
static int others_count = 4;
KIND(table_in_a_round) {
    int i;
    for (i = 0; i < N; i++) {
        int pending = 0;
        for (int j = 0; j < others_count; j++) pending += __atomic_load_n(&others[j].word, __ATOMIC_RELAXED);
        if (pending == 0 && SEEN(cell, want)) return;
    }
    UNKNOWN(i);
    YIELDS(i == N);
}

/* No wait: its index is all that it has. */
KIND(searches) {
    int i;
    for (i = 0; i < others_count; i++)
        if (__atomic_load_n(&others[i].word, __ATOMIC_RELAXED) != 0) break;
    UNKNOWN(i);
    YIELDS(i == 4);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
KIND(condition_variable) {
    int i;
    for (i = 0; i < N; i++) LOOK;
    UNKNOWN(i);
    CHECK(i == N);
    pthread_mutex_lock(&mutex);
    while (!SEEN(cell, want)) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
}

KIND(yields) {
    int i;
    for (i = 0; i < 100; i++) LOOK;
    UNKNOWN(i);
    CHECK(i == 100);
    while (!SEEN(cell, want)) sched_yield();
}

static const struct way ways[] = {
    WAY(up), WAY(up_long), WAY(up_unequal), WAY(down), WAY(down_first), WAY(down_behind), WAY(down_signed),
    WAY(global_bound), WAY(wide), WAY(wide_register), WAY(argument), WAY(no_rounds), WAY(one_round),
    WAY(two_pauses), WAY(between), WAY(begun_between), WAY(flags), WAY(unrolled), WAY(four_pauses), WAY(nested), WAY(sums),
    WAY(counts_in_use), WAY(shared), WAY(address_known), WAY(volatile_local), WAY(small), WAY(backoff),
    WAY(begins_again), WAY(sometimes), WAY(nops), WAY(empty), WAY(no_hint), WAY(no_hint_down),
    WAY(comes_back), WAY(table_in_a_round), WAY(searches), WAY(condition_variable), WAY(yields),
};

static void signal_condition(void) {
    pthread_mutex_lock(&mutex);
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
}

static void choose_signal(const struct way *way) { also_wake = way->wait == condition_variable ? signal_condition : NULL; }

int main(int count, char **arguments) {
    hand_over_by(ways, sizeof ways / sizeof *ways, choose_signal, count, arguments);
    return 0;
}
