// Says which library each function for locks is found in.
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    static const char *const names[] = {
        "pthread_mutex_lock",     "pthread_mutex_trylock", "pthread_mutex_timedlock", "pthread_mutex_clocklock",
        "pthread_mutex_unlock",   "__pthread_mutex_lock",  "__pthread_mutex_trylock", "__pthread_mutex_unlock",
        "pthread_cond_wait",      "pthread_cond_timedwait", "pthread_cond_clockwait", "pthread_cond_signal",
        "pthread_cond_broadcast", "pthread_cond_destroy",   "pthread_spin_lock",      "pthread_spin_trylock",
        "pthread_spin_unlock",    "sched_yield",            "thrd_yield",              "mtx_lock",
        "mtx_trylock",            "mtx_timedlock",          "mtx_unlock",              "cnd_wait",
        "cnd_timedwait",          "cnd_signal",             "cnd_broadcast",           "cnd_destroy",
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        Dl_info info = {0};
        void *found = dlsym(RTLD_DEFAULT, names[i]);
        if (found == NULL || dladdr(found, &info) == 0)
            return 1;
        printf("%s %s\n", names[i], info.dli_fname);
    }
    return 0;
}
