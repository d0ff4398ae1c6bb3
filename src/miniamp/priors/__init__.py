"""Priors: what is known of a coefficient before any data. One per file."""

from typing import TypeVar

from miniamp.priors.base import BasePrior, ScalarPrior
from miniamp.priors.discrete import Discrete
from miniamp.priors.gauss_bernoulli import GaussBernoulli
from miniamp.priors.gaussian import Gaussian, WithIntercept
from miniamp.priors.gaussian_mixture import GaussianMixture
from miniamp.priors.laplace import Laplace
from miniamp.priors.non_negative_gaussian import NonNegativeGaussian
from miniamp.priors.numerical import Numerical
from miniamp.priors.rademacher import Rademacher
from miniamp.priors.rows.base import RowPrior
from miniamp.priors.rows.gaussian import GaussianRows
from miniamp.priors.rows.mean_field import MeanFieldRows, NonNegativeRows
from miniamp.priors.rows.one_hot import OneHot
from miniamp.priors.rows.sparse import SparseRows
from miniamp.priors.sparse_non_negative import SparseNonNegative

__all__ = [
    "BasePrior",
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
    "by_name",
]

Kind = TypeVar("Kind", bound=BasePrior)


def by_name(kind: type[Kind] = ScalarPrior) -> dict[str, type[Kind]]:  # type: ignore[assignment]
    """The priors that have a name, of coefficients or (`kind=RowPrior`) of rows.

    All lists of priors come from here: one that this package exports and that has a `name` is known
    to estimators, the command line and reports. `default()` is what the name stands for.

    Examples
    --------
    >>> from miniamp import priors
    >>> priors.by_name()["sparse"].default()
    GaussBernoulli(rho=0.5, mean=0, var=1)
    >>> sorted(priors.by_name(priors.RowPrior))
    ['gaussian', 'nonnegative']
    """
    exported = (globals()[name] for name in __all__)
    found = (one for one in exported if isinstance(one, type) and issubclass(one, kind))
    return {one.name: one for one in found if one.name is not None}
