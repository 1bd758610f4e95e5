"""Twenty rounds of xgboost on 3000 x 10 values. Its threads are libgomp's."""

import numpy
import xgboost

import victim

given = victim.options()
random = numpy.random.default_rng(1)
X = random.normal(size=(3000, 10))
y = X[:, 0] + numpy.sin(3 * X[:, 1]) + 0.1 * random.normal(size=3000)
rules = {"nthread": given.threads, "tree_method": "hist"}


def operate():
    """A model, and what it predicts."""
    data = xgboost.DMatrix(X, y, nthread=given.threads)
    predicted = xgboost.train(rules, data, 20).predict(data)
    assert numpy.mean((predicted - y) ** 2) < 0.1, "the model does not fit"
    return victim.checksum(predicted)


victim.run(given, operate)
