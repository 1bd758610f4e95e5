"""A product of two square matrices by numpy. Its threads are OpenBLAS's."""

import numpy

import victim

given = victim.options(size=150)
random = numpy.random.default_rng(1)
a = random.normal(size=(given.size, given.size))
b = random.normal(size=(given.size, given.size))
by_row = a @ b[:, 0]


def operate():
    """A product, of which one column is known by another way."""
    product = a @ b
    assert numpy.allclose(product[:, 0], by_row), "the product is wrong"
    return victim.checksum(product)


victim.run(given, operate)
