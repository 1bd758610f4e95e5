"""Twenty rounds of LightGBM on 3000 x 10 values. Its threads are libgomp's."""

import warnings

import lightgbm
import numpy

import victim

warnings.filterwarnings("ignore")
given = victim.options()
random = numpy.random.default_rng(1)
X = random.normal(size=(3000, 10))
y = X[:, 0] + numpy.sin(3 * X[:, 1]) + 0.1 * random.normal(size=3000)
rules = {"num_threads": given.threads, "verbose": -1}


def operate():
    """A model, and what it predicts."""
    predicted = lightgbm.train(rules, lightgbm.Dataset(X, y), 20).predict(X)
    assert numpy.mean((predicted - y) ** 2) < 0.4, "the model does not fit"
    return victim.checksum(predicted)


victim.run(given, operate)
