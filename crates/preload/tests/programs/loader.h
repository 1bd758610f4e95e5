/* The loader's function in which it tells the guard of libraries, and its lock. To be included behind what defines CHECK. */
#ifndef LOADER_H
#define LOADER_H

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where the jump stands that the guard has written into that function. */
static inline volatile unsigned char *rendezvous(void) {
    volatile unsigned char *function = dlsym(RTLD_DEFAULT, "_dl_debug_state");
    CHECK(function != NULL);
    while (*function != 0xe9) function++;
    return function;
}

/* A byte of text. With 0xc3 at the rendezvous, as a tracer writes that goes away, each look asks the loader. */
static inline void write_text(volatile unsigned char *place, unsigned char byte) {
    uintptr_t page = (uintptr_t)place & ~(uintptr_t)4095;
    CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    *place = byte;
    CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_EXEC) == 0);
}

/* Waits until a thread sleeps in the kernel for a lock. Its number is 0 until it has begun. */
static inline void until_it_sleeps(volatile pid_t *thread) {
    char path[64], state[64];
    for (;;) {
        usleep(1000);
        if (*thread == 0) continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", *thread);
        FILE *file = fopen(path, "r");
        CHECK(file != NULL);
        char *line = fgets(state, sizeof state, file);
        fclose(file);
        if (line && atol(line) == SYS_futex) return;
    }
}

static sem_t inside, leave;

static int stays(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info, (void)size, (void)unused;
    CHECK(sem_post(&inside) == 0);
    while (sem_wait(&leave) != 0) {}
    return 1;
}

static void *holder(void *unused) {
    CHECK(dl_iterate_phdr(stays, NULL) == 1);
    return unused;
}

/* A thread that holds the loader's lock until `let_go_of_the_loader`. */
static __attribute__((unused)) pthread_t hold_the_loader(void) {
    pthread_t thread;
    CHECK(sem_init(&inside, 0, 0) == 0 && sem_init(&leave, 0, 0) == 0);
    CHECK(pthread_create(&thread, NULL, holder, NULL) == 0);
    while (sem_wait(&inside) != 0) {}
    return thread;
}

static __attribute__((unused)) void let_go_of_the_loader(pthread_t holder) {
    CHECK(sem_post(&leave) == 0 && pthread_join(holder, NULL) == 0);
}

#endif
