// The locks of C++, which call the C library's by inline functions and from libstdc++.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>
#include <unistd.h>

using namespace std::chrono_literals;

#define CHECK(condition) \
    ((condition) ? (void)0 : (std::fprintf(stderr, "%s:%d: %s: %s does not hold\n", __FILE__, __LINE__, __func__, #condition), _exit(1)))

template <typename Body> static void in_threads(int count, Body body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++)
        threads.emplace_back(body, i);
    for (auto &thread : threads)
        thread.join();
}

template <typename Lockable> static void excludes(Lockable &lockable, int threads, int rounds) {
    std::atomic<int> inside{0};
    long count = 0;
    in_threads(threads, [&](int) {
        for (int round = 0; round < rounds; round++) {
            std::unique_lock<Lockable> held(lockable, std::defer_lock);
            if (round % 8 == 7)
                while (!held.try_lock())
                    std::this_thread::yield();
            else
                held.lock();
            CHECK(inside.fetch_add(1) == 0);
            count++;
            CHECK(inside.fetch_sub(1) == 1);
        }
    });
    CHECK(count == static_cast<long>(threads) * rounds);
}

static void mutex() {
    std::mutex mutex;
    excludes(mutex, 8, 5000);
    mutex.lock();
    in_threads(1, [&](int) { CHECK(!mutex.try_lock()); });
    mutex.unlock();
    // Two at once, in both orders.
    std::mutex a, b;
    long count = 0;
    in_threads(4, [&](int me) {
        for (int round = 0; round < 2000; round++) {
            if (me % 2) {
                std::scoped_lock both(a, b);
                count++;
            } else {
                std::scoped_lock both(b, a);
                count++;
            }
        }
    });
    CHECK(count == 8000);
}

static void condition_variable_wait_for() {
    std::mutex mutex;
    std::condition_variable changed;
    int open = 0, waiting = 0;
    {
        std::unique_lock held(mutex);
        auto before = std::chrono::steady_clock::now();
        CHECK(!changed.wait_for(held, 5ms, [&] { return open > 0; }));
        CHECK(std::chrono::steady_clock::now() - before >= 5ms);
        CHECK(held.owns_lock());
        in_threads(1, [&](int) { CHECK(!mutex.try_lock()); });
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            std::unique_lock held(mutex);
            waiting++;
            CHECK(changed.wait_for(held, 40s, [&] { return open > 0; }));
            open--;
        });
    // That this gets the mutex shows that those who wait have released it.
    for (int seen = 0; seen != 4; std::this_thread::sleep_for(200us)) {
        std::lock_guard held(mutex);
        seen = waiting;
    }
    {
        std::lock_guard held(mutex);
        open = 4;
    }
    changed.notify_one();
    changed.notify_all();
    for (auto &thread : threads)
        thread.join();
    CHECK(open == 0);
}

static void condition_variable_wait_until() {
    std::mutex mutex;
    std::condition_variable changed;
    std::unique_lock held(mutex);
    for (int round = 0; round < 4; round++) {
        auto steady = std::chrono::steady_clock::now() + round * 1ms;
        while (changed.wait_until(held, steady) == std::cv_status::no_timeout)
            ;
        CHECK(std::chrono::steady_clock::now() >= steady);
        auto system = std::chrono::system_clock::now() + round * 1ms;
        while (changed.wait_until(held, system) == std::cv_status::no_timeout)
            ;
        CHECK(std::chrono::system_clock::now() >= system);
    }
    bool done = false;
    std::thread other([&] {
        std::lock_guard inner(mutex);
        done = true;
        changed.notify_one();
    });
    CHECK(changed.wait_until(held, std::chrono::system_clock::now() + 40s, [&] { return done; }));
    held.unlock();
    other.join();
}

static void timed_mutex() {
    std::timed_mutex mutex;
    excludes(mutex, 6, 3000);
    mutex.lock();
    in_threads(2, [&](int) {
        auto before = std::chrono::steady_clock::now();
        CHECK(!mutex.try_lock_for(4ms));
        CHECK(std::chrono::steady_clock::now() - before >= 4ms);
        auto deadline = std::chrono::system_clock::now() + 4ms;
        CHECK(!mutex.try_lock_until(deadline));
        CHECK(std::chrono::system_clock::now() >= deadline);
    });
    std::thread later([&] {
        CHECK(mutex.try_lock_for(40s));
        mutex.unlock();
    });
    std::this_thread::sleep_for(2ms);
    mutex.unlock();
    later.join();
}

static void recursive_mutex() {
    std::recursive_mutex mutex;
    excludes(mutex, 6, 3000);
    for (int i = 0; i < 50; i++)
        mutex.lock();
    CHECK(mutex.try_lock());
    for (int i = 0; i < 50; i++)
        mutex.unlock();
    in_threads(1, [&](int) { CHECK(!mutex.try_lock()); });
    mutex.unlock();
    std::recursive_timed_mutex timed;
    excludes(timed, 6, 2000);
    timed.lock();
    CHECK(timed.try_lock_for(1ms));
    in_threads(1, [&](int) { CHECK(!timed.try_lock_for(2ms)); });
    timed.unlock();
    timed.unlock();
}

static void shared_mutex() {
    std::shared_mutex mutex;
    std::atomic<int> readers{0}, writers{0};
    long count = 0;
    in_threads(8, [&](int me) {
        for (int round = 0; round < 2000; round++) {
            if ((round + me) % 4 == 0) {
                std::unique_lock held(mutex);
                CHECK(writers.fetch_add(1) == 0 && readers.load() == 0);
                count++;
                writers.fetch_sub(1);
            } else {
                std::shared_lock held(mutex);
                readers.fetch_add(1);
                CHECK(writers.load() == 0);
                readers.fetch_sub(1);
            }
        }
    });
    CHECK(count == 8 * 500);
    std::shared_timed_mutex timed;
    timed.lock_shared();
    in_threads(1, [&](int) { CHECK(!timed.try_lock_for(2ms) && timed.try_lock_shared_for(40s)); timed.unlock_shared(); });
    timed.unlock_shared();
}

static void any_lock_and_exceptions() {
    std::recursive_mutex mutex;
    std::condition_variable_any changed;
    bool open = false;
    std::thread waiter([&] {
        std::unique_lock held(mutex);
        changed.wait(held, [&] { return open; });
    });
    {
        std::lock_guard held(mutex);
        open = true;
    }
    changed.notify_all();
    waiter.join();
    // An exception leaves a wait through frames of the condition variable.
    std::mutex plain;
    std::condition_variable never;
    bool caught = false;
    try {
        std::unique_lock held(plain);
        never.wait_for(held, 40s, []() -> bool { throw std::runtime_error("out"); });
    } catch (const std::runtime_error &) {
        caught = true;
    }
    CHECK(caught && plain.try_lock());
    plain.unlock();
}

static void futures_and_once() {
    std::once_flag flag;
    std::atomic<int> calls{0};
    in_threads(6, [&](int) {
        std::call_once(flag, [&] {
            std::this_thread::sleep_for(2ms);
            calls++;
        });
        CHECK(calls == 1);
    });
    std::vector<std::future<int>> results;
    for (int i = 0; i < 20; i++)
        results.push_back(std::async(std::launch::async, [i] { return i * i; }));
    for (int i = 0; i < 20; i++)
        CHECK(results[i].get() == i * i);
    std::promise<void> promise;
    auto future = promise.get_future();
    CHECK(future.wait_for(2ms) == std::future_status::timeout);
    std::thread setter([&] { promise.set_value_at_thread_exit(); });
    future.get();
    setter.join();
}

static const char *name = "no probe";

static void hangs(int) {
    if (write(2, name, std::strlen(name)) < 0 || write(2, ": hangs\n", 8) < 0)
        _exit(4);
    _exit(3);
}

int main(int arguments, char **argument) {
    static const struct {
        const char *name;
        void (*run)();
    } probes[] = {
        {"mutex", mutex},
        {"condition_variable_wait_for", condition_variable_wait_for},
        {"condition_variable_wait_until", condition_variable_wait_until},
        {"timed_mutex", timed_mutex},
        {"recursive_mutex", recursive_mutex},
        {"shared_mutex", shared_mutex},
        {"any_lock_and_exceptions", any_lock_and_exceptions},
        {"futures_and_once", futures_and_once},
    };
    if (arguments == 2 && std::string("--list") == argument[1]) {
        for (auto &probe : probes)
            std::puts(probe.name);
        return 0;
    }
    for (auto &probe : probes)
        if (arguments == 2 && std::string(probe.name) == argument[1]) {
            name = probe.name;
            signal(SIGALRM, hangs);
            alarm(45);
            probe.run();
            return 0;
        }
    std::fprintf(stderr, "no such probe: try --list\n");
    return 2;
}
