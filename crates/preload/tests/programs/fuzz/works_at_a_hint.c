// gcc -O0 -mavx2 ,spins=0
#include "fuzz.h"

NOIPA static uint64_t f0(struct env *e) {
uint64_t r = e->n;
{ float i1 = 0; uint64_t s1 = r;
static float m1 = 28049;
for (;;) { if (!(i1 < *(volatile float *)&m1)) break; i1 += 1; if (LIKELY(!(env.never[7] != 0))) {
s1 = look(s1);
PAUSE; PAUSE; continue; } goto out1; }
{
r = mix(r, 1); }
out1:   r = mix(r, s1); }
return r;
}

const struct function functions[] = {
{f0, 0},
};
const int functions_count = 1;
