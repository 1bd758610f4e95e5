// gcc -O3 -fcf-protection=full -ffast-math
#include "fuzz.h"

NOIPA static uint64_t f0(struct env *e) {
uint64_t r = e->n;
for (int t2 = 0; t2 < 2; t2++) {
{ long i3 = (long)70809; uint64_t j3 = 0;
for (;;) { if (!(i3 > 0)) break; i3 -= 3; if (LIKELY(!(__atomic_load_n(&e->never[6], __ATOMIC_ACQUIRE)))) { j3 += 3;
PAUSE; continue; } goto out3; }
{
usleep(1);
r = mix(r, 1); }
out3: CHECK(j3 <= 3 * 23603u); r = mix(r, (uint64_t)i3); r = mix(r, j3); }
}
return r;
}

const struct function functions[] = {
{f0, 0},
};
const int functions_count = 1;
