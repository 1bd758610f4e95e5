// manx.hpp with all that the standard library has for locks.

#include "../../../preload/tests/programs/check.h"
#include <manx.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <type_traits>
#if __cplusplus >= 201402L
#include <shared_mutex>
#endif

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

static_assert(sizeof(manx::mutex) == 8, "");
static_assert(sizeof(manx::condition_variable) == 8, "");
static_assert(sizeof(manx::shared_mutex) == 8, "");
static_assert(!std::is_copy_constructible<manx::mutex>::value, "");
static_assert(!std::is_copy_constructible<manx::epoch>::value, "");

namespace {

// Initialised before anything runs: the constructor is constexpr.
manx::mutex mutex;

// Whether another thread could take it now.
template <class Lock> bool is_free(Lock &lock) {
    bool taken = false;
    std::thread([&] {
        taken = lock.try_lock();
        if (taken)
            lock.unlock();
    }).join();
    return taken;
}

void guards() {
    {
        std::lock_guard<manx::mutex> guard(mutex);
        CHECK(!is_free(mutex));
    }
    CHECK(is_free(mutex));
    std::unique_lock<manx::mutex> lock(mutex, std::defer_lock);
    CHECK(lock.try_lock());
    std::thread([&] {
        CHECK(!mutex.try_lock_for(milliseconds(1)));
        CHECK(!mutex.try_lock_for(milliseconds(-1)));
        CHECK(!mutex.try_lock_until(steady_clock::now() + milliseconds(1)));
        CHECK(!mutex.try_lock_until(system_clock::now() - hours(1)));
        CHECK(!(std::unique_lock<manx::mutex>(mutex, std::chrono::duration<double>(0.001))));
    }).join();
    lock.unlock();
    CHECK(mutex.try_lock_for(hours(1)));
    mutex.unlock();
    CHECK(mutex.try_lock_for((hours::max)()));
    mutex.unlock();
    CHECK(mutex.try_lock_until((steady_clock::time_point::max)()));
    mutex.unlock();
    CHECK(mutex.try_lock_until((steady_clock::time_point::min)()));
    mutex.unlock();
    CHECK(manx_mutex_trylock(mutex.native_handle()) == 0);
    CHECK(!is_free(mutex));
    mutex.unlock();

    manx::mutex patient(milliseconds(10));
    std::lock(mutex, patient);
    CHECK(!is_free(mutex) && !is_free(patient));
    mutex.unlock();
    patient.unlock();
#if __cplusplus >= 201703L
    {
        std::scoped_lock both(mutex, patient);
        CHECK(!is_free(mutex) && !is_free(patient));
    }
#endif
    CHECK(is_free(mutex) && is_free(patient));
}

void shared() {
    manx::shared_mutex lock;
#if __cplusplus >= 201402L
    {
        std::shared_lock<manx::shared_mutex> reader(lock);
        CHECK(lock.try_lock_shared());
        lock.unlock_shared();
        CHECK(!is_free(lock));
        CHECK(!lock.try_lock_for(milliseconds(1)));
    }
#endif
    {
        std::unique_lock<manx::shared_mutex> writer(lock);
        CHECK(!lock.try_lock_shared());
        CHECK(!lock.try_lock_shared_for(milliseconds(1)));
        CHECK(!lock.try_lock_shared_until(steady_clock::now()));
        CHECK(!lock.try_lock_until(steady_clock::now()));
    }
    CHECK(is_free(lock));
    manx::shared_mutex patient(milliseconds(10));
    {
        std::unique_lock<manx::shared_mutex> writer(patient);
        CHECK(!patient.try_lock_shared());
    }
    CHECK(is_free(patient));
    // As after 2^21 readers, if none has left.
    lock.native_handle()->state = UINT64_C(1) << 21;
    bool thrown = false;
    try {
        lock.lock_shared();
    } catch (const std::system_error &error) {
        thrown = error.code() == std::errc::resource_unavailable_try_again;
    }
    CHECK(thrown);
}

template <class Condition> void turns() {
    Condition condition;
    int turn = 0;
    auto play = [&](int me) {
        for (int i = 0; i < 200; i++) {
            std::unique_lock<manx::mutex> lock(mutex);
            condition.wait(lock, [&] { return turn % 2 == me; });
            turn++;
            condition.notify_all();
        }
    };
    std::thread other(play, 1);
    play(0);
    other.join();
    CHECK(turn == 400);

    std::unique_lock<manx::mutex> lock(mutex);
    const auto never = [] { return false; };
    CHECK(condition.wait_for(lock, milliseconds(1)) == std::cv_status::timeout);
    CHECK(!condition.wait_for(lock, milliseconds(1), never));
    CHECK(condition.wait_until(lock, steady_clock::now()) == std::cv_status::timeout);
    CHECK(!condition.wait_until(lock, system_clock::now() + milliseconds(1), never));
    CHECK(!condition.wait_until(lock, (steady_clock::time_point::min)(), never));
    CHECK(condition.wait_for(lock, seconds(60), [] { return true; }));
    CHECK(lock.owns_lock() && !is_free(mutex));
}

void epochs() {
    CHECK(manx::epoch::window_ns() == UINT64_MAX);
    for (int i = 0; i < 20; i++)
        manx::epoch(1, seconds(1), i % 2 ? 99.9 : 50);
    {
        manx::epoch outer(1, seconds(1));
        CHECK(manx::epoch::window_ns() == 100000000);
        {
            manx::epoch inner(2, std::chrono::nanoseconds(0));
            CHECK(manx::epoch::window_ns() != 100000000);
            inner.abandon();
            CHECK(manx::epoch::window_ns() == 100000000);
        }
        CHECK(manx::epoch::window_ns() == 100000000);
    }
    try {
        manx::epoch failing(1, (hours::max)());
        throw 1;
    } catch (int) {
    }
    CHECK(manx::epoch::window_ns() == UINT64_MAX);
}

} // namespace

int main() {
    guards();
    shared();
    turns<manx::condition_variable>();
    turns<std::condition_variable_any>();
    epochs();
}
