/* Mutexes and condition variables of C11's names and of nobody's layout: results and structures are not the C library's, as in tinycthread. */
#ifndef LOCK_TINY_H
#define LOCK_TINY_H

enum { tiny_error, tiny_success };

struct tiny {
    unsigned char held, calls;
};

int mtx_lock(struct tiny *mutex);
int mtx_trylock(struct tiny *mutex);
int mtx_timedlock(struct tiny *mutex, const void *time);
int mtx_unlock(struct tiny *mutex);
int cnd_wait(struct tiny *cond, struct tiny *mutex);
int cnd_timedwait(struct tiny *cond, struct tiny *mutex, const void *time);
int cnd_signal(struct tiny *cond);
int cnd_broadcast(struct tiny *cond);
void cnd_destroy(struct tiny *cond);

/* Calls each of them; returns whether each was this library's. */
int tiny_calls_itself(void);

#endif
