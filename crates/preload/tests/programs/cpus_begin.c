// A library whose constructor asks for the CPUs, before the preload library's own constructor may have run.
#include <unistd.h>

static long asked;

__attribute__((constructor)) static void begin(void) {
    asked = sysconf(_SC_NPROCESSORS_ONLN);
}

long cpus_at_begin(void) {
    return asked;
}
