// Threads throw exceptions through several functions while others wait in a loop; each arrives where it is caught. A waiter is
// cancelled in the loop in between, and its destructors run.
#include "check.h"

#include <atomic>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static volatile int go;
static std::atomic<long> caught, destroyed, waiting;

struct Counted {
    ~Counted() { destroyed++; }
};

// The compiler must not see that it throws nothing.
extern "C" __attribute__((noipa)) void wait_here() {
    while (go == 0)
        __builtin_ia32_pause();
}

__attribute__((noinline)) static void deep(int depth, long value) {
    Counted counted;
    if (depth == 0)
        throw std::runtime_error(std::to_string(value));
    deep(depth - 1, value);
    __asm__ volatile("");
}

static void thrower() {
    for (long n = 0; n < 2000; n++) {
        try {
            deep(5, n);
        } catch (const std::exception &error) {
            CHECK(error.what() == std::to_string(n));
            caught++;
        }
    }
}

static void *waiter(void *) {
    Counted counted;
    waiting++;
    wait_here();
    __asm__ volatile("");
    return nullptr;
}

// Asynchronous cancellation reaches the loop itself.
static void *cancelled(void *) {
    Counted counted;
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    waiting++;
    wait_here();
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old);
    return nullptr;
}

int main(int count, char **) {
    pthread_t waiters[2], victim;
    for (auto &thread : waiters)
        CHECK(pthread_create(&thread, nullptr, waiter, nullptr) == 0);
    std::vector<std::thread> throwers;
    for (int n = 0; n < 4; n++)
        throwers.emplace_back(thrower);
    for (auto &thread : throwers)
        thread.join();
    CHECK(caught == 4 * 2000 && destroyed == 4 * 2000 * 6);
    if (count > 1) {
        CHECK(pthread_create(&victim, nullptr, cancelled, nullptr) == 0);
        while (waiting < 3)
            usleep(100);
        usleep(20000);
        CHECK(pthread_cancel(victim) == 0);
        void *result;
        CHECK(pthread_join(victim, &result) == 0 && result == PTHREAD_CANCELED);
        CHECK(destroyed == 4 * 2000 * 6 + 1);
    }
    go = 1;
    for (auto &thread : waiters)
        CHECK(pthread_join(thread, nullptr) == 0);
    return 0;
}
