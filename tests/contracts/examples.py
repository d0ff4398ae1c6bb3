"""One of every prior and channel that the package exports; `test_discovery.py` demands it.

A new class gets one line here, and every contract then runs on it.
"""

from __future__ import annotations

from scipy.special import log_expit

from miniamp import channels, priors

R = 2  # length of a row

PRIORS = {
    priors.Gaussian: priors.Gaussian(0.3, 0.8),
    priors.GaussBernoulli: priors.GaussBernoulli(0.3, 0.2, 2.0),
    priors.SparseNonNegative: priors.SparseNonNegative(0.3, 0.5, 1.0),
    priors.NonNegativeGaussian: priors.NonNegativeGaussian(0.5, 1.0),
    priors.Laplace: priors.Laplace(0.7),
    priors.Rademacher: priors.Rademacher(0.4),
    priors.Discrete: priors.Discrete([-1.0, 0.0, 1.5], [0.2, 0.5, 0.3]),
    priors.GaussianMixture: priors.GaussianMixture([0.6, 0.4], [0.0, 1.0], [0.0, 0.5]),
    priors.Numerical: priors.Numerical(lambda x: -(x**4)),
    priors.WithIntercept: priors.WithIntercept(priors.GaussBernoulli(0.3), 50.0),
    priors.GaussianRows: priors.GaussianRows(R, 0.2, 0.7),
    priors.SparseRows: priors.SparseRows(R, 0.3, 0.2, 0.7),
    priors.OneHot: priors.OneHot(R, [0.3, 0.7]),
    priors.MeanFieldRows: priors.MeanFieldRows(priors.Gaussian(0.0, 0.5), R),
    priors.NonNegativeRows: priors.NonNegativeRows(R, 0.7),
}
CHANNELS = {
    channels.Gaussian: channels.Gaussian(0.1),
    channels.Probit: channels.Probit(0.5),
    channels.Logistic: channels.Logistic(),
    channels.Mislabelled: channels.Mislabelled(channels.Probit(0.5), [0, 1, 2, 3, 9, 3, 0]),
    channels.Softmax: channels.Softmax(),
    channels.StudentT: channels.StudentT(4.0, 0.5),
    channels.Poisson: channels.Poisson(),
    channels.Interval: channels.Interval([-0.5, 0.7], 0.05),
    channels.Numerical: channels.Numerical(lambda y, z: log_expit(y * z), support=[-1, 1]),
}
