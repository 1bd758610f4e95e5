// g++ -O2 -mavx2 -fcf-protection=full ,spins=0
#include "fuzz.h"

NOIPA static uint64_t f0(struct env *e) {
uint64_t r = e->n;
for (int t2 = 0; t2 < 2; t2++) {
{ uint64_t i3 = 0; uint64_t s3 = r, j3 = 0;
static uint64_t m3 = 8100; uint64_t *volatile p3 = &m3; uint64_t b3 = *p3; (void)b3;

#pragma GCC unroll 4
for (; i3 != (uint64_t)8100; i3 += 4) { if (__atomic_load_n(&e->never[5], __ATOMIC_ACQUIRE)) goto out3; 
PAUSE; }
{
usleep(1);
r = mix(r, 1); }
out3:  r = mix(r, (uint64_t)i3); r = mix(mix(r, s3), j3); }
}
return r;
}

const struct function functions[] = {
{f0, 0},
};
const int functions_count = 1;
