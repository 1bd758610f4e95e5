/* A thread asks for a library and has to wait in the loader; meanwhile another thread is created, for which the guard
 * looks. When the library has come, the first thread waits in it. */
#include "loops.h"
#include "loader.h"

static volatile int word;
static volatile pid_t asking;
static const char *wanted;

static void *setter(void *unused) {
    usleep(3000);
    word = 1;
    return unused;
}

static void *asks(void *unused) {
    asking = (pid_t)syscall(SYS_gettid);
    void *library = dlopen(wanted, RTLD_NOW);
    if (library == NULL) FAIL("%s", dlerror());
    loop *waits = (loop *)dlsym(library, "wait_in_library");
    CHECK(waits != NULL);
    pthread_t thread = start(setter, NULL);
    waits(&word);
    CHECK(pthread_join(thread, NULL) == 0);
    return unused;
}

/* Called by a constructor of the first library, while the loader keeps all others out. */
void in_the_loader(void) {
    pthread_t thread = start(asks, NULL);
    until_it_sleeps(&asking);
    CHECK(pthread_detach(thread) == 0);
    /* Here the guard looks. */
    one_thread();
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    wanted = arguments[2];
    one_thread();
    if (dlopen(arguments[1], RTLD_NOW) == NULL) FAIL("%s", dlerror());
    while (!word) usleep(1000);
    usleep(20000);
    return 0;
}
