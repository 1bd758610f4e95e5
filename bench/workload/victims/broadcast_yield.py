"""Twenty words that one process sends to others by memory that they share; all wait in a loop of `sched_yield`, as the
processes of vLLM do in their `shm_broadcast`."""

import mmap
import os
import struct
import time

import victim

ROUNDS = 20
OVER = 4095
given = victim.options()
readers = range(1, given.threads)
# The word of each process, and then the CPU time of each.
memory = mmap.mmap(-1, 4096)


def work():
    """What a process does with a word."""
    return sum(range(2000))


def read(reader):
    """Waits for words, and answers each."""
    seen = 0
    while True:
        while memory[0] == seen:
            if memory[OVER]:
                os._exit(0)
            os.sched_yield()
        seen = memory[0]
        work()
        struct.pack_into("q", memory, 8 * (reader + 256), time.process_time_ns())
        memory[reader] = seen


def operate():
    """Sends words, each after all have answered the last one."""
    for _ in range(ROUNDS):
        word = (memory[0] + 1) % 256
        work()
        memory[0] = word
        for reader in readers:
            while memory[reader] != word:
                os.sched_yield()
    return 0


def cpu_ns():
    """The CPU time of all processes."""
    return time.process_time_ns() + sum(struct.unpack_from("q", memory, 8 * (reader + 256))[0] for reader in readers)


for number in readers:
    if os.fork() == 0:
        read(number)
victim.run(given, operate, cpu_ns)
memory[OVER] = 1
