"""A fit of scikit-learn's histogram gradient boosting: 3000 x 10 values, 60 rounds. Its threads are libgomp's."""

import numpy
from sklearn.ensemble import HistGradientBoostingRegressor

import victim

given = victim.options()
random = numpy.random.default_rng(1)
X = random.normal(size=(3000, 10))
y = X[:, 0] + numpy.sin(3 * X[:, 1]) + 0.1 * random.normal(size=3000)


def operate():
    """A fit, and what it predicts."""
    predicted = HistGradientBoostingRegressor(max_iter=60).fit(X, y).predict(X)
    assert numpy.mean((predicted - y) ** 2) < 0.1, "the fit does not fit"
    return victim.checksum(predicted)


victim.run(given, operate)
