/* Maps the files that it is given, as a process under Manx maps its library and its live file. It
 * forks as often as its first argument says, and uses some CPU time for each line that it reads. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    int children = atoi(words[1]);
    for (int i = 2; i < count; i++) {
        int file = open(words[i], O_RDWR);
        if (file < 0 || mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED)
            return 1;
        close(file);
    }
    int ends[2];
    if (pipe(ends))
        return 1;
    for (int i = 0; i < children; i++)
        if (fork() == 0) {
            char byte;
            close(ends[1]);
            return read(ends[0], &byte, 1) != 0;
        }
    puts("ready");
    fflush(stdout);
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        for (volatile int i = 0; i < 1000000; i++)
            ;
        puts("done");
        fflush(stdout);
    }
    close(ends[1]);
    while (wait(0) > 0)
        ;
    return 0;
}
