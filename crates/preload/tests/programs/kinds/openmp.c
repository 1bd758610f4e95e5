/* Every construct of OpenMP that waits, thousands of times, each with its result checked. `openmp MS` */
#include "kinds.h"
#include <omp.h>

enum { N = 64 };
static long until_us, ms;
static int threads;
#define FOR_A_WHILE for (until_us = now_us() + 1000 * ms; now_us() < until_us; rounds++)

static long loops(void) {
    long rounds = 0;
    FOR_A_WHILE {
        long values[N], sum = 0;
#pragma omp parallel for num_threads(threads)
        for (int i = 0; i < N; i++) values[i] = i * rounds;
#pragma omp parallel for num_threads(threads) reduction(+ : sum) schedule(dynamic, 3)
        for (int i = 0; i < N; i++) sum += values[i];
        CHECK(sum == rounds * N * (N - 1) / 2);
    }
    return rounds;
}

static long barriers(void) {
    long rounds = 0;
    FOR_A_WHILE {
        int reached[64] = {0}, once = 0, mine = 0;
#pragma omp parallel num_threads(threads)
        {
            for (int round = 1; round <= 10; round++) {
                reached[omp_get_thread_num()] = round;
#pragma omp barrier
                for (int i = 0; i < omp_get_num_threads(); i++) CHECK(reached[i] == round);
#pragma omp single
                once++;
#pragma omp barrier
            }
            int given;
#pragma omp single copyprivate(given)
            given = 7;
#pragma omp atomic
            mine += given;
        }
        CHECK(once == 10 && mine == 7 * threads);
    }
    return rounds;
}

static long locks(void) {
    long rounds = 0;
    omp_lock_t lock;
    omp_nest_lock_t nested;
    omp_init_lock(&lock), omp_init_nest_lock(&nested);
    FOR_A_WHILE {
        int by_critical = 0, by_lock = 0, by_nested = 0;
#pragma omp parallel num_threads(threads)
        for (int i = 0; i < 20; i++) {
#pragma omp critical
            by_critical++;
            omp_set_lock(&lock);
            by_lock++;
            omp_unset_lock(&lock);
            omp_set_nest_lock(&nested), omp_set_nest_lock(&nested);
            by_nested++;
            omp_unset_nest_lock(&nested), omp_unset_nest_lock(&nested);
        }
        CHECK(by_critical == 20 * threads && by_lock == 20 * threads && by_nested == 20 * threads);
    }
    return rounds;
}

static long fibonacci(int n) {
    long a, b;
    if (n < 2) return n;
#pragma omp task shared(a)
    a = fibonacci(n - 1);
#pragma omp task shared(b)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

static long tasks(void) {
    long rounds = 0;
    FOR_A_WHILE {
        long result = 0, chain = 1;
#pragma omp parallel num_threads(threads)
#pragma omp single
        {
            result = fibonacci(9);
            for (int i = 0; i < 8; i++) {
#pragma omp task depend(inout : chain)
                chain = chain * 3 + i;
            }
#pragma omp taskgroup
            {
#pragma omp taskloop
                for (int i = 0; i < 16; i++) {
#pragma omp atomic
                    result++;
                }
            }
        }
        CHECK(result == 34 + 16 && chain == 8197);
    }
    return rounds;
}

static long ordered(void) {
    long rounds = 0;
    FOR_A_WHILE {
        long values[N + 1] = {1}, order = 0;
#pragma omp parallel for ordered(1) num_threads(threads) schedule(static, 1)
        for (int i = 1; i <= N; i++) {
#pragma omp ordered depend(sink : i - 1)
            values[i] = values[i - 1] + i;
#pragma omp ordered depend(source)
        }
        CHECK(values[N] == 1 + N * (N + 1) / 2);
#pragma omp parallel for ordered num_threads(threads) schedule(dynamic, 1)
        for (int i = 0; i < N; i++) {
#pragma omp ordered
            order = order * 3 % 1000003 + i;
        }
        long expected = 0;
        for (int i = 0; i < N; i++) expected = expected * 3 % 1000003 + i;
        CHECK(order == expected);
    }
    return rounds;
}

static long nested(void) {
    long rounds = 0;
    omp_set_max_active_levels(2);
    FOR_A_WHILE {
        int sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
        {
            int inner = 0;
#pragma omp parallel for num_threads(2) reduction(+ : inner)
            for (int i = 0; i < 10; i++) inner += i;
            sum += inner;
        }
        CHECK(sum == 90);
    }
    return rounds;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    ms = atol(arguments[1]);
    static const int counts[] = {2, 4, 16};
    for (int n = 0; n < 3; n++) {
        threads = counts[n];
        printf("%d threads: loops %ld", threads, loops());
        printf(" barriers %ld", barriers());
        printf(" locks %ld", locks());
        printf(" tasks %ld", tasks());
        printf(" ordered %ld", ordered());
        printf(" nested %ld\n", nested());
        fflush(stdout);
    }
    return 0;
}
