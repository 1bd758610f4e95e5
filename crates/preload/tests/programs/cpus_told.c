// Asks for CPUs in every way that the C library has, and compares with what the C library itself says, reached by its
// handle. Arguments: the counts that are to be told where CPUs are online, configured, and in the affinity mask;
// 0 stands for what the C library says.
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

extern long __sysconf(int name);

static void *libc_handle;

static void *real(const char *name) {
    void *found = dlsym(libc_handle, name);
    CHECK(found != NULL);
    return found;
}

static long wanted(const char *argument, long otherwise) {
    long said = atol(argument);
    return said == 0 ? otherwise : said;
}

static int in_mask(void) {
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    return CPU_COUNT(&set);
}

static void *in_thread(void *expected) {
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) == (long)expected);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    libc_handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    CHECK(libc_handle != NULL);
    long (*real_sysconf)(int) = (long (*)(int))real("sysconf");
    int (*real_affinity)(pid_t, size_t, cpu_set_t *) = (int (*)(pid_t, size_t, cpu_set_t *))real("sched_getaffinity");
    CHECK((void *)real_sysconf != dlsym(RTLD_DEFAULT, "sysconf"));

    long online = wanted(argv[1], real_sysconf(_SC_NPROCESSORS_ONLN));
    long configured = wanted(argv[2], real_sysconf(_SC_NPROCESSORS_CONF));
    cpu_set_t set;
    CHECK(real_affinity(0, sizeof set, &set) == 0);
    long mask = wanted(argv[3], CPU_COUNT(&set));

    errno = 77;
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) == online);
    CHECK(__sysconf(_SC_NPROCESSORS_ONLN) == online);
    CHECK(((long (*)(int))dlsym(RTLD_DEFAULT, "sysconf"))(_SC_NPROCESSORS_ONLN) == online);
    CHECK(get_nprocs() == online);
    CHECK(sysconf(_SC_NPROCESSORS_CONF) == configured);
    CHECK(get_nprocs_conf() == configured);
    CHECK(in_mask() == mask);
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0 && CPU_COUNT(&set) == mask);
    CHECK(errno == 77);

    // All other names, and those that are none, with their errors.
    for (int name = -2; name < 300; name++) {
        if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF || name == _SC_AVPHYS_PAGES)
            continue;
        errno = 0;
        long expected = real_sysconf(name);
        int error = errno;
        errno = 0;
        CHECK(sysconf(name) == expected && errno == error);
        CHECK(__sysconf(name) == expected);
    }

    // Errors of masks, and masks of others, are the C library's.
    errno = 0;
    CHECK(sched_getaffinity(0, 1, &set) == -1 && errno == EINVAL);
    CHECK(sched_getaffinity(0x7ffffff0, sizeof set, &set) == -1 && errno == ESRCH);
    cpu_set_t theirs, really;
    CHECK(sched_getaffinity(getppid(), sizeof theirs, &theirs) == 0);
    CHECK(real_affinity(getppid(), sizeof really, &really) == 0 && CPU_EQUAL(&theirs, &really));

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, (void *)online) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
