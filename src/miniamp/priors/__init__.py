"""Priors: what is known of a coefficient before any data. One a file."""

from miniamp.priors.base import ScalarPrior
from miniamp.priors.gauss_bernoulli import GaussBernoulli
from miniamp.priors.gaussian import Gaussian
from miniamp.priors.rademacher import Rademacher

__all__ = ["GaussBernoulli", "Gaussian", "Rademacher", "ScalarPrior"]
