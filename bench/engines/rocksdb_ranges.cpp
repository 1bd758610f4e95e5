//! RocksDB's range lock manager behind five C functions: a library that is loaded at run time.
//!
//!     c++ -std=c++17 -O2 -shared -fPIC rocksdb_ranges.cpp -o rocksdb_ranges.so -lrocksdb
//!
//! It is reached as users of RocksDB reach it: a database of transactions that was opened with `NewRangeLockManager()`,
//! here one in memory in which nothing is ever written, and `Transaction::GetRangeLock`. A held range is a transaction
//! that holds it and nothing else; `Rollback` gives it back, and the transaction is used again. Its locks are exclusive.
//!
//! Keys are numbers of 64 bits, written with the highest byte first, so that RocksDB's order is theirs. Its ranges
//! include both ends, so callers name the last key.
//!
//! Transactions that are free lie in a list of each thread, so that reuse costs no shared memory; a thread that frees more
//! than it takes passes the rest on through a list of the lock. The invariants:
//!   1. Every transaction of a lock is in `all`, from when it was made until the lock is destroyed.
//!   2. A thread's list belongs to the lock whose number it bears; numbers are not used twice, so a list that is
//!      left of a destroyed lock is forgotten and never followed.

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/transaction_db.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

using rocksdb::Transaction;

/// The length of a wait, after which the thread waits again. RocksDB has no wait without an end.
constexpr int64_t WAIT_MS = 60 * 60 * 1000;
/// The number of free transactions that a thread keeps, and that it passes on at a time.
constexpr size_t KEPT = 64;
constexpr size_t PASSED_ON = KEPT / 2;

std::atomic<uint64_t> numbers{0};

/// In the order in which they need each other, for they are destroyed from the last to the first.
struct Ranges {
    uint64_t number = ++numbers;
    std::unique_ptr<rocksdb::Env> memory;
    std::shared_ptr<rocksdb::RangeLockManagerHandle> manager;
    std::unique_ptr<rocksdb::TransactionDB> database;
    std::mutex mutex;
    std::vector<std::unique_ptr<Transaction>> all;
    std::vector<Transaction *> spare;
};

struct Free {
    uint64_t number = 0;
    std::vector<Transaction *> transactions;
};

thread_local Free freed;

std::vector<Transaction *> &list_of(const Ranges &ranges) {
    if (freed.number != ranges.number) {
        freed.transactions.clear();
        freed.number = ranges.number;
    }
    return freed.transactions;
}

Transaction *take(Ranges &ranges) {
    auto &own = list_of(ranges);
    if (own.empty()) {
        std::lock_guard<std::mutex> guard(ranges.mutex);
        while (!ranges.spare.empty() && own.size() < PASSED_ON) {
            own.push_back(ranges.spare.back());
            ranges.spare.pop_back();
        }
        if (own.empty()) {
            own.reserve(KEPT + 1);
            ranges.all.emplace_back(ranges.database->BeginTransaction(rocksdb::WriteOptions()));
            return ranges.all.back().get();
        }
    }
    Transaction *transaction = own.back();
    own.pop_back();
    return transaction;
}

void give(Ranges &ranges, Transaction *transaction) {
    auto &own = list_of(ranges);
    own.push_back(transaction);
    if (own.size() > KEPT) {
        std::lock_guard<std::mutex> guard(ranges.mutex);
        for (size_t i = 0; i < PASSED_ON; i++) {
            ranges.spare.push_back(own.back());
            own.pop_back();
        }
    }
}

void write_key(char *to, uint64_t key) {
    for (int i = 7; i >= 0; i--, key >>= 8)
        to[i] = static_cast<char>(key);
}

/// Says why and ends the program: nobody could go on as if the range were held, or as if it were not.
[[noreturn]] void fail(const char *what, const std::string &why) {
    std::fprintf(stderr, "rocksdb_ranges: %s: %s\n", what, why.c_str());
    std::abort();
}

Transaction *acquire(Ranges &ranges, uint64_t first, uint64_t last, int64_t wait_ms) {
    char keys[2][8];
    write_key(keys[0], first);
    write_key(keys[1], last);
    const rocksdb::Endpoint start(rocksdb::Slice(keys[0], 8)), end(rocksdb::Slice(keys[1], 8));
    Transaction *transaction = take(ranges);
    transaction->SetLockTimeout(wait_ms);
    for (;;) {
        auto status = transaction->GetRangeLock(ranges.database->DefaultColumnFamily(), start, end);
        if (status.ok())
            return transaction;
        if (!status.IsTimedOut() && !status.IsBusy())
            fail("a range cannot be locked", status.ToString());
        if (wait_ms == 0) {
            give(ranges, transaction);
            return nullptr;
        }
    }
}

} // namespace

extern "C" {

/// A lock that nobody holds; null, with the reason in `why`, if there is none.
void *ranges_create(char *why, size_t why_bytes) {
    try {
        auto ranges = std::make_unique<Ranges>();
        ranges->memory.reset(rocksdb::NewMemEnv(rocksdb::Env::Default()));
        ranges->manager.reset(rocksdb::NewRangeLockManager(nullptr));
        rocksdb::Options options;
        options.create_if_missing = true;
        options.env = ranges->memory.get();
        rocksdb::TransactionDBOptions transactions;
        transactions.lock_mgr_handle = ranges->manager;
        rocksdb::TransactionDB *database = nullptr;
        auto status = rocksdb::TransactionDB::Open(options, transactions, "/ranges", &database);
        if (!status.ok()) {
            std::snprintf(why, why_bytes, "%s", status.ToString().c_str());
            return nullptr;
        }
        ranges->database.reset(database);
        return ranges.release();
    } catch (const std::exception &error) {
        std::snprintf(why, why_bytes, "%s", error.what());
        return nullptr;
    }
}

/// Takes the keys from `first` to `last` if nobody has one of them; null otherwise.
void *ranges_try_lock(void *ranges, uint64_t first, uint64_t last) {
    try {
        return acquire(*static_cast<Ranges *>(ranges), first, last, 0);
    } catch (const std::exception &error) {
        fail("try_lock", error.what());
    }
}

/// Waits for them.
void *ranges_lock(void *ranges, uint64_t first, uint64_t last) {
    try {
        return acquire(*static_cast<Ranges *>(ranges), first, last, WAIT_MS);
    } catch (const std::exception &error) {
        fail("lock", error.what());
    }
}

/// Gives back what either of them returned; once.
void ranges_unlock(void *ranges, void *held) {
    try {
        auto *transaction = static_cast<Transaction *>(held);
        auto status = transaction->Rollback();
        if (!status.ok())
            fail("a range cannot be unlocked", status.ToString());
        give(*static_cast<Ranges *>(ranges), transaction);
    } catch (const std::exception &error) {
        fail("unlock", error.what());
    }
}

/// Ends it; no range may be held and no call in progress.
void ranges_destroy(void *ranges) {
    try {
        delete static_cast<Ranges *>(ranges);
    } catch (const std::exception &error) {
        fail("destroy", error.what());
    }
}

} // extern "C"
