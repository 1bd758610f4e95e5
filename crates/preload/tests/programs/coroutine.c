/* Creates its first thread from a coroutine with a small stack, below which nothing may be touched. */
#include "loops.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_BYTES = 24 << 10 };
static ucontext_t caller, coroutine;

static void work(void) {
    wait_in(wait_by_row);
}

int main(void) {
    long page = sysconf(_SC_PAGESIZE);
    char *stack = mmap(NULL, page + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && mprotect(stack, page, PROT_NONE) == 0);
    CHECK(getcontext(&coroutine) == 0);
    coroutine.uc_stack.ss_sp = stack + page;
    coroutine.uc_stack.ss_size = STACK_BYTES;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, work, 0);
    CHECK(swapcontext(&caller, &coroutine) == 0);
    return 0;
}
