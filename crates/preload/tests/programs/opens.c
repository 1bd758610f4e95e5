// Opens a library and waits in it. With a second argument it overwrites and clears its environment first, as programs do that
// set their title.
#include "loops.h"

#include <dlfcn.h>

extern char **environ;

static volatile int flag;

int main(int count, char **arguments) {
    CHECK(count >= 2);
    if (count > 2) {
        for (char **entry = environ; *entry != NULL; entry++)
            memset(*entry, 'x', strlen(*entry));
        CHECK(clearenv() == 0);
    }
    one_cpu();
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) FAIL("%s", dlerror());
    loop *wait = (loop *)dlsym(library, "wait_in_library");
    CHECK(wait != NULL);
    pthread_t thread = start(sets_soon, (void *)&flag);
    wait(&flag);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
