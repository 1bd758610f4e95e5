/* What lock_early.c has for the program that is linked against it. */
#ifndef LOCK_EARLY_H
#define LOCK_EARLY_H

#include <pthread.h>

/* Locked by the library's constructor, and waited for by a thread that it started. */
extern pthread_mutex_t early_normal, early_recursive, early_checking;

/* Joins those threads, and returns how often mutexes were acquired by threads of the constructor. */
int early_finish(void);

/* From now on the library's destructor locks with threads of its own, and ends the process with 0 if that works. */
void early_arm(void);

#endif
