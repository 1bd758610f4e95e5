// What happens to threads in the middle of a wait: exceptions, forks, signals, long jumps, libraries that
// come and go. `cpp WHAT MS [LIBRARY]`
#include "kinds.h"
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <dlfcn.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

static long until_us;
static bool goes_on() { return now_us() < until_us; }

static NOINLINE void wait_for(const std::atomic<int> &word, int value) {
    while (word.load(std::memory_order_acquire) != value) PAUSE;
}
static NOINLINE void wait_empty(const std::atomic<int> &word, int value) {
    while (word.load(std::memory_order_acquire) != value) {}
}
// The rounds that are left, if the word came in time.
static NOINLINE int wait_bounded(const std::atomic<int> &word, int value, int rounds) {
    while (rounds-- > 0) {
        if (word.load(std::memory_order_acquire) == value) return rounds;
        PAUSE;
    }
    return -1;
}
static NOINLINE void wait_or_throw(const std::atomic<int> &word, int value) {
    if (wait_bounded(word, value, 300) < 0) throw std::runtime_error("late");
}

static std::atomic<int> word, other;

// A thread that is late throws through frames with destructors, and waits again in the handler.
static void exceptions() {
    struct Counted {
        int &count;
        ~Counted() { count++; }
    };
    long rounds = 0, thrown = 0;
    std::thread answers([] {
        for (int next = 1;; next += 2) {
            wait_for(word, next);
            if (other.load() < 0) return;
            if (next % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
            word.store(next + 1);
        }
    });
    for (int next = 1; goes_on(); next += 2, rounds++) {
        int destroyed = 0;
        word.store(next);
        try {
            Counted counted{destroyed};
            auto held = std::make_unique<std::string>("something that is freed");
            wait_or_throw(word, next + 1);
        } catch (const std::runtime_error &error) {
            thrown++;
            CHECK(std::string(error.what()) == "late");
            (next % 4 == 1 ? wait_for : wait_empty)(word, next + 1);
        }
        CHECK(destroyed == 1);
    }
    int last = word.load();
    other.store(-1);
    word.store(last + 1);
    answers.join();
    printf("exceptions: %ld of %ld\n", thrown, rounds);
}

static std::atomic<int> begun;

// Two threads hand a word to each other as long as `over` is not set.
static std::atomic<bool> over;
static std::atomic<long> handed;
static void hand_over(int side) {
    for (int mine = side; !over; mine += 2) {
        while (word.load(std::memory_order_acquire) != mine) {
            if (over) return;
            PAUSE;
        }
        handed++;
        word.store(mine + 1);
    }
}

// The child waits as well, with a thread of its own.
static void forks() {
    std::thread one(hand_over, 0), two(hand_over, 1);
    long rounds = 0;
    for (; goes_on(); rounds++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            static std::atomic<int> turn;
            std::thread mine([] {
                for (int i = 1; i < 40; i += 2) wait_for(turn, i), turn.store(i + 1);
            });
            for (int i = 0; i < 40; i += 2) wait_empty(turn, i), turn.store(i + 1);
            mine.join();
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    over = true;
    one.join(), two.join();
    CHECK(handed.load() > 0);
    printf("forks: %ld\n", rounds);
}

// Signals at 1 kHz, whose handlers wait as well; some of them leave by a long jump.
static std::atomic<int> alarms, profiles, ready{1};
static thread_local sigjmp_buf home;
static thread_local volatile sig_atomic_t may_jump;
static void handler(int signal) {
    int before = errno;
    (signal == SIGALRM ? alarms : profiles)++;
    CHECK(wait_bounded(ready, 1, 10) == 9);
    wait_bounded(ready, 2, 20);
    errno = before;
    if (may_jump) siglongjmp(home, 1);
}
static void signals() {
    struct sigaction action = {};
    action.sa_handler = handler, action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, nullptr) == 0 && sigaction(SIGPROF, &action, nullptr) == 0);
    itimerval often = {{0, 1000}, {0, 1000}};
    CHECK(setitimer(ITIMER_REAL, &often, nullptr) == 0 && setitimer(ITIMER_PROF, &often, nullptr) == 0);
    std::thread one(hand_over, 0), two(hand_over, 1);
    std::atomic<long> jumps{0};
    std::thread jumper([&] {
        while (!over) {
            if (sigsetjmp(home, 1) == 0) {
                may_jump = 1;
                while (other.load() != 1 && !over) PAUSE;
            } else {
                jumps++;
            }
            may_jump = 0;
        }
    });
    while (goes_on()) {
        errno = 77;
        CHECK(wait_bounded(other, 1, 100) == -1);
        CHECK(errno == 77);
    }
    often = {};
    setitimer(ITIMER_REAL, &often, nullptr), setitimer(ITIMER_PROF, &often, nullptr);
    over = true;
    one.join(), two.join(), jumper.join();
    printf("signals: %d %d, jumps %ld, handed %ld\n", alarms.load(), profiles.load(), jumps.load(), handed.load());
}

// A library with such loops comes and goes.
static void libraries(const char *path) {
    long rounds = 0;
    for (; goes_on(); rounds++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) fprintf(stderr, "%s\n", dlerror());
        CHECK(library != nullptr);
        auto turns = reinterpret_cast<void (*)(std::atomic<int> *, int, int)>(dlsym(library, "plugin_turns"));
        CHECK(turns != nullptr);
        std::atomic<int> turn{0};
        std::thread thread(turns, &turn, 1, 20);
        turns(&turn, 0, 20);
        thread.join();
        CHECK(turn.load() == 40);
        CHECK(dlclose(library) == 0);
    }
    printf("libraries: %ld\n", rounds);
}

// The library's constructor gives work to a thread that is there already. It waits in the library when we look for the
// first symbol.
static std::atomic<void (*)(std::atomic<int> *, int)> given;
extern "C" void give_work(void (*work)(std::atomic<int> *, int)) {
    given.store(work);
    wait_for(begun, 1);
}
static void constructors(const char *path) {
    long rounds = 0;
    std::thread worker([] {
        for (;;) {
            void (*work)(std::atomic<int> *, int);
            while ((work = given.load()) == nullptr) {
                if (over) return;
                PAUSE;
            }
            begun.store(1);
            work(&word, 1);
            given.store(nullptr);
            other.store(1);
        }
    });
    for (; goes_on(); rounds++) {
        word.store(0), begun.store(0), other.store(0);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        CHECK(library != nullptr);
        CHECK(dlsym(library, "plugin_turns") != nullptr);
        usleep(rounds % 50);
        word.store(1);
        wait_for(other, 1);
        CHECK(dlclose(library) == 0);
    }
    over = true;
    worker.join();
    printf("constructors: %ld\n", rounds);
}

int main(int count, char **arguments) {
    CHECK(count >= 3);
    std::string what = arguments[1];
    until_us = now_us() + 1000 * atol(arguments[2]);
    if (what == "exceptions") exceptions();
    else if (what == "forks") forks();
    else if (what == "signals") signals();
    else if (what == "libraries") libraries(arguments[3]);
    else if (what == "constructors") constructors(arguments[3]);
    else CHECK(!"known");
    return 0;
}
