"""What all victims in Python have in common: options, and the protocol with the benchmark.

A victim does the same operation again and again, and says on standard output, a line each:

    ready                         it is warm, and waits for a line on standard input
    begin NOW                     measured from here on (nanoseconds of the monotonic clock)
    op NOW NANOSECONDS CHECKSUM   an operation that ended now, how long it took, and what came out
    done NOW CPU_NANOSECONDS      enough; all its threads' CPU time since it began

After `done` it goes on without a word, so that whatever runs beside it still has a neighbour, until its standard
input has another line or is closed. Lines are written every tenth of a second, so that a victim that is ended early has
told nearly all.
"""

import argparse
import os
import select
import sys
import time

FLUSH_NS = 100_000_000
WARM_UP = 3


def options(**more):
    """The options of a victim: those that all have, and `more`, each with its default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--operations", type=int, default=1, help="at least so many")
    parser.add_argument("--seconds", type=float, default=0.0, help="and for at least so long")
    parser.add_argument("--threads", type=int, default=2)
    for name, default in more.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    return parser.parse_args()


def checksum(array):
    """Of a numpy array, the sum of its words of 64 bits: a CRC takes longer than some operations."""
    return int(array.reshape(-1).view("u8").sum())


def cpu_ns(*others):
    """The CPU time of this process, and of all threads of others."""
    own = time.process_time_ns()
    for process in others:
        folder = f"/proc/{process}/task"
        for thread in os.listdir(folder):
            with open(f"{folder}/{thread}/schedstat") as file:
                own += int(file.read().split()[0])
    return own


def train(optimizer, loss, layers, rows, classes):
    """Makes a step of training by PyTorch, whose loss is a number."""
    optimizer.zero_grad()
    found = loss(layers(rows), classes)
    found.backward()
    optimizer.step()
    assert found.isfinite(), "the loss is no number"


def run(given, operate, cpu_ns=cpu_ns):
    """Measures `operate`, which returns a checksum or raises."""
    for _ in range(WARM_UP):
        operate()
    now = time.perf_counter_ns
    say = sys.stdout.write
    say("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    cpu_begin, begin = cpu_ns(), now()
    flushed, least = begin, begin + int(given.seconds * 1e9)
    say(f"begin {begin}\n")
    count, before = 0, begin
    while count < given.operations or before < least:
        before = now()
        result = operate()
        end = now()
        count += 1
        say(f"op {end} {end - before} {result:08x}\n")
        if end - flushed > FLUSH_NS:
            sys.stdout.flush()
            flushed = end
        before = end
    say(f"done {now()} {cpu_ns() - cpu_begin}\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], 0)[0]:
        operate()
