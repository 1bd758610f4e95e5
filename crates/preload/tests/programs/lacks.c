/* A library with loops and a reference that nothing fulfils: the loader finds that when it relocates the library. */
#include "loops.h"

void nobody_has_this(void);

void calls_nobody(void) { nobody_has_this(); }
