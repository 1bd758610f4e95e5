// A library that asks for the CPUs in the program's place.
#include <unistd.h>

long library_asks(void) {
    return sysconf(_SC_NPROCESSORS_ONLN);
}
