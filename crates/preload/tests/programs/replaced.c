/* The file of an open library is removed, or another library takes its place, before the guard wakes. */
#include "loops.h"
#include <dlfcn.h>
#include <unistd.h>

int main(int count, char **arguments) {
    CHECK(count == 2 || count == 3);
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) FAIL("%s", dlerror());
    loop *wait = (loop *)dlsym(library, "wait_in_library");
    CHECK(wait != NULL);
    CHECK((count == 2 ? unlink(arguments[1]) : rename(arguments[2], arguments[1])) == 0);
    wait_in(wait);
    return 0;
}
