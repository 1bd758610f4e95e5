/* Loops that poll by calls, and loops that work by calls: the first word of a function's name is what is to be said of its loop, as in
   loops.c. The functions that are called begin with `do`. */
#define CALLED static __attribute__((noinline, noclone))

struct queue {
    _Atomic int head, tail;
    long tries;
    _Atomic int taken;
    pthread_mutex_t lock;
    int items[64], sum;
    struct queue *next;
    int (*look)(struct queue *);
};
static struct queue queues[4];
static long looks;

CALLED int do_look(struct queue *queue) { return atomic_load(&queue->head) != atomic_load(&queue->tail); }
void poll_look(struct queue *queue) { while (!do_look(queue)) {} }
void poll_global(void) { while (!do_look(&queues[1])) {} }

/* A shared library calls its own functions through its table of imports. */
int do_look_exported(struct queue *queue) { return do_look(queue); }
void poll_exported(struct queue *queue) { while (!do_look_exported(queue)) {} }

/* A count of its own. */
CALLED int do_count(struct queue *queue) { queue->tries++; return do_look(queue); }
void poll_with_hidden_count(struct queue *queue) { while (!do_count(queue)) {} }
CALLED int do_count_first(long *tries, _Atomic int **ready) { ++*tries; return atomic_load(*ready); }
void poll_with_hidden_count_elsewhere(long *tries, _Atomic int **ready) { while (!do_count_first(tries, ready)) {} }
CALLED int do_count_all(struct queue *queue) { __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED); return do_look(queue); }
void poll_with_atomic_count(struct queue *queue) { while (!do_count_all(queue)) {} }

/* It takes an item and says so, or finds nothing and says so. */
CALLED int do_pop(struct queue *queue, int *item) {
    int tail = atomic_load(&queue->tail);
    if (atomic_load(&queue->head) == tail)
        return 0;
    *item = queue->items[tail & 63];
    atomic_store(&queue->tail, tail + 1);
    return 1;
}
int poll_until_popped(struct queue *queue) { int item; while (!do_pop(queue, &item)) {} return item; }

/* The step that takes an item may fail, and only then nothing has happened. */
CALLED int do_take_atomically(struct queue *queue) {
    int tail = atomic_load(&queue->tail);
    while (atomic_load(&queue->head) != tail)
        if (atomic_compare_exchange_weak(&queue->tail, &tail, tail + 1))
            return 1;
    return 0;
}
void poll_until_taken(struct queue *queue) { while (!do_take_atomically(queue)) {} }

/* Under a lock of the C library, and under one of its own. */
CALLED int do_look_locked(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    int found = queue->sum != 0;
    pthread_mutex_unlock(&queue->lock);
    return found;
}
void poll_locked(struct queue *queue) { while (!do_look_locked(queue)) {} }
CALLED int do_look_spinning(struct queue *queue) {
    if (atomic_exchange(&queue->taken, 1))
        return 0;
    int found = READ(queue->sum) != 0;
    atomic_store(&queue->taken, 0);
    return found;
}
void poll_spinning(struct queue *queue) { while (!do_look_spinning(queue)) {} }

/* Through a list, and a few functions deep. */
CALLED int do_look_at_all(struct queue *queue) {
    int found = 0;
    for (; queue != NULL; queue = READ(queue->next))
        found |= do_look(queue);
    return found;
}
CALLED int do_look_deep(struct queue *queue) { return do_look_at_all(queue) || do_look_spinning(queue); }
void poll_list(struct queue *queue) { while (!do_look_at_all(queue)) {} }
void poll_deep(struct queue *queue) { while (!do_look_deep(queue)) {} }

/* Two places, and a time. */
int poll_two(struct queue *queue, struct queue *other) {
    for (;;) {
        if (do_look(queue))
            return 1;
        if (do_look(other))
            return 2;
    }
}
CALLED long do_tell_time(void) { struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now); return now.tv_sec; }
int poll_for_a_time(struct queue *queue, long until) {
    while (!do_look(queue))
        if (do_tell_time() >= until)
            return 0;
    return 1;
}

/* What is called goes on. */
CALLED int do_take(struct queue *queue) {
    if (queue->tail == queue->head)
        return 0;
    queue->sum += queue->items[queue->tail++ & 63];
    return 1;
}
void nothing_drains(struct queue *queue) { while (do_take(queue)) {} }
CALLED struct queue *do_step(struct queue *queue) { return READ(queue->next); }
void nothing_walks(struct queue *queue) { while (queue) queue = do_step(queue); }
CALLED int do_compare(const volatile char *one, const volatile char *other) { return *one == *other; }
long nothing_compares(const char *one, const char *other) {
    long at = 0;
    while (do_compare(one + at, other + at))
        at++;
    return at;
}
/* A count that ends it. */
CALLED int do_tick(struct queue *queue) { return ++queue->tries > 1000; }
void nothing_ticks(struct queue *queue) { while (!do_tick(queue)) {} }
void nothing_counts_tries(struct queue *queue) { while (!do_count(queue) && queue->tries < 1000) {} }
CALLED int do_count_here(struct queue *queue, int *tries) { ++*tries; return do_look(queue); }
int nothing_counts_its_own_tries(struct queue *queue) {
    int tries = 0;
    while (!do_count_here(queue, &tries) && tries < 1000) {}
    return tries;
}
CALLED int do_count_down(struct queue *queue) { return --queue->tries == 0; }
void nothing_counts_down(struct queue *queue) { while (!do_count_down(queue)) {} }
CALLED int do_tick_atomically(struct queue *queue) { return atomic_fetch_add(&queue->taken, 1) > 1000; }
void nothing_ticks_atomically(struct queue *queue) { while (!do_tick_atomically(queue)) {} }
CALLED int do_release(struct queue *queue) { return atomic_fetch_sub(&queue->taken, 1) == 1; }
void nothing_releases(struct queue *queue) { while (!do_release(queue)) {} }
/* A count that ends it, and that the loop reads by another way. */
struct context { struct queue *queue; };
void nothing_counts_tries_by_another_pointer(struct queue *queue, struct context *context) {
    while (!do_count(queue) && READ(context->queue)->tries < 1000) {}
}
CALLED int do_count_at(long *tries, _Atomic int *ready) { ++*tries; return atomic_load(ready); }
void nothing_counts_in_a_member(struct queue *queue) {
    while (!do_count_at(&queue->tries, &queue->head) && queue->tries < 1000) {}
}
static __thread long own_tries;
CALLED int do_count_own(struct queue *queue) { own_tries++; return do_look(queue); }
CALLED long *do_own_tries(void) { return &own_tries; }
void nothing_counts_own_tries(struct queue *queue) { while (!do_count_own(queue) && own_tries < 1000) {} }
void nothing_counts_own_tries_by_a_call(struct queue *queue) {
    while (!do_count_own(queue) && READ(*do_own_tries()) < 1000) {}
}
void nothing_counts_own_tries_by_a_pointer(struct queue *queue, long *tries) {
    while (!do_count_own(queue) && READ(*tries) < 1000) {}
}
static long kinds[8];
CALLED int do_count_kind(struct queue *queue, int kind) { kinds[kind]++; return do_look(queue); }
void nothing_counts_kinds(struct queue *queue, int kind) {
    while (!do_count_kind(queue, kind) && kinds[3] < 1000) {}
}
int nothing_counts_in_its_frame(struct queue *queue) {
    int item;
    volatile int tries = 0;
    while (!do_pop(queue, &item)) {
        tries = tries + 1;
        if (tries > 1000)
            return -1;
    }
    return item;
}
/* A count of what was done, by a loop that ends when it is told to. */
struct worker { struct queue *queue; long operations, hits; };
void nothing_measures(struct worker *worker) {
    while (!atomic_load(&queues[0].head)) {
        do_look(worker->queue);
        worker->operations++;
    }
}
void nothing_measures_hits(struct worker *worker) {
    while (!atomic_load(&queues[0].head)) {
        if (do_look(worker->queue))
            worker->hits++;
        worker->operations++;
    }
}
void nothing_measures_until_it_fails(struct worker *worker) {
    while (!atomic_load(&queues[0].head)) {
        if (!do_look(worker->queue))
            return;
        worker->operations++;
    }
}
void nothing_measures_locks(struct worker *worker) {
    while (!atomic_load(&queues[0].head)) {
        do_look_locked(worker->queue);
        worker->operations++;
    }
}
CALLED void do_operation(struct worker *worker) { do_look(worker->queue); worker->operations++; }
void nothing_measures_inside(struct worker *worker) {
    while (!atomic_load(&queues[0].head))
        do_operation(worker);
}
/* What is written is computed by the caller, or told by a function. */
CALLED void do_set(struct queue *queue, int value) { queue->sum = value; }
void nothing_sets(struct queue *queue) { while (!do_look(queue)) do_set(queue, READ(queue->sum) * 3 + 1); }
CALLED int do_set_last(struct queue *queue, long one, long two, long three, long four, long five, long value) {
    queue->sum = (int)value;
    return do_look(queue) + (one + two + three + four + five == 7);
}
void nothing_sets_from_the_stack(struct queue *queue) {
    while (!do_set_last(queue, 1, 1, 1, 1, 1, READ(queue->sum) * 3 + 1)) {}
}
CALLED void do_tell(struct queue *queue, int *found) { if (do_look(queue)) *found = 1; }
void nothing_passes_on_what_it_is_told(struct queue *queue) {
    do {
        int found = 0;
        do_tell(queue, &found);
        queue->items[0] = found;
    } while (!READ(queue->tries));
}
/* One atomic step is the work. */
CALLED int do_acquire(struct queue *queue) {
    int left = atomic_load(&queue->taken);
    while (left > 0)
        if (atomic_compare_exchange_weak(&queue->taken, &left, left - 1))
            return 1;
    return 0;
}
void nothing_drains_permits(struct queue *queue) { while (do_acquire(queue)) {} }
CALLED struct queue *do_pop_node(struct queue *_Atomic *top) {
    struct queue *node = atomic_load(top);
    while (node && !atomic_compare_exchange_weak(top, &node, node->next)) {}
    return node;
}
void nothing_drains_a_stack(struct queue *_Atomic *top) { while (do_pop_node(top)) {} }
CALLED int do_toggle(struct queue *queue) { atomic_fetch_xor(&queue->taken, 1); return do_look(queue); }
void nothing_toggles(struct queue *queue) { while (!do_toggle(queue)) {} }
CALLED int do_exchange(struct queue *queue) {
    return atomic_exchange(&queue->taken, atomic_load(&queue->head) * 5) == 3;
}
void nothing_exchanges(struct queue *queue) { while (!do_exchange(queue)) {} }
/* A delay: nothing but the clock ends it. */
struct timer { long end; };
CALLED int do_expire(struct timer *timer) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec >= READ(timer->end);
}
void nothing_delays(struct timer *timer) { while (!do_expire(timer)) {} }
void nothing_delays_until(struct timer *timer) { while (do_tell_time() < READ(timer->end)) {} }
/* It computes, and memory only ends it. */
CALLED long do_compute(long seed) {
    for (int n = 0; n < 1000; n++)
        seed = seed * 6364136223846793005 + 1442695040888963407;
    return seed;
}
long nothing_computes(struct queue *queue) {
    while (!do_look(queue))
        queue->sum = (int)do_compute(queue->sum);
    return 0;
}
long nothing_burns(struct queue *queue, long seed) {
    do
        seed = do_compute(seed);
    while (!do_look(queue));
    return seed;
}
/* Nobody knows what is called. */
void nothing_calls_a_pointer(struct queue *queue) { while (!queue->look(queue)) {} }
extern int unknown(struct queue *queue);
void nothing_calls_another_library(struct queue *queue) { while (!unknown(queue)) {} }
/* It sleeps. */
void nothing_sleeps(struct queue *queue) { while (!do_look(queue)) usleep(10); }
