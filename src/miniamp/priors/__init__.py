"""Priors: what is known of a coefficient before any data. One a file."""

from miniamp.priors.base import ScalarPrior
from miniamp.priors.discrete import Discrete
from miniamp.priors.gauss_bernoulli import GaussBernoulli
from miniamp.priors.gaussian import Gaussian
from miniamp.priors.gaussian_mixture import GaussianMixture
from miniamp.priors.laplace import Laplace
from miniamp.priors.non_negative_gaussian import NonNegativeGaussian
from miniamp.priors.numerical import Numerical
from miniamp.priors.rademacher import Rademacher
from miniamp.priors.rows import (
    GaussianRows,
    MeanFieldRows,
    NonNegativeRows,
    OneHot,
    RowPrior,
    SparseRows,
)
from miniamp.priors.sparse_non_negative import SparseNonNegative
from miniamp.priors.with_intercept import WithIntercept

__all__ = [
    "Discrete",
    "GaussBernoulli",
    "Gaussian",
    "GaussianMixture",
    "GaussianRows",
    "Laplace",
    "MeanFieldRows",
    "NonNegativeGaussian",
    "NonNegativeRows",
    "Numerical",
    "OneHot",
    "Rademacher",
    "RowPrior",
    "ScalarPrior",
    "SparseNonNegative",
    "SparseRows",
    "WithIntercept",
]
