/* A memory stall: threads read a file by pages through a mapping, and drop it from memory again and
 * again, so that most accesses are page faults with a read from a disk.
 *
 * The argument is a file that is larger than what is read ahead. */
#include "diseases.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char *bytes;
static size_t length;
static int file;

static void *reader(void *unused) {
  (void)unused;
  unsigned int seed = 1;
  for (unsigned long round = 1;; round++) {
    size_t page = (size_t)rand_r(&seed) % (length / 4096) * 4096;
    atomic_fetch_add(&sink, (unsigned long)((volatile char *)bytes)[page]);
    if (round % 64 == 0) {
      madvise(bytes, length, MADV_DONTNEED);
      posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    }
  }
  return NULL;
}

int main(int count, char **arguments) {
  struct stat about;
  if (count < 2 || (file = open(arguments[1], O_RDONLY)) < 0 || fstat(file, &about) != 0) {
    perror("the file");
    return 1;
  }
  length = (size_t)about.st_size;
  bytes = mmap(NULL, length, PROT_READ, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  madvise(bytes, length, MADV_RANDOM);
  for (int thread = 0; thread < 4; thread++) start(reader, NULL);
  run_until_told();
}
