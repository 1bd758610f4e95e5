/* A debugger writes over a library's only jump while a thread waits in the loop's copy, and another library is closed. The
 * library is still the one that was searched: nothing of it is done again, or freed. */
#include "loops.h"
#include "loader.h"

#define BYTES 64
static volatile int word, waits;
static loop *wait;

static void *waiter(void *unused) {
    waits = 1;
    wait(&word);
    return unused;
}

int main(int count, char **arguments) {
    CHECK(count == 4);
    void *library = dlopen(arguments[1], RTLD_NOW);
    CHECK(library != NULL);
    wait = (loop *)dlsym(library, "wait_in_library");
    CHECK(wait != NULL);
    unsigned char *text = (unsigned char *)wait, before[BYTES], after[BYTES];
    memcpy(before, text, BYTES);
    one_thread();
    int at = 0;
    while (at < BYTES && text[at] == before[at]) at++;
    CHECK(at < BYTES && text[at] == 0xe9);
    pthread_t thread = start(waiter, NULL);
    while (!waits) usleep(100);
    usleep(10 * 1000);
    if (strcmp(arguments[3], "restored") == 0) {
        for (int n = at; n < BYTES; n++)
            if (text[n] != before[n]) write_text(text + n, before[n]);
    } else {
        /* Nor does the loader tell of its changes any more. */
        write_text(rendezvous(), 0xc3);
        write_text(text + at, 0xcc);
    }
    memcpy(after, text, BYTES);
    for (int round = 0; round < 2; round++) {
        void *other = dlopen(arguments[2], RTLD_NOW);
        CHECK(other != NULL && dlclose(other) == 0);
        one_thread();
        CHECK(memcmp(after, text, BYTES) == 0);
    }
    word = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
