// A library that brings functions of C11's names. It calls them by their names, as if nobody else had any.
#include "lock_tiny.h"

int mtx_lock(struct tiny *mutex) {
    mutex->calls++;
    mutex->held = 1;
    return tiny_success;
}

int mtx_trylock(struct tiny *mutex) {
    return mtx_lock(mutex);
}

int mtx_timedlock(struct tiny *mutex, const void *time) {
    return time == mutex ? mtx_lock(mutex) : tiny_error;
}

int mtx_unlock(struct tiny *mutex) {
    mutex->calls++;
    mutex->held = 0;
    return tiny_success;
}

int cnd_wait(struct tiny *cond, struct tiny *mutex) {
    cond->calls++;
    return mutex->held ? tiny_success : tiny_error;
}

int cnd_timedwait(struct tiny *cond, struct tiny *mutex, const void *time) {
    return time == cond ? cnd_wait(cond, mutex) : tiny_error;
}

int cnd_signal(struct tiny *cond) {
    cond->calls++;
    return tiny_success;
}

int cnd_broadcast(struct tiny *cond) {
    return cnd_signal(cond);
}

void cnd_destroy(struct tiny *cond) {
    cond->calls++;
}

int tiny_calls_itself(void) {
    struct tiny mutex = {0, 0}, cond = {0, 0};
    int all = mtx_lock(&mutex) == tiny_success && mtx_unlock(&mutex) == tiny_success &&
              mtx_trylock(&mutex) == tiny_success && mtx_unlock(&mutex) == tiny_success &&
              mtx_timedlock(&mutex, &mutex) == tiny_success && cnd_wait(&cond, &mutex) == tiny_success &&
              cnd_timedwait(&cond, &mutex, &cond) == tiny_success && cnd_signal(&cond) == tiny_success &&
              cnd_broadcast(&cond) == tiny_success;
    cnd_destroy(&cond);
    return all && mutex.held && mutex.calls == 5 && cond.calls == 5;
}
