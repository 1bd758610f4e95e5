// Requests that nobody marked: what a thread reads from a socket and writes to it.
//
// With `seen` the program expects each of them to be an epoch, and with `unseen` none. The other ends of the sockets are used by system
// calls, which are nobody's business.

#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

extern uint64_t manx_epoch_window_ns(void) __attribute__((weak));

static int in_request(void) {
    return manx_epoch_window_ns && manx_epoch_window_ns() != UINT64_MAX;
}

/// The client's side: asks, and takes the answer.
static void ask(int client) {
    CHECK(syscall(SYS_write, client, "?", 1) == 1);
}

static void answered(int client) {
    char byte;
    CHECK(syscall(SYS_read, client, &byte, 1) == 1);
}

enum { READS = 6, WRITES = 7 };
static const char file_name[4096];

static void read_by(int way, int from) {
    char byte;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    struct mmsghdr messages = {.msg_hdr = message};
    switch (way) {
    case 0: CHECK(read(from, &byte, 1) == 1); break;
    case 1: CHECK(readv(from, &vector, 1) == 1); break;
    case 2: CHECK(recv(from, &byte, 1, 0) == 1); break;
    case 3: CHECK(recvfrom(from, &byte, 1, 0, NULL, NULL) == 1); break;
    case 4: CHECK(recvmsg(from, &message, 0) == 1); break;
    case 5: CHECK(recvmmsg(from, &messages, 1, 0, NULL) == 1); break;
    }
}

static void write_by(int way, int to, int file) {
    char byte = '!';
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    struct mmsghdr messages = {.msg_hdr = message};
    off_t start = 0;
    switch (way) {
    case 0: CHECK(write(to, &byte, 1) == 1); break;
    case 1: CHECK(writev(to, &vector, 1) == 1); break;
    case 2: CHECK(send(to, &byte, 1, 0) == 1); break;
    case 3: CHECK(sendto(to, &byte, 1, 0, NULL, 0) == 1); break;
    case 4: CHECK(sendmsg(to, &message, 0) == 1); break;
    case 5: CHECK(sendmmsg(to, &messages, 1, 0) == 1); break;
    case 6: CHECK(sendfile(to, file, &start, 1) == 1); break;
    }
}

static int cleaned;

static void clean(void *argument) {
    (void)argument;
    cleaned++;
}

static void *blocks(void *argument) {
    pthread_cleanup_push(clean, NULL);
    read_by(0, *(int *)argument);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int count, char **arguments) {
    int wanted = count > 1 && !strcmp(arguments[1], "seen");
    int server[2], other[2], pipes[2], file = open("/proc/self/exe", O_RDONLY);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, server) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, other) == 0);
    CHECK(pipe(pipes) == 0 && file >= 0);

    for (int reading = 0; reading < READS; reading++) {
        for (int writing = 0; writing < WRITES; writing++) {
            CHECK(!in_request());
            ask(server[1]);
            read_by(reading, server[0]);
            CHECK(in_request() == wanted);
            // A question to somebody else is part of the request.
            write_by(writing, other[0], file);
            answered(other[1]);
            ask(other[1]);
            read_by(reading, other[0]);
            CHECK(in_request() == wanted);
            write_by(writing, server[0], file);
            answered(server[1]);
            CHECK(!in_request());
        }
    }

    // Neither a pipe, nor an end of file, nor an error begins a request.
    CHECK(write(pipes[1], "x", 1) == 1);
    read_by(0, pipes[0]);
    CHECK(!in_request());
    char byte;
    CHECK(recv(server[0], &byte, 1, MSG_DONTWAIT) == -1);
    CHECK(!in_request());

    // A thread that waits for a request can be cancelled, and unwinds.
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, blocks, &server[0]) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && cleaned == 1);

    // A request ends without an answer when its socket is closed; and what comes by that number then is looked at anew.
    ask(server[1]);
    read_by(0, server[0]);
    CHECK(in_request() == wanted);
    int number = server[0];
    CHECK(close(number) == 0);
    CHECK(!in_request());
    CHECK(dup(pipes[0]) == number);
    CHECK(write(pipes[1], "x", 1) == 1);
    read_by(0, number);
    CHECK(!in_request());
    CHECK(syscall(SYS_read, server[1], &byte, 1) == 0);

    // An answer that could not be written ends nothing.
    ask(other[1]);
    read_by(0, other[0]);
    while (syscall(SYS_sendto, other[0], file_name, sizeof file_name, MSG_DONTWAIT, NULL, 0) > 0)
        ;
    CHECK(send(other[0], &byte, 1, MSG_DONTWAIT) == -1);
    CHECK(in_request() == wanted);
    static char sink[1 << 16];
    while (syscall(SYS_recvfrom, other[1], sink, sizeof sink, MSG_DONTWAIT, NULL, NULL) > 0)
        ;
    write_by(2, other[0], file);
    answered(other[1]);
    CHECK(!in_request());

    // A number that was a file's is looked at anew when a socket is put there.
    int reused = open("/dev/zero", O_RDONLY);
    read_by(0, reused);
    CHECK(dup2(other[0], reused) == reused);
    ask(other[1]);
    read_by(0, reused);
    CHECK(in_request() == wanted);
    write_by(0, reused, file);
    CHECK(!in_request());
    return 0;
}
