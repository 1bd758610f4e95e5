//! RocksDB's tree of locked ranges by itself, without the transactions that users of RocksDB reach it by.
//!
//!     c++ -std=c++17 -O2 -shared -fPIC rocksdb_locktree.cpp -o rocksdb_locktree.so -lrocksdb
//!
//! The tree is PerconaFT's `toku::locktree`. The library exports its functions but installs no header, so the few that are used
//! are declared here as RocksDB 7.8 has them; another version is refused when this is compiled. Nothing is assumed of its
//! objects but that they fit into the memory that they are given here, and that zeroes are what they are before
//! their `create`: that is how PerconaFT makes them.
//!
//! A held range is an owner of the tree, as a transaction is: its address is its number. An owner that finds others in
//! its way makes a request that waits in the tree, and each release lets the tree look at the requests again, as RocksDB does.
//! Ranges are exclusive: the tree lets two share if their ranges are the same, and not if they only overlap. Keys are numbers of 64
//! bits, and its ranges include both ends, so callers name the last key.
//!
//! Invariants:
//!   1. An owner's number is its own as long as it holds or waits, since an owner is one allocation until it is freed.
//!   2. A request is in the tree between `start` and the end of `wait` only; so its memory may be used again.

#include <rocksdb/utilities/transaction_db_mutex.h>
#include <rocksdb/version.h>

#if ROCKSDB_MAJOR != 7 || ROCKSDB_MINOR != 8
#error "the tree's functions are declared as RocksDB 7.8 has them"
#endif

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

struct DICTIONARY_ID {
    uint64_t dictid;
};

/// A key.
struct __toku_dbt {
    void *data;
    size_t size;
    size_t ulen;
    uint32_t flags;
};
using Key = __toku_dbt;
using Factory = std::shared_ptr<rocksdb::TransactionDBMutexFactory>;

namespace toku {

class locktree;
class range_buffer;
struct lock_wait_info;

class comparator {
  public:
    int (*compare)(void *, const Key *, const Key *);
    void *argument;
    uint8_t magic;
};

/// Owners that are in the way.
class alignas(16) txnid_set {
  public:
    void create();
    void destroy();

  private:
    char memory[256];
};

class alignas(16) range_buffer {
  public:
    void create();
    void append(const Key *left, const Key *right, bool exclusive);
    void destroy();

  private:
    char memory[256];
};

class locktree {
  public:
    int acquire_write_lock(uint64_t owner, const Key *left, const Key *right, txnid_set *conflicts, bool big);
    void release_locks(uint64_t owner, const range_buffer *ranges, bool all);
};

class alignas(16) locktree_manager {
  public:
    void create(int (*created)(locktree *, void *), void (*destroyed)(locktree *),
                void (*escalated)(uint64_t, const locktree *, const range_buffer &, void *), void *extra, Factory factory);
    locktree *get_lt(DICTIONARY_ID dictionary, const comparator &order, void *extra);
    void release_lt(locktree *tree);
    void destroy();

  private:
    char memory[4096];
};

class alignas(16) lock_request {
  public:
    enum type { UNKNOWN, READ, WRITE };

    void create(Factory factory);
    void set(locktree *tree, uint64_t owner, const Key *left, const Key *right, type kind, bool big, void *extra);
    int start();
    int wait(uint64_t wait_ms);
    void destroy();
    static void retry_all_lock_requests(locktree *tree, void (*waits)(void *, std::vector<lock_wait_info> *), void *argument,
                                        void (*retried)());

  private:
    char memory[1024];
};

} // namespace toku

namespace {

constexpr int NOT_GRANTED = -30994;
/// So long a wait is before it is begun anew. The tree knows none without an end.
constexpr uint64_t WAIT_MS = 60 * 60 * 1000;

/// The tree is given its mutexes and condition variables; RocksDB's own are made of the same.
class Mutex : public rocksdb::TransactionDBMutex {
  public:
    rocksdb::Status Lock() override {
        mutex.lock();
        return rocksdb::Status::OK();
    }
    rocksdb::Status TryLockFor(int64_t timeout_us) override {
        // The tree asks for none of these; who did would get the mutex, whatever that takes.
        (void)timeout_us;
        return Lock();
    }
    void UnLock() override { mutex.unlock(); }

    std::mutex mutex;
};

class Condition : public rocksdb::TransactionDBCondVar {
  public:
    rocksdb::Status Wait(std::shared_ptr<rocksdb::TransactionDBMutex> mutex) override { return WaitFor(mutex, -1); }

    rocksdb::Status WaitFor(std::shared_ptr<rocksdb::TransactionDBMutex> mutex, int64_t timeout_us) override {
        std::unique_lock<std::mutex> lock(static_cast<Mutex *>(mutex.get())->mutex, std::adopt_lock);
        bool over = false;
        if (timeout_us < 0)
            condition.wait(lock);
        else
            over = condition.wait_for(lock, std::chrono::microseconds(timeout_us)) == std::cv_status::timeout;
        lock.release();
        return over ? rocksdb::Status::TimedOut(rocksdb::Status::kMutexTimeout) : rocksdb::Status::OK();
    }
    void Notify() override { condition.notify_one(); }
    void NotifyAll() override { condition.notify_all(); }

  private:
    std::condition_variable condition;
};

class Maker : public rocksdb::TransactionDBMutexFactory {
  public:
    std::shared_ptr<rocksdb::TransactionDBMutex> AllocateMutex() override { return std::make_shared<Mutex>(); }
    std::shared_ptr<rocksdb::TransactionDBCondVar> AllocateCondVar() override { return std::make_shared<Condition>(); }
};

uint64_t value(const Key *key) {
    uint64_t value;
    std::memcpy(&value, key->data, sizeof value);
    return value;
}

int compare(void *, const Key *left, const Key *right) {
    uint64_t one = value(left), other = value(right);
    return one < other ? -1 : one > other;
}

/// All zeroes, as PerconaFT wants it.
template <typename T> struct Zeroed {
    Zeroed() { std::memset(static_cast<void *>(&object), 0, sizeof object); }
    union {
        T object;
    };
    ~Zeroed() {}
};

/// One for all locks: their managers never give theirs back.
const Factory &factory() {
    static const Factory factory = std::make_shared<Maker>();
    return factory;
}

struct Ranges {
    Zeroed<toku::locktree_manager> manager;
    toku::locktree *tree = nullptr;
};

/// The holder of a range.
struct Owner {
    uint64_t first, last;
};

struct Ends {
    Key left, right;
    explicit Ends(Owner &owner) : left{&owner.first, 8, 0, 0}, right{&owner.last, 8, 0, 0} {}
};

uint64_t number(const Owner *owner) {
    return reinterpret_cast<uint64_t>(owner);
}

[[noreturn]] void fail(const char *what, int why) {
    std::fprintf(stderr, "rocksdb_locktree: %s: error %d\n", what, why);
    std::abort();
}

/// Whether the range is the owner's now.
bool acquire(Ranges &ranges, Owner &owner, const Ends &ends) {
    Zeroed<toku::txnid_set> conflicts;
    conflicts.object.create();
    int result = ranges.tree->acquire_write_lock(number(&owner), &ends.left, &ends.right, &conflicts.object, false);
    conflicts.object.destroy();
    if (result != 0 && result != NOT_GRANTED)
        fail("a range cannot be locked", result);
    return result == 0;
}

/// A request of each thread, whose memory is used again: the condition variable in it is replaced each time, and the last one
/// stays behind when the thread ends.
thread_local Zeroed<toku::lock_request> request_of_thread;

void wait(Ranges &ranges, Owner &owner, const Ends &ends) {
    auto &request = request_of_thread.object;
    for (;;) {
        request.create(factory());
        request.set(ranges.tree, number(&owner), &ends.left, &ends.right, toku::lock_request::WRITE, false, nullptr);
        int result = request.start();
        if (result == NOT_GRANTED)
            result = request.wait(WAIT_MS);
        request.destroy();
        if (result == 0)
            return;
        if (result != NOT_GRANTED)
            fail("a range cannot be waited for", result);
    }
}

} // namespace

extern "C" {

/// A lock that nobody holds; null, with the reason in `why`, if there is none.
void *ranges_create(char *why, size_t why_bytes) {
    try {
        auto ranges = std::make_unique<Ranges>();
        ranges->manager.object.create(nullptr, nullptr, nullptr, nullptr, factory());
        toku::comparator order{compare, nullptr, 0};
        ranges->tree = ranges->manager.object.get_lt(DICTIONARY_ID{1}, order, nullptr);
        return ranges.release();
    } catch (const std::exception &error) {
        std::snprintf(why, why_bytes, "%s", error.what());
        return nullptr;
    }
}

/// Takes the keys from `first` to `last` if nobody is in the way; null otherwise.
void *ranges_try_lock(void *ranges, uint64_t first, uint64_t last) {
    auto owner = std::make_unique<Owner>(Owner{first, last});
    Ends ends(*owner);
    return acquire(*static_cast<Ranges *>(ranges), *owner, ends) ? owner.release() : nullptr;
}

/// Waits for them.
void *ranges_lock(void *ranges, uint64_t first, uint64_t last) {
    auto owner = std::make_unique<Owner>(Owner{first, last});
    Ends ends(*owner);
    if (!acquire(*static_cast<Ranges *>(ranges), *owner, ends))
        wait(*static_cast<Ranges *>(ranges), *owner, ends);
    return owner.release();
}

/// Gives back what either of them returned; once.
void ranges_unlock(void *ranges, void *held) {
    auto *tree = static_cast<Ranges *>(ranges)->tree;
    std::unique_ptr<Owner> owner(static_cast<Owner *>(held));
    Ends ends(*owner);
    Zeroed<toku::range_buffer> buffer;
    buffer.object.create();
    buffer.object.append(&ends.left, &ends.right, true);
    tree->release_locks(number(owner.get()), &buffer.object, true);
    buffer.object.destroy();
    toku::lock_request::retry_all_lock_requests(tree, nullptr, nullptr, nullptr);
}

/// Ends it; no range may be held and no call in progress.
void ranges_destroy(void *ranges) {
    std::unique_ptr<Ranges> own(static_cast<Ranges *>(ranges));
    own->manager.object.release_lt(own->tree);
    own->manager.object.destroy();
}

} // extern "C"
