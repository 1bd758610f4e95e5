/*
 * Several threads write parts of one file, with a range lock: threads that write different parts do
 * not wait for each other.
 *
 *     cc -pthread -o ranges ranges.c $(pkg-config --cflags --libs manx)
 *
 * Each thread appends records to a part of its own, and counts them in the file's head, which belongs to all. Meanwhile the
 * main thread makes copies of the whole file, which have to be of one moment: the head counts as many records as there are.
 */
#define _XOPEN_SOURCE 700
#include <manx_range.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, RECORDS = 300, COPIES = 20 };
enum { HEAD = sizeof(uint64_t), RECORD = 16, PART = RECORDS * RECORD, FILE_SIZE = HEAD + THREADS * PART };

static manx_range_t *ranges;
static int file;

/* Ends the program if something fails that is not to fail. */
static void expect(int fine, const char *what) {
    if (!fine) {
        perror(what);
        exit(1);
    }
}

static void expect_0(int error, const char *what) {
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
}

/* A record and the record count are written together, so that no thread sees only one of them. */
static void append(off_t place, const char *record) {
    const manx_range_span_t head_and_record[] = {
        {0, HEAD},
        {(uint64_t)place, (uint64_t)place + RECORD},
    };
    manx_range_set_t *both;
    uint64_t count;
    expect_0(manx_range_lock_many(ranges, head_and_record, 2, 0, &both), "manx_range_lock_many");
    expect(pread(file, &count, HEAD, 0) == HEAD, "pread");
    count++;
    expect(pwrite(file, record, RECORD, place) == RECORD, "pwrite");
    expect(pwrite(file, &count, HEAD, 0) == HEAD, "pwrite");
    manx_range_unlock_many(both);
}

/* The thread's own part is looked over without waiting for threads that write elsewhere. */
static void look_over(off_t part) {
    static const char nothing[RECORD];
    char record[RECORD];
    manx_range_held_t held;
    expect_0(manx_range_rdlock(ranges, (uint64_t)part, (uint64_t)part + PART, &held), "manx_range_rdlock");
    for (off_t place = part; place < part + PART; place += RECORD) {
        expect(pread(file, record, RECORD, place) == RECORD, "pread");
        expect(memcmp(record, nothing, RECORD) != 0, "a record");
    }
    manx_range_unlock(&held);
}

static void *writer(void *number) {
    const int mine = *(const int *)number;
    const off_t part = HEAD + (off_t)mine * PART;
    for (int i = 0; i < RECORDS; i++) {
        char record[RECORD] = {0};
        snprintf(record, sizeof record, "%d: %d", mine, i);
        append(part + (off_t)i * RECORD, record);
    }
    look_over(part);
    return NULL;
}

/* A copy of one moment. Returns how many records it has. */
static uint64_t copy(void) {
    static char text[FILE_SIZE];
    uint64_t counted, found = 0;
    manx_range_held_t all;
    expect_0(manx_range_rdlock(ranges, 0, MANX_RANGE_END, &all), "manx_range_rdlock");
    expect(pread(file, text, FILE_SIZE, 0) == FILE_SIZE, "pread");
    manx_range_unlock(&all);
    memcpy(&counted, text, HEAD);
    for (int place = HEAD; place < FILE_SIZE; place += RECORD)
        found += text[place] != 0;
    if (counted != found) {
        fprintf(stderr, "%llu records, but %llu are counted\n", (unsigned long long)found,
                (unsigned long long)counted);
        exit(1);
    }
    return found;
}

int main(void) {
    /* Blocks of the size of a few records, and the rest as usual. */
    const manx_range_options_t options = {.block_log2 = 6};
    char name[] = "/tmp/manx-ranges-XXXXXX";
    pthread_t threads[THREADS];
    int numbers[THREADS];
    file = mkstemp(name);
    expect(file >= 0 && unlink(name) == 0 && ftruncate(file, FILE_SIZE) == 0, name);
    expect_0(manx_range_create(&ranges, &options), "manx_range_create");
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        expect_0(pthread_create(&threads[i], NULL, writer, &numbers[i]), "pthread_create");
    }
    for (int i = 0; i < COPIES; i++)
        copy();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%llu records\n", (unsigned long long)copy());
    expect_0(manx_range_destroy(ranges), "manx_range_destroy");
    return close(file);
}
