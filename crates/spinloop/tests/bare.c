/* Loops without a hint: those that wait, and those that do something. It goes on where loops.c ends. */

/* No hint, and no function that says so: the threads of a server that wait for work. */
struct __attribute__((aligned(64))) pending { atomic_ulong value; };
extern struct pending pending_of[128];
extern pthread_mutex_t mutex_of[128];
extern int threads;
extern void work_of(long id);
void blocks_without_hint(long id) {
    for (;;) {
        for (int i = 0; i < 1000000; i++)
            if (pending_of[id].value != 0) break;
        if (pending_of[id].value == 0) {
            pthread_mutex_lock(&mutex_of[id]);
            pthread_mutex_unlock(&mutex_of[id]);
            continue;
        }
        work_of(id);
        pending_of[id].value = 0;
    }
}

void blocks_without_hint_up(volatile int *ready, long n, pthread_mutex_t *mutex) {
    for (;;) {
        for (long i = 0; i < n; i++)
            if (*ready) return;
        pthread_mutex_lock(mutex);
        pthread_mutex_unlock(mutex);
    }
}

/* The main thread of the same server adds up what is pending. */
int wait_sum_of_others(void) {
    for (int i = 1; i < threads; i++) pending_of[i].value = i;
    work_of(0);
    for (;;) {
        unsigned long pending = 0;
        for (int i = 1; i < threads; i++) pending += pending_of[i].value;
        if (pending == 0) break;
    }
    return 1;
}

void wait_sum_of_array(volatile unsigned char *states, size_t n) {
    for (;;) {
        unsigned busy = 0;
        for (size_t i = 0; i != n; i++) busy |= states[i];
        if (!busy) return;
    }
}

/* Loops without a hint that do something. */
int nothing_counted_and_goes_on(volatile int *ready, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (*ready) return 1;
    return 0;
}

void nothing_counted_and_locks(volatile int *ready, long n, pthread_mutex_t *mutex) {
    for (long i = 0; i < n; i++)
        if (*ready) return;
    pthread_mutex_lock(mutex);
}

void nothing_searches_a_table(volatile int *table, unsigned n, pthread_mutex_t *mutex) {
    for (unsigned i = 0; i < n; i++)
        if (table[i]) return;
    pthread_mutex_lock(mutex);
}

void nothing_follows_a_pointer(volatile int *table, volatile int *end, pthread_mutex_t *mutex) {
    for (; table != end; table++)
        if (*table) return;
    pthread_mutex_lock(mutex);
}

void nothing_calibrates(volatile int *ready, long *rounds, pthread_mutex_t *mutex) {
    long sum = 0;
    for (long i = 0; i < 100000 && !*ready; i++) { sum += i; __asm__("" : "+r"(sum)); }
    *rounds = sum;
    pthread_mutex_lock(mutex);
}

void nothing_fills(volatile int *table, unsigned n, volatile int *stop, pthread_mutex_t *mutex) {
    for (unsigned i = 0; i < n && !*stop; i++) table[i] = 7;
    pthread_mutex_lock(mutex);
}

/* A loop around a loop: what the outer one has in mind from round to round. */
long nothing_adds_up_again(volatile long *values, size_t n, long goal) {
    long sum = 0;
    while (sum < goal)
        for (size_t i = 0; i != n; i++) sum += values[i];
    return sum;
}

long nothing_sums_rows(volatile long *values, volatile long *end, size_t columns) {
    long sum = 0;
    do {
        for (size_t i = 0; i != columns; i++) sum += values[i];
        values += columns;
    } while (values != end);
    return sum;
}

long nothing_other_column(volatile long *values, size_t n) {
    long sum, column = 0;
    do {
        sum = 0;
        for (size_t i = 0; i != n; i++) sum += values[i * 8 + column];
        column ^= 1;
        __asm__("" : "+r"(column));
    } while (sum);
    return column;
}

long nothing_rounds_of_sums(volatile long *values, size_t n) {
    long sum, rounds = 0;
    do {
        sum = 0;
        for (size_t i = 0; i != n; i++) sum += values[i];
        rounds++;
        __asm__("" : "+r"(rounds));
    } while (sum > rounds);
    return rounds;
}

void nothing_until_nothing_changes(volatile unsigned char *changed, size_t n) {
    _Bool any;
    do {
        any = 0;
        for (size_t i = 0; i != n; i++)
            if (changed[i]) { work_of(i); any = 1; }
    } while (any);
}

size_t nothing_strlen(const char *text) {
    const char *at = text;
    while (*at) { at++; __asm__("" : "+r"(at)); }
    return at - text;
}

const char *nothing_memchr(const char *text, char c, size_t n) {
    for (; n; n--, text++) if (*text == c) return text;
    return 0;
}

long nothing_sum(const long *values, const long *end) {
    long sum = 0;
    do { sum += *values++; __asm__("" : "+r"(sum)); } while (values != end);
    return sum;
}

struct list { struct list *next; long key; };
struct list *nothing_list(struct list *list, long key) {
    while (list->key != key) list = list->next;
    return list;
}

struct list *nothing_list_end(struct list *list) {
    while (list->next) list = list->next;
    return list;
}

long nothing_accumulates(volatile long *word) {
    long sum = 0;
    while (*word < 1000) { sum += *word; __asm__("" : "+r"(sum)); }
    return sum;
}

/* Waits until two readings differ: the reading of the round before lasts. */
int nothing_delay_line(volatile int *word) {
    int before = *word, now;
    while ((now = *word) == before) { before = now ^ 1; __asm__("" : "+r"(before)); }
    return now;
}

long nothing_counts(volatile long *word) {
    long rounds = 0;
    while (*word) { rounds++; __asm__("" : "+r"(rounds)); }
    return rounds;
}

void nothing_stores(volatile int *ready, volatile int *beat) {
    while (!*ready) *beat = 1;
}

void nothing_swaps(volatile int *ready, int *lock) {
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) {}
}
