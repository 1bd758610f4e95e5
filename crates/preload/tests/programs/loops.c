/* The loops as a library. */
#include "loops.h"
