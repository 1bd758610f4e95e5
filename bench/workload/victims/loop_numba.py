"""A parallel loop of numba over 20,000 numbers, on one of numba's three kinds of threads."""

import ctypes
import os
import sys

import numpy

import victim

given = victim.options(layer="omp")
os.environ["NUMBA_THREADING_LAYER"] = given.layer
os.environ["NUMBA_NUM_THREADS"] = str(given.threads)
if given.layer == "tbb":
    # The package's library lies where the loader does not look; once it is loaded, it is found by its name.
    ctypes.CDLL(sys.prefix + "/lib/libtbb.so.12", ctypes.RTLD_GLOBAL)

import numba  # it reads these variables when it is loaded


@numba.njit(parallel=True)
def loop(x, out):
    """Each number by itself, so that the result is the same whatever the threads do."""
    for i in numba.prange(x.size):
        out[i] = x[i] * x[i] + 0.5 * x[i]


x = numpy.random.default_rng(1).normal(size=20_000)
out = numpy.empty_like(x)
expected = x * x + 0.5 * x
# Some numbers of each thread's part: to fill and to sum up all of them takes as long as the loop does.
marks = out[::97]


def operate():
    """One loop, into memory that held something else."""
    marks.fill(0)
    loop(x, out)
    return victim.checksum(marks)


operate()
assert numpy.allclose(out, expected), "the loop is wrong"
assert numba.threading_layer() == given.layer, "another layer"
victim.run(given, operate)
