// manx_range.hpp: guards that move, owners, sets, and the errors that are thrown.

#include "../../../preload/tests/programs/check.h"
#include <manx_range.hpp>

#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using std::chrono::milliseconds;
using std::chrono::steady_clock;

static_assert(sizeof(manx::range_guard) == 2 * sizeof(void *), "");
static_assert(!std::is_copy_constructible<manx::range_guard>::value, "");
static_assert(std::is_nothrow_move_constructible<manx::range_guard>::value, "");
static_assert(!std::is_copy_constructible<manx::range_set>::value, "");
static_assert(!std::is_copy_constructible<manx::range_owner>::value, "");
static_assert(!std::is_move_constructible<manx::range_lock>::value, "");

namespace {

bool is_free(manx::range_lock &lock, std::uint64_t start, std::uint64_t end) {
    return lock.try_lock(start, end).owns_lock();
}

// The error number that is thrown; 0 if none is.
template <class Act> int thrown(Act act, std::string *why = nullptr) {
    try {
        act();
    } catch (const std::system_error &error) {
        if (why)
            *why = error.what();
        return error.code().value();
    }
    return 0;
}

void guards() {
    manx::range_lock lock;
    {
        manx::range_guard guard = lock.lock(0, 100);
        CHECK(guard && !guard.shared() && guard.span().start == 0 && guard.span().end == 100);
        CHECK(!lock.try_lock(99, 101) && !lock.try_lock_shared(99, 101));
        CHECK(!lock.try_lock_for(0, 1, milliseconds(1)) && !lock.try_lock_until(0, 1, steady_clock::now()));
        CHECK(!lock.try_lock_shared_for(0, 1, milliseconds(1)));
        CHECK(!lock.try_lock_shared_until(0, 1, steady_clock::now()));

        manx::range_guard moved(std::move(guard));
        CHECK(moved && !guard && !is_free(lock, 0, 1));
        guard = std::move(moved);
        CHECK(guard && !moved);
        // Moving into a guard that holds something gives that back.
        manx::range_guard other = lock.lock(200, 300);
        other = std::move(guard);
        CHECK(is_free(lock, 200, 300) && !is_free(lock, 0, 1));

        manx::range_guard high = other.split(50);
        CHECK(other.span().end == 50 && high.span().start == 50);
        high.shrink(60, 70);
        CHECK(is_free(lock, 50, 60) && is_free(lock, 70, 100));
        high.downgrade();
        CHECK(high.shared() && lock.try_lock_shared(60, 70) && !is_free(lock, 60, 70));
        {
            const manx::range_guard reader = lock.lock_shared(65, manx::range_end);
            CHECK(!high.try_upgrade_for(milliseconds(1)) && !high.try_upgrade_until(steady_clock::now()));
            CHECK(high.shared());
        }
        high.upgrade();
        CHECK(!high.shared());
        // To another thread, which gives it back.
        std::thread([](manx::range_guard) {}, std::move(high)).join();
        CHECK(is_free(lock, 50, 100));

        CHECK(thrown([&] { high.unlock(); }) == EPERM && thrown([&] { high.span(); }) == EPERM);
        CHECK(thrown([&] { other.split(50); }) == EINVAL && thrown([&] { other.shrink(0, 51); }) == EPERM);
        CHECK(thrown([&] { lock.lock(5, 5); }) == EINVAL && thrown([&] { lock.try_lock(6, 5); }) == EINVAL);
        CHECK(other && !is_free(lock, 0, 50));
        other.unlock();
        CHECK(is_free(lock, 0, manx::range_end));
    }
    CHECK(lock.try_lock_for(0, 1, milliseconds(1)));
    CHECK(lock.try_lock_shared_for(0, 1, milliseconds(1)));
    CHECK(lock.try_lock_until(0, 1, (steady_clock::time_point::min)()));
    CHECK(lock.try_lock_shared_until(0, 1, (steady_clock::time_point::max)()));
    try {
        const manx::range_guard guard = lock.lock(0, 10);
        throw 1;
    } catch (int) {
        CHECK(is_free(lock, 0, 10));
    }
}

void sets() {
    manx::range_lock lock;
    manx::range_set set = lock.lock_many({{50, 60}, {0, 10}});
    CHECK(set && !is_free(lock, 0, 1) && !is_free(lock, 59, 60) && is_free(lock, 10, 50));
    CHECK(!lock.try_lock_many({{5, 6}}) && !lock.try_lock_many_for({{5, 6}}, milliseconds(1)));
    manx::range_set moved(std::move(set));
    CHECK(moved && !set);
    set = std::move(moved);
    set.unlock();
    CHECK(!set && thrown([&] { set.unlock(); }) == EPERM && is_free(lock, 0, manx::range_end));
    CHECK(thrown([&] { lock.lock_many({{0, 10}, {5, 15}}); }) == EINVAL);
    set = lock.try_lock_many({{0, 10}, {5, 15}}, manx::range_merge | manx::range_shared);
    CHECK(set && lock.try_lock_shared(0, 15) && !is_free(lock, 0, 15));
}

void owners() {
    manx::range_lock lock;
    {
        manx::range_owner owner = lock.owner(), other = lock.owner();
        owner.lock(0, 100);
        owner.lock_shared(50, 60);
        CHECK(owner.try_lock(0, 10) && owner.try_lock_shared(0, 10) && owner.held().size() == 4);
        CHECK(!other.try_lock(0, 1) && !other.try_lock_shared(0, 1) && other.held().empty());
        CHECK(!other.try_lock_for(0, 1, milliseconds(1)) && !other.try_lock_shared_for(0, 1, milliseconds(1)));
        CHECK(!other.try_lock_until(0, 1, steady_clock::now()));
        CHECK(!other.try_lock_shared_until(0, 1, steady_clock::now()));
        owner.unlock(0, 10);
        owner.release(20, manx::range_end);
        CHECK(is_free(lock, 20, 100) && !is_free(lock, 19, 20));
        manx::range_owner moved(std::move(owner));
        CHECK(!moved.held().empty() && moved.held()[0].end == 20);
        CHECK(thrown([&] { moved.unlock(5, 6); }) == EPERM);
        moved.release_all();
        CHECK(is_free(lock, 0, 100) && other.try_lock(0, 1));
    }
    CHECK(is_free(lock, 0, manx::range_end));
    manx::range_owner few = lock.owner(2);
    for (std::uint64_t row = 0; row < 10; row += 2)
        few.lock(row, row + 1);
    CHECK(few.held().size() <= 2 && !is_free(lock, 1, 2));
}

void figures() {
    manx::range_options options = manx::range_options();
    options.detect_deadlocks = 1;
    manx::range_lock lock(options);
    options.block_log2 = 64;
    CHECK(thrown([&] { manx::range_lock wrong(options); }) == EINVAL);
    std::string why;
    const manx::range_guard guard = lock.lock(0, 10);
    CHECK(thrown([&] { lock.lock(5, 15); }, &why) == EDEADLK);
    CHECK(why.find("waits for 5..15") != std::string::npos);
    const std::string text = lock.dump(), json = lock.dump(MANX_RANGE_JSON);
    CHECK(text.find("0..10") != std::string::npos && text.find('\0') == std::string::npos);
    CHECK(json.front() == '{' && json.back() == '}');
    CHECK(lock.statistics().acquired == 1 && lock.statistics().given_up == 1);
    CHECK(manx_range_destroy(lock.native_handle()) == EBUSY);
}

} // namespace

int main() {
    guards();
    sets();
    owners();
    figures();
}
