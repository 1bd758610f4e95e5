// Requests with a latency target on accounts that two mutexes protect, by the standard library's guards.
//
//     c++ -pthread -o accounts accounts.cpp $(pkg-config --cflags --libs manx)

#include <manx.hpp>

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct account {
    manx::mutex mutex;
    long balance = 1000;
};

enum { transfer_request = 1, threads = 4, transfers = 2000 };

account accounts[2];
manx::mutex done_mutex;
std::condition_variable_any done;
int left = threads;

void transfer(account &from, account &to, long amount) {
    // 99.9 of a hundred transfers take 5 ms at most.
    manx::epoch request(transfer_request, std::chrono::milliseconds(5), 99.9);
    std::lock(from.mutex, to.mutex);
    std::lock_guard<manx::mutex> first(from.mutex, std::adopt_lock);
    std::lock_guard<manx::mutex> second(to.mutex, std::adopt_lock);
    if (from.balance < amount) {
        // Refusals are fast, and say nothing of the others.
        request.abandon();
        return;
    }
    from.balance -= amount;
    to.balance += amount;
}

void work(int number) {
    for (int i = 0; i < transfers; i++)
        transfer(accounts[(i + number) % 2], accounts[(i + number + 1) % 2], i % 7);
    std::lock_guard<manx::mutex> guard(done_mutex);
    if (--left == 0)
        done.notify_all();
}

} // namespace

int main() {
    std::vector<std::thread> workers;
    for (int number = 0; number < threads; number++)
        workers.emplace_back(work, number);
    {
        std::unique_lock<manx::mutex> lock(done_mutex);
        done.wait(lock, [] { return left == 0; });
    }
    for (std::thread &worker : workers)
        worker.join();
    std::cout << "the sum is " << accounts[0].balance + accounts[1].balance << "\n";
}
