/* A thread asks for a library and has to wait in the loader; meanwhile another thread is created, for which the guard
 * looks. When the library has come, the first thread waits in it. */
#include "loops.h"
#include <dlfcn.h>
#include <unistd.h>
#include <sys/syscall.h>

static volatile int asking, word;
static const char *wanted;

static void *nothing(void *unused) { return unused; }

static void *setter(void *unused) {
    usleep(3000);
    word = 1;
    return unused;
}

static void *asks(void *unused) {
    __atomic_store_n(&asking, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    void *library = dlopen(wanted, RTLD_NOW);
    if (library == NULL) FAIL("%s", dlerror());
    loop *waits = (loop *)dlsym(library, "wait_in_library");
    CHECK(waits != NULL);
    pthread_t thread = start(setter, NULL);
    waits(&word);
    CHECK(pthread_join(thread, NULL) == 0);
    return unused;
}

/* Whether a thread sleeps: then it waits for the loader's lock. */
static int sleeps(int thread) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fgets(line, sizeof line, file) != NULL && fclose(file) == 0);
    return strstr(line, ") S") != NULL;
}

/* Called by a constructor of the first library, while the loader keeps all others out. */
void in_the_loader(void) {
    pthread_t thread = start(asks, NULL);
    while (__atomic_load_n(&asking, __ATOMIC_SEQ_CST) == 0 || !sleeps(asking))
        usleep(1000);
    CHECK(pthread_detach(thread) == 0);
    /* Here the guard looks. */
    CHECK(pthread_join(start(nothing, NULL), NULL) == 0);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    wanted = arguments[2];
    CHECK(pthread_join(start(nothing, NULL), NULL) == 0);
    if (dlopen(arguments[1], RTLD_NOW) == NULL) FAIL("%s", dlerror());
    while (!word) usleep(1000);
    usleep(20000);
    return 0;
}
