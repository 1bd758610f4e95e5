// A library that is opened with RTLD_DEEPBIND, so that its locks are the C library's whatever is preloaded: it locks the
// same mutexes as the program.
#define DEEP 1
#include "lock_plugin.c"
