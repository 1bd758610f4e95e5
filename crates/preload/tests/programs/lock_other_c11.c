// A program with a library that has functions of C11's names: both call that library's.
#include "check.h"
#include "lock_tiny.h"

int main(void) {
    struct tiny mutex = {0, 0}, cond = {0, 0};
    CHECK(tiny_calls_itself());
    CHECK(mtx_lock(&mutex) == tiny_success && mutex.calls == 1 && mutex.held);
    CHECK(cnd_wait(&cond, &mutex) == tiny_success && cond.calls == 1);
    CHECK(mtx_unlock(&mutex) == tiny_success && !mutex.held);
    return 0;
}
