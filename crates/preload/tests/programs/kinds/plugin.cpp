// A library with loops that wait. If the program has work to give, its constructor asks for it.
#include <atomic>

#define NOINLINE __attribute__((noinline))

static NOINLINE void wait_tightly(std::atomic<int> *word, int value) {
    while (word->load(std::memory_order_acquire) != value) {}
}
static NOINLINE void wait_for(std::atomic<int> *word, int value) {
    while (word->load(std::memory_order_acquire) != value) __builtin_ia32_pause();
}

extern "C" void plugin_turns(std::atomic<int> *turn, int side, int rounds) {
    for (int round = 0; round < rounds; round++) {
        (round % 2 ? wait_for : wait_tightly)(turn, 2 * round + side);
        turn->store(2 * round + side + 1);
    }
}

#ifdef GIVES_WORK
extern "C" void give_work(void (*work)(std::atomic<int> *, int));
__attribute__((constructor)) static void begin() { give_work(GIVES_WORK); }
#endif
