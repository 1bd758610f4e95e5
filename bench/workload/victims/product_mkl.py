"""A product of two square matrices by Intel's MKL. Its threads are those of Intel's OpenMP."""

import ctypes
import os
import sys

import numpy

import victim

given = victim.options(size=150)
# By default MKL uses fewer threads than it is told where two CPUs are one core.
os.environ["MKL_DYNAMIC"] = "FALSE"
mkl = ctypes.CDLL(sys.prefix + "/lib/libmkl_rt.so.3")
ROW_MAJOR, AS_IT_IS = 101, 111
random = numpy.random.default_rng(1)
side = given.size
a = random.normal(size=(side, side))
b = random.normal(size=(side, side))
product = numpy.empty((side, side))
by_row = (a * b[:, 0]).sum(axis=1)
one, zero = ctypes.c_double(1), ctypes.c_double(0)
at_a, at_b, at_product = (ctypes.c_void_p(matrix.ctypes.data) for matrix in (a, b, product))


def operate():
    """A product, of which one column is known by another way."""
    mkl.cblas_dgemm(
        *(ROW_MAJOR, AS_IT_IS, AS_IT_IS, side, side, side),
        *(one, at_a, side, at_b, side, zero, at_product, side),
    )
    assert numpy.allclose(product[:, 0], by_row), "the product is wrong"
    return victim.checksum(product)


victim.run(given, operate)
