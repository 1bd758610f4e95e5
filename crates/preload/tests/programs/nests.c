/* A library whose constructor opens another, and looks into it. */
#include <dlfcn.h>
#include <stdlib.h>

extern const char *nested __attribute__((weak));

__attribute__((constructor)) static void begin(void) {
    void *library = &nested ? dlopen(nested, RTLD_NOW) : NULL;
    if (library == NULL || dlsym(library, "wait_by_row") == NULL) abort();
}
