/*
 * Manx for C++11 and later: what manx.h has, with the standard library's names.
 *
 *     manx::mutex mutex;
 *     {
 *         manx::epoch request(1, std::chrono::milliseconds(2));
 *         std::lock_guard<manx::mutex> guard(mutex);
 *     }
 *
 * manx::mutex is a TimedLockable, manx::shared_mutex a SharedTimedLockable: std::unique_lock, std::shared_lock, std::lock and
 * std::condition_variable_any work with them. manx::condition_variable waits with std::unique_lock<manx::mutex>.
 *
 * A deadline of another clock than std::chrono::steady_clock becomes a time from now.
 */
#ifndef MANX_HPP
#define MANX_HPP

#include "manx.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>

namespace manx {

namespace detail {

/* When this is over, in nanoseconds of CLOCK_MONOTONIC. */
template <class Rep, class Period>
std::uint64_t after(const std::chrono::duration<Rep, Period> &time) {
    /* In floating point, so that no unit overflows; more than a century is never. */
    const double ns = std::chrono::duration<double, std::nano>(time).count();
    const std::uint64_t now = manx_now_ns();
    if (!(ns > 0))
        return now;
    if (ns > 3.2e18)
        return UINT64_MAX;
    /* Exact where it matters, and never too early. */
    const std::chrono::nanoseconds whole = std::chrono::duration_cast<std::chrono::nanoseconds>(time);
    return now + static_cast<std::uint64_t>(whole.count()) + 1;
}

template <class Clock, class Duration>
std::uint64_t at(const std::chrono::time_point<Clock, Duration> &deadline) {
    const typename Clock::time_point now = Clock::now();
    /* Time points that are long over cannot be subtracted from. */
    return deadline > now ? after(deadline - now) : manx_now_ns();
}

} // namespace detail

/* A mutex of eight bytes. */
class mutex {
public:
    typedef manx_mutex_t *native_handle_type;

    constexpr mutex() noexcept : mutex_ MANX_MUTEX_INIT {}
    /* With a window of its own: for so long its waiters may be overtaken. */
    explicit mutex(std::chrono::nanoseconds window) noexcept : mutex_ MANX_MUTEX_INIT {
        manx_mutex_init(&mutex_, window.count() > 0 ? static_cast<std::uint64_t>(window.count()) : 1);
    }
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    void lock() noexcept { manx_mutex_lock(&mutex_); }
    bool try_lock() noexcept { return manx_mutex_trylock(&mutex_) == 0; }
    template <class Rep, class Period> bool try_lock_for(const std::chrono::duration<Rep, Period> &time) {
        return manx_mutex_timedlock(&mutex_, detail::after(time)) == 0;
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &deadline) {
        return manx_mutex_timedlock(&mutex_, detail::at(deadline)) == 0;
    }
    void unlock() noexcept { manx_mutex_unlock(&mutex_); }
    native_handle_type native_handle() noexcept { return &mutex_; }

private:
    manx_mutex_t mutex_;
};

/* A readers-writer lock of eight bytes. */
class shared_mutex {
public:
    typedef manx_rwlock_t *native_handle_type;

    constexpr shared_mutex() noexcept : lock_ MANX_RWLOCK_INIT {}
    /* With a window of its own: for so long its waiters may be overtaken. */
    explicit shared_mutex(std::chrono::nanoseconds window) noexcept : lock_ MANX_RWLOCK_INIT {
        manx_rwlock_init(&lock_, window.count() > 0 ? static_cast<std::uint64_t>(window.count()) : 1);
    }
    shared_mutex(const shared_mutex &) = delete;
    shared_mutex &operator=(const shared_mutex &) = delete;

    void lock() noexcept { manx_rwlock_wrlock(&lock_); }
    bool try_lock() noexcept { return manx_rwlock_trywrlock(&lock_) == 0; }
    template <class Rep, class Period> bool try_lock_for(const std::chrono::duration<Rep, Period> &time) {
        return manx_rwlock_timedwrlock(&lock_, detail::after(time)) == 0;
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &deadline) {
        return manx_rwlock_timedwrlock(&lock_, detail::at(deadline)) == 0;
    }
    void unlock() noexcept { manx_rwlock_wrunlock(&lock_); }

    /* Throws std::system_error if there are more readers than can be counted. */
    void lock_shared() {
        if (const int error = manx_rwlock_rdlock(&lock_))
            throw std::system_error(error, std::generic_category());
    }
    bool try_lock_shared() noexcept { return manx_rwlock_tryrdlock(&lock_) == 0; }
    template <class Rep, class Period> bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &time) {
        return manx_rwlock_timedrdlock(&lock_, detail::after(time)) == 0;
    }
    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &deadline) {
        return manx_rwlock_timedrdlock(&lock_, detail::at(deadline)) == 0;
    }
    void unlock_shared() noexcept { manx_rwlock_rdunlock(&lock_); }
    native_handle_type native_handle() noexcept { return &lock_; }

private:
    manx_rwlock_t lock_;
};

/* A condition variable of eight bytes, for std::unique_lock<manx::mutex>. */
class condition_variable {
public:
    typedef manx_cond_t *native_handle_type;

    constexpr condition_variable() noexcept : cond_ MANX_COND_INIT {}
    condition_variable(const condition_variable &) = delete;
    condition_variable &operator=(const condition_variable &) = delete;

    void notify_one() noexcept { manx_cond_signal(&cond_); }
    void notify_all() noexcept { manx_cond_broadcast(&cond_); }

    void wait(std::unique_lock<mutex> &lock) { manx_cond_wait(&cond_, lock.mutex()->native_handle()); }
    template <class Predicate> void wait(std::unique_lock<mutex> &lock, Predicate done) {
        while (!done())
            wait(lock);
    }

    template <class Clock, class Duration>
    std::cv_status wait_until(std::unique_lock<mutex> &lock,
                              const std::chrono::time_point<Clock, Duration> &deadline) {
        const std::cv_status status = wait_to(lock, detail::at(deadline));
        /* The clock may not be ours, and may have been set. */
        return Clock::now() < deadline ? std::cv_status::no_timeout : status;
    }
    template <class Clock, class Duration, class Predicate>
    bool wait_until(std::unique_lock<mutex> &lock, const std::chrono::time_point<Clock, Duration> &deadline,
                    Predicate done) {
        while (!done()) {
            if (wait_until(lock, deadline) == std::cv_status::timeout)
                return done();
        }
        return true;
    }

    template <class Rep, class Period>
    std::cv_status wait_for(std::unique_lock<mutex> &lock, const std::chrono::duration<Rep, Period> &time) {
        return wait_to(lock, detail::after(time));
    }
    template <class Rep, class Period, class Predicate>
    bool wait_for(std::unique_lock<mutex> &lock, const std::chrono::duration<Rep, Period> &time,
                  Predicate done) {
        const std::uint64_t deadline_ns = detail::after(time);
        while (!done()) {
            if (wait_to(lock, deadline_ns) == std::cv_status::timeout)
                return done();
        }
        return true;
    }

    native_handle_type native_handle() noexcept { return &cond_; }

private:
    std::cv_status wait_to(std::unique_lock<mutex> &lock, std::uint64_t deadline_ns) {
        const int result = manx_cond_timedwait(&cond_, lock.mutex()->native_handle(), deadline_ns);
        return result == 0 ? std::cv_status::no_timeout : std::cv_status::timeout;
    }

    manx_cond_t cond_;
};

/* An epoch from here to the end of the scope; `percentile` of a hundred are to end in time. */
class epoch {
public:
    template <class Rep, class Period>
    epoch(std::uint64_t id, const std::chrono::duration<Rep, Period> &target, double percentile = 99)
        : id_(id), slo_ns_(to_ns(target)), percentile_(percentile), open_(true) {
        manx_epoch_start(id_);
    }
    epoch(const epoch &) = delete;
    epoch &operator=(const epoch &) = delete;
    ~epoch() {
        if (open_)
            manx_epoch_end_at(id_, slo_ns_, percentile_);
    }

    /* It ends now and teaches nothing: a request that failed early says nothing of the others. */
    void abandon() noexcept {
        if (open_)
            manx_epoch_abandon(id_);
        open_ = false;
    }

    /* For how long the calling thread may be overtaken; UINT64_MAX outside of any epoch. */
    static std::uint64_t window_ns() noexcept { return manx_epoch_window_ns(); }

private:
    template <class Rep, class Period>
    static std::uint64_t to_ns(const std::chrono::duration<Rep, Period> &target) {
        const double ns = std::chrono::duration<double, std::nano>(target).count();
        if (!(ns > 0))
            return 0;
        return ns > 1.8e19 ? UINT64_MAX : static_cast<std::uint64_t>(ns);
    }

    std::uint64_t id_;
    std::uint64_t slo_ns_;
    double percentile_;
    bool open_;
};

} // namespace manx

#endif // MANX_HPP
