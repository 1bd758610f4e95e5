/* Loops that work, with a hint in each round: `hints NAME`. */
#include "kinds.h"
#include "../threads.h"

enum { ROUNDS = 4096 };

/* A hint in a function of its own. */
static NOINLINE __attribute__((noipa)) void relax(void) { PAUSE; }

static void delays(void) {
    for (int i = 0; i < ROUNDS; i++) relax();
}

/* A server that looks for a message, handles it, and looks again. */
static volatile unsigned arrived = ROUNDS, handled;
static NOINLINE __attribute__((noipa)) void handle(unsigned message) { handled += message != 0; }

static void messages(void) {
    for (unsigned next = 0; next < arrived; next++) {
        handle(next + 1);
        PAUSE;
    }
    CHECK(handled == ROUNDS);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    one_thread();
    if (strcmp(arguments[1], "delays") == 0) delays();
    else messages();
    return 0;
}
