"""Priors of rows: what is known of an R-vector (a row of a factor) before any data. One a file."""

from miniamp.priors.rows.base import RowPrior
from miniamp.priors.rows.gaussian import GaussianRows
from miniamp.priors.rows.mean_field import MeanFieldRows
from miniamp.priors.rows.non_negative import NonNegativeRows
from miniamp.priors.rows.one_hot import OneHot
from miniamp.priors.rows.sparse import SparseRows

__all__ = [
    "GaussianRows",
    "MeanFieldRows",
    "NonNegativeRows",
    "OneHot",
    "RowPrior",
    "SparseRows",
]
