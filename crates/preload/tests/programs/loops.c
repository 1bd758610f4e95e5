/* The loops as a library. */
#define NO_WAY
#include "loops.h"
