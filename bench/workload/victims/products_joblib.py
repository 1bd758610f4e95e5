"""Products of matrices in threads of joblib, each of which uses the threads of OpenBLAS: a pool within a pool."""

import joblib
import numpy

import victim

given = victim.options()
random = numpy.random.default_rng(1)
a = random.normal(size=(8, 150, 150))
b = random.normal(size=(150, 150))
by_row = a @ b[:, 0]


def product(number):
    """One of the products."""
    return a[number] @ b


def operate():
    """Eight products, of which one column each is known by another way."""
    products = numpy.stack(pool(joblib.delayed(product)(number) for number in range(len(a))))
    assert numpy.allclose(products[:, :, 0], by_row), "a product is wrong"
    return victim.checksum(products)


with joblib.Parallel(n_jobs=given.threads, backend="threading") as pool:
    victim.run(given, operate)
