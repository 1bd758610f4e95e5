// Forks while another thread holds the loader's lock. What a child does before it executes a program must not want that lock.
//
// The argument is the way to fork: `fork`, `_Fork`, or `clone` (the bare system call).
#include "check.h"
#include "loader.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/// What a shell does between fork and exec, by functions that POSIX calls safe there.
static void child(void) {
    int file = open("/dev/null", O_RDWR), ends[2], sockets[2];
    CHECK(file >= 0 && dup2(file, 100) == 100 && dup3(file, 101, O_CLOEXEC) == 101 && dup(file) >= 0);
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK(send(sockets[0], "y", 1, 0) == 1 && recv(sockets[1], &byte, 1, 0) == 1 && byte == 'y');
    CHECK(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    CHECK(close(file) == 0 && close(ends[0]) == 0 && close(100) == 0);
    struct sigaction action = {.sa_handler = SIG_DFL};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    sigset_t none;
    sigemptyset(&none);
    CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) > 0);
    execl("/bin/true", "true", NULL);
    _exit(1);
}

extern pid_t _Fork(void) __attribute__((weak));

static pid_t fork_by(const char *way) {
    if (!strcmp(way, "_Fork") && _Fork) return _Fork();
    if (!strcmp(way, "clone")) return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    return fork();
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    pthread_t holder = hold_the_loader();
    pid_t process = fork_by(arguments[1]);
    CHECK(process >= 0);
    if (process == 0) {
        // A child that hangs is ended, and counts as one.
        syscall(SYS_alarm, 20);
        child();
    }
    int status;
    CHECK(waitpid(process, &status, 0) == process);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    let_go_of_the_loader(holder);
    return 0;
}
