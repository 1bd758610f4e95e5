/* The program writes to the text of a library: the jump of one loop is gone. The library's other loops stay what they are when
 * the guard looks again. */
#include "loops.h"
#include <dlfcn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int word, ready = 1;

static void *setter(void *unused) {
    usleep(3000);
    word = 1;
    return unused;
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    one_thread();
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) FAIL("%s", dlerror());
    unsigned char *shorted = dlsym(library, "wait_by_short");
    loop *row = (loop *)dlsym(library, "wait_by_row"), *whole = (loop *)dlsym(library, "wait_by_whole");
    CHECK(shorted != NULL && row != NULL && whole != NULL);
    while (shorted[0] != 0xeb) shorted++;
    uintptr_t page = (uintptr_t)shorted & ~(uintptr_t)4095;
    CHECK(mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    shorted[0] = 0xf3, shorted[1] = 0x90; /* PAUSE */
    CHECK(mprotect((void *)page, 8192, PROT_READ | PROT_EXEC) == 0);
    /* More copies are made. */
    void *more = dlopen(arguments[2], RTLD_NOW);
    if (more == NULL) FAIL("%s", dlerror());
    CHECK(dlsym(more, "wait_by_row") != NULL);
    loop *loops[] = {row, whole};
    for (int n = 0; n < 4; n++) {
        /* And once more when a library has been closed. */
        if (n == 2) CHECK(dlclose(more) == 0);
        loops[n % 2](&ready);
        word = 0;
        pthread_t thread = start(setter, NULL);
        loops[n % 2](&word);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return 0;
}
