// Accounts that are locked by their numbers: two at once for a transfer, one after the other by a transaction, all for a sum.
//
//     c++ -pthread -o records records.cpp $(pkg-config --cflags --libs manx)

#include <manx_range.hpp>

#include <cstdint>
#include <iostream>
#include <thread>
#include <vector>

namespace {

enum { accounts = 1000, threads = 4, rounds = 2000, beginning = 100 };

std::vector<long> balances(accounts, beginning);

// Keys are numbers of accounts, in blocks of 2^4. A caller that would wait for ever is told.
manx::range_lock numbers([] {
    manx::range_options options = manx::range_options();
    options.block_log2 = 4;
    options.detect_deadlocks = 1;
    return options;
}());

// Both accounts at once, in whatever order: no thread waits for the one while holding the other.
void transfer(std::uint64_t from, std::uint64_t to, long amount) {
    const manx::range_set both = numbers.lock_many({{from, from + 1}, {to, to + 1}});
    balances[from] -= amount;
    balances[to] += amount;
}

// Evens out neighbours until another holder is in the way; it gives back what it has locked when it
// is done.
void even_out(std::uint64_t first) {
    manx::range_owner transaction = numbers.owner();
    transaction.lock(first, first + 1);
    for (std::uint64_t next = first + 1; next < first + 5 && transaction.try_lock(next, next + 1); next++) {
        const long both = balances[next - 1] + balances[next];
        balances[next - 1] = both / 2;
        balances[next] = both - both / 2;
    }
}

// A sum of one moment.
long sum() {
    const manx::range_guard all = numbers.lock_shared(0, manx::range_end);
    long sum = 0;
    for (const long balance : balances)
        sum += balance;
    return sum;
}

void work(unsigned number) {
    std::uint64_t random = number + 1;
    const auto draw = [&random](std::uint64_t below) {
        random = random * 6364136223846793005 + 1442695040888963407;
        return (random >> 33) % below;
    };
    for (int i = 0; i < rounds; i++) {
        const std::uint64_t from = draw(accounts), to = draw(accounts);
        if (from != to)
            transfer(from, to, static_cast<long>(draw(50)));
        even_out(draw(accounts - 5));
    }
}

} // namespace

int main() {
    std::vector<std::thread> workers;
    for (unsigned number = 0; number < threads; number++)
        workers.emplace_back(work, number);
    for (int i = 0; i < 50; i++) {
        if (sum() != accounts * beginning) {
            std::cerr << "money was made\n";
            return 1;
        }
    }
    for (std::thread &worker : workers)
        worker.join();
    std::cout << "the sum is " << sum() << "\n";
}
