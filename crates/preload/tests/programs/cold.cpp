/* A landing pad in the cold part of a function, which only an unconditional jump leads to, comes back
 * into the middle of a wait: between the PAUSE and the load. */
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <immintrin.h>
#include <pthread.h>
#include <thread>

static std::atomic<int> ready;

__attribute__((noinline)) static int work(int n) {
    if (n < 100) throw n;
    return n;
}

extern "C" __attribute__((noipa)) int wait_and_work(std::atomic<int> *flag, int n) {
    bool again = false;
    while (true) {
        if (!again) _mm_pause();
        again = false;
        if (__builtin_expect(!flag->load(std::memory_order_relaxed), 1)) continue;
        try {
            return work(n);
        } catch (int) {
            n++;
            again = true;
        }
    }
}

static void *comes_later(void *) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ready = 1;
    return nullptr;
}

int main() {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, comes_later, nullptr) != 0) abort();
    int n = wait_and_work(&ready, 0);
    pthread_join(thread, nullptr);
    printf("%d\n", n);
    return n == 100 ? 0 : 1;
}
