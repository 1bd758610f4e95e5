/*
 * Manx for C++11 and later: locks of ranges of keys, as manx_range.h has them, with guards.
 *
 *     manx::range_lock file;
 *     {
 *         manx::range_guard head = file.lock(0, 4096);
 *         manx::range_guard tail = head.split(1024);
 *         head.downgrade();
 *     }
 *
 * Ranges are half-open; a range that ends at manx::range_end has all keys from its start on. What
 * cannot be had without waiting, or by the deadline, is a guard that is false. Every other failure
 * is a std::system_error with the error number that manx_range.h names for it. If that is EDEADLK,
 * its text tells the circle. What was held before is still held then.
 */
#ifndef MANX_RANGE_HPP
#define MANX_RANGE_HPP

#include "manx.hpp"
#include "manx_range.h"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace manx {

typedef manx_range_span_t range_span;
typedef manx_range_options_t range_options;
typedef manx_range_statistics_t range_statistics;

/* The end of a range that has no end. */
enum : std::uint64_t { range_end = MANX_RANGE_END };

/* What may be asked of a set of ranges: a sum of these. */
enum range_flags : std::uint32_t {
    range_exclusive = 0,
    range_shared = MANX_RANGE_SHARED,
    range_merge = MANX_RANGE_MERGE,
};

namespace detail {

[[noreturn]] inline void raise(int error) {
    std::string why;
    if (error == EDEADLK) {
        why.resize(manx_range_deadlock(nullptr, 0) + 1);
        why.resize(manx_range_deadlock(&why[0], why.size()));
    }
    throw std::system_error(error, std::generic_category(), why);
}

/* Whether it was done; false if it would have to be waited for, or longer. */
inline bool done(int result) {
    if (result == EBUSY || result == ETIMEDOUT)
        return false;
    if (result != 0)
        raise(result);
    return true;
}

inline void check(int result) {
    if (result != 0)
        raise(result);
}

} // namespace detail

/* A range that is held, until the end of the scope. It may be moved, also to another thread. */
class range_guard {
public:
    typedef manx_range_held_t *native_handle_type;

    /* Holds nothing. */
    range_guard() noexcept : held_ MANX_RANGE_HELD_INIT {}
    range_guard(range_guard &&other) noexcept : held_(other.held_) { other.held_ = nothing(); }
    range_guard &operator=(range_guard &&other) noexcept {
        if (this != &other) {
            manx_range_unlock(&held_);
            held_ = other.held_;
            other.held_ = nothing();
        }
        return *this;
    }
    range_guard(const range_guard &) = delete;
    range_guard &operator=(const range_guard &) = delete;
    ~range_guard() { manx_range_unlock(&held_); }

    /* Whether it holds something. */
    bool owns_lock() const noexcept { return manx_range_held_span(&held_, nullptr, nullptr) == 0; }
    explicit operator bool() const noexcept { return owns_lock(); }

    /* What it holds. */
    range_span span() const {
        range_span span = {0, 0};
        detail::check(manx_range_held_span(&held_, &span, nullptr));
        return span;
    }
    /* Whether others may share it. */
    bool shared() const {
        int shared = 0;
        detail::check(manx_range_held_span(&held_, nullptr, &shared));
        return shared != 0;
    }

    void unlock() { detail::check(manx_range_unlock(&held_)); }
    /* Keeps what is before the key, and returns the rest. */
    range_guard split(std::uint64_t key) {
        range_guard high;
        detail::check(manx_range_split(&held_, key, &high.held_));
        return high;
    }
    /* Gives back all but this part. */
    void shrink(std::uint64_t start, std::uint64_t end) { detail::check(manx_range_shrink(&held_, start, end)); }
    void downgrade() { detail::check(manx_range_downgrade(&held_)); }
    void upgrade() { detail::check(manx_range_upgrade(&held_)); }
    template <class Rep, class Period> bool try_upgrade_for(const std::chrono::duration<Rep, Period> &time) {
        return detail::done(manx_range_timedupgrade(&held_, detail::after(time)));
    }
    template <class Clock, class Duration>
    bool try_upgrade_until(const std::chrono::time_point<Clock, Duration> &deadline) {
        return detail::done(manx_range_timedupgrade(&held_, detail::at(deadline)));
    }
    native_handle_type native_handle() noexcept { return &held_; }

private:
    static manx_range_held_t nothing() noexcept {
        const manx_range_held_t nothing = MANX_RANGE_HELD_INIT;
        return nothing;
    }

    manx_range_held_t held_;
};

/* Ranges that are held together, until the end of the scope. It may be moved. */
class range_set {
public:
    typedef manx_range_set_t *native_handle_type;

    /* Holds nothing. */
    range_set() noexcept : set_(nullptr) {}
    /* Holds what the function of C has locked, and is to be unlocked. */
    explicit range_set(native_handle_type set) noexcept : set_(set) {}
    range_set(range_set &&other) noexcept : set_(other.set_) { other.set_ = nullptr; }
    range_set &operator=(range_set &&other) noexcept {
        std::swap(set_, other.set_);
        return *this;
    }
    range_set(const range_set &) = delete;
    range_set &operator=(const range_set &) = delete;
    ~range_set() { manx_range_unlock_many(set_); }

    bool owns_lock() const noexcept { return set_ != nullptr; }
    explicit operator bool() const noexcept { return owns_lock(); }
    void unlock() {
        detail::check(manx_range_unlock_many(set_));
        set_ = nullptr;
    }
    native_handle_type native_handle() noexcept { return set_; }

private:
    native_handle_type set_;
};

/*
 * A holder of ranges, such as a transaction. It gives them back at the end of the scope, and may be
 * moved.
 */
class range_owner {
public:
    typedef manx_range_owner_t *native_handle_type;

    /* With more ranges than `ranges_max`, if that is not 0, neighbours become one. */
    explicit range_owner(manx_range_t *lock, std::size_t ranges_max = 0) : owner_(nullptr) {
        detail::check(manx_range_owner_create(&owner_, lock, ranges_max));
    }
    range_owner(range_owner &&other) noexcept : owner_(other.owner_) { other.owner_ = nullptr; }
    range_owner &operator=(range_owner &&other) noexcept {
        std::swap(owner_, other.owner_);
        return *this;
    }
    range_owner(const range_owner &) = delete;
    range_owner &operator=(const range_owner &) = delete;
    ~range_owner() { manx_range_owner_destroy(owner_); }

    void lock(std::uint64_t start, std::uint64_t end) { detail::check(manx_range_owner_lock(owner_, start, end)); }
    bool try_lock(std::uint64_t start, std::uint64_t end) {
        return detail::done(manx_range_owner_trylock(owner_, start, end));
    }
    template <class Rep, class Period>
    bool try_lock_for(std::uint64_t start, std::uint64_t end, const std::chrono::duration<Rep, Period> &time) {
        return detail::done(manx_range_owner_timedlock(owner_, start, end, detail::after(time)));
    }
    template <class Clock, class Duration>
    bool try_lock_until(std::uint64_t start, std::uint64_t end,
                        const std::chrono::time_point<Clock, Duration> &deadline) {
        return detail::done(manx_range_owner_timedlock(owner_, start, end, detail::at(deadline)));
    }
    void lock_shared(std::uint64_t start, std::uint64_t end) {
        detail::check(manx_range_owner_rdlock(owner_, start, end));
    }
    bool try_lock_shared(std::uint64_t start, std::uint64_t end) {
        return detail::done(manx_range_owner_tryrdlock(owner_, start, end));
    }
    template <class Rep, class Period>
    bool try_lock_shared_for(std::uint64_t start, std::uint64_t end,
                             const std::chrono::duration<Rep, Period> &time) {
        return detail::done(manx_range_owner_timedrdlock(owner_, start, end, detail::after(time)));
    }
    template <class Clock, class Duration>
    bool try_lock_shared_until(std::uint64_t start, std::uint64_t end,
                               const std::chrono::time_point<Clock, Duration> &deadline) {
        return detail::done(manx_range_owner_timedrdlock(owner_, start, end, detail::at(deadline)));
    }

    /* Undoes the last lock of exactly this range. */
    void unlock(std::uint64_t start, std::uint64_t end) {
        detail::check(manx_range_owner_unlock(owner_, start, end));
    }
    /* Gives back all that is held of the range, and keeps what lies outside of it. */
    void release(std::uint64_t start, std::uint64_t end) {
        detail::check(manx_range_owner_release(owner_, start, end));
    }
    void release_all() { detail::check(manx_range_owner_release_all(owner_)); }
    /* What it holds, in the order of locking. */
    std::vector<range_span> held() const {
        std::vector<range_span> spans(manx_range_owner_held(owner_, nullptr, 0));
        manx_range_owner_held(owner_, spans.data(), spans.size());
        return spans;
    }
    native_handle_type native_handle() noexcept { return owner_; }

private:
    native_handle_type owner_;
};

/* A lock of ranges of keys. It has to outlive all that is held of it; it is not destroyed otherwise. */
class range_lock {
public:
    typedef manx_range_t *native_handle_type;

    range_lock() : lock_(nullptr) { detail::check(manx_range_create(&lock_, nullptr)); }
    explicit range_lock(const range_options &options) : lock_(nullptr) {
        detail::check(manx_range_create(&lock_, &options));
    }
    range_lock(const range_lock &) = delete;
    range_lock &operator=(const range_lock &) = delete;
    ~range_lock() { manx_range_destroy(lock_); }

    range_guard lock(std::uint64_t start, std::uint64_t end) {
        range_guard guard;
        detail::check(manx_range_lock(lock_, start, end, guard.native_handle()));
        return guard;
    }
    range_guard try_lock(std::uint64_t start, std::uint64_t end) {
        range_guard guard;
        detail::done(manx_range_trylock(lock_, start, end, guard.native_handle()));
        return guard;
    }
    template <class Rep, class Period>
    range_guard try_lock_for(std::uint64_t start, std::uint64_t end, const std::chrono::duration<Rep, Period> &time) {
        range_guard guard;
        detail::done(manx_range_timedlock(lock_, start, end, detail::after(time), guard.native_handle()));
        return guard;
    }
    template <class Clock, class Duration>
    range_guard try_lock_until(std::uint64_t start, std::uint64_t end,
                               const std::chrono::time_point<Clock, Duration> &deadline) {
        range_guard guard;
        detail::done(manx_range_timedlock(lock_, start, end, detail::at(deadline), guard.native_handle()));
        return guard;
    }
    range_guard lock_shared(std::uint64_t start, std::uint64_t end) {
        range_guard guard;
        detail::check(manx_range_rdlock(lock_, start, end, guard.native_handle()));
        return guard;
    }
    range_guard try_lock_shared(std::uint64_t start, std::uint64_t end) {
        range_guard guard;
        detail::done(manx_range_tryrdlock(lock_, start, end, guard.native_handle()));
        return guard;
    }
    template <class Rep, class Period>
    range_guard try_lock_shared_for(std::uint64_t start, std::uint64_t end,
                                    const std::chrono::duration<Rep, Period> &time) {
        range_guard guard;
        detail::done(manx_range_timedrdlock(lock_, start, end, detail::after(time), guard.native_handle()));
        return guard;
    }
    template <class Clock, class Duration>
    range_guard try_lock_shared_until(std::uint64_t start, std::uint64_t end,
                                      const std::chrono::time_point<Clock, Duration> &deadline) {
        range_guard guard;
        detail::done(manx_range_timedrdlock(lock_, start, end, detail::at(deadline), guard.native_handle()));
        return guard;
    }

    /* All of the ranges or none; with nothing in hand while it waits. The flags are a sum of range_flags. */
    range_set lock_many(const std::vector<range_span> &spans, std::uint32_t flags = range_exclusive) {
        manx_range_set_t *set = nullptr;
        detail::check(manx_range_lock_many(lock_, spans.data(), spans.size(), flags, &set));
        return range_set(set);
    }
    range_set try_lock_many(const std::vector<range_span> &spans, std::uint32_t flags = range_exclusive) {
        manx_range_set_t *set = nullptr;
        detail::done(manx_range_trylock_many(lock_, spans.data(), spans.size(), flags, &set));
        return range_set(set);
    }
    template <class Rep, class Period>
    range_set try_lock_many_for(const std::vector<range_span> &spans,
                                const std::chrono::duration<Rep, Period> &time,
                                std::uint32_t flags = range_exclusive) {
        manx_range_set_t *set = nullptr;
        const std::uint64_t deadline_ns = detail::after(time);
        detail::done(manx_range_timedlock_many(lock_, spans.data(), spans.size(), flags, deadline_ns, &set));
        return range_set(set);
    }

    /* A holder that locks range by range, and gives all back at the end. See range_owner. */
    range_owner owner(std::size_t ranges_max = 0) { return range_owner(lock_, ranges_max); }

    range_statistics statistics() const {
        range_statistics now = range_statistics();
        detail::check(manx_range_statistics(lock_, &now));
        return now;
    }
    /* The holders and the waiters: lines for people (MANX_RANGE_TEXT), or MANX_RANGE_JSON. */
    std::string dump(std::uint32_t format = MANX_RANGE_TEXT) const {
        std::string text;
        std::size_t length = manx_range_dump(lock_, format, nullptr, 0);
        /* Another thread may have come meanwhile. */
        do {
            text.resize(length + 1);
            length = manx_range_dump(lock_, format, &text[0], text.size());
        } while (length >= text.size());
        text.resize(length);
        return text;
    }
    native_handle_type native_handle() noexcept { return lock_; }

private:
    native_handle_type lock_;
};

} // namespace manx

#endif // MANX_RANGE_HPP
