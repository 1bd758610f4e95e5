/* The two loops as a library. */
#include "loops.h"
