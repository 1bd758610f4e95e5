"""A fit of scikit-learn's KMeans: two pools of threads in one process, libgomp's and OpenBLAS's."""

import numpy
from sklearn.cluster import KMeans

import victim

given = victim.options()
X = numpy.random.default_rng(1).normal(size=(4000, 16))


def operate():
    """A fit, whose centers are fewer than the points and nearer to them than nothing is."""
    found = KMeans(n_clusters=8, n_init=1, max_iter=10, random_state=1).fit(X)
    assert found.inertia_ < (X**2).sum(), "the centers are no centers"
    return victim.checksum(found.labels_.astype("u8"))


victim.run(given, operate)
