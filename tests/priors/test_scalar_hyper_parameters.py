"""Bad hyper-parameters are refused by name, before anything is made of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from miniamp import Posterior, channels, priors, theory
from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.priors import ScalarPrior

BAD: list[tuple[str, Callable[[], ScalarPrior]]] = [
    ("var", lambda: priors.Gaussian(var=0.0)),
    ("mean", lambda: priors.Gaussian(mean=np.nan)),
    ("mean", lambda: priors.Gaussian(mean=np.zeros((2, 2)))),
    ("rho", lambda: priors.GaussBernoulli(rho=0.0)),
    ("rho", lambda: priors.GaussBernoulli(rho=1.1)),
    ("rho", lambda: priors.GaussBernoulli(rho=[0.1, -0.1])),
    ("var", lambda: priors.GaussBernoulli(var=-1.0)),
    ("p", lambda: priors.Rademacher(p=1.5)),
    ("scale", lambda: priors.Laplace(scale=0.0)),
    ("scale", lambda: priors.Laplace(scale=np.inf)),
    ("var", lambda: priors.NonNegativeGaussian(var=0.0)),
    ("mean", lambda: priors.NonNegativeGaussian(mean="wide")),
    ("rho", lambda: priors.SparseNonNegative(rho=0.0)),
    ("var", lambda: priors.SparseNonNegative(var=[1.0, 0.0])),
    ("points", lambda: priors.Discrete(points=1.0)),
    ("points", lambda: priors.Discrete(points=[])),
    ("points", lambda: priors.Discrete(points=[np.nan, 0.0])),
    ("weights", lambda: priors.Discrete(points=[0.0, 1.0], weights=[0.0, 0.0])),
    ("weights", lambda: priors.Discrete(points=[0.0, 1.0], weights=[-1.0, 2.0])),
    ("weights", lambda: priors.Discrete(points=[0.0, 1.0], weights=[1.0])),
    ("weights", lambda: priors.GaussianMixture([0.0, 0.0], [0.0, 1.0], [1.0, 1.0])),
    ("means", lambda: priors.GaussianMixture([0.5, 0.5], [0.0], [1.0, 1.0])),
    ("vars", lambda: priors.GaussianMixture([0.5, 0.5], [0.0, 1.0], [1.0, -1.0])),
    ("vars", lambda: priors.GaussianMixture([0.5, 0.5], [0.0, 1.0], [1.0])),
    ("log_density", lambda: priors.Numerical(1.0)),  # type: ignore[arg-type]
    ("log_density", lambda: priors.Numerical(lambda x: 0.0)),
    ("log_density", lambda: priors.Numerical(lambda x: np.full(np.shape(x), -np.inf))),
    ("log_density", lambda: priors.Numerical(lambda x: np.zeros(np.shape(x)))),
    ("log_density", lambda: priors.Numerical(lambda x: -0.5 * np.log(1.0 + np.abs(x)))),
    ("log_density", lambda: priors.Numerical(lambda x: x)),
    ("support", lambda: priors.Numerical(np.negative, support=(1.0, 0.0))),
    ("support", lambda: priors.Numerical(np.negative, support="all")),
    ("breakpoints", lambda: priors.Numerical(np.negative, support=(0, 1), breakpoints=[2.0])),
]


@pytest.mark.parametrize(("name", "make"), BAD)
def test_bad_hyper_parameters_are_refused_by_name(
    name: str, make: Callable[[], ScalarPrior]
) -> None:
    with pytest.raises(InvalidInputError, match=rf"^{name}: got .*expected .*; "):
        make()


def test_text_is_a_type_error() -> None:
    with pytest.raises(InvalidTypeError, match="scale"):
        priors.Laplace(scale="wide")


def test_hyper_parameters_are_private_and_frozen() -> None:
    points = np.array([0.0, 1.0])
    prior = priors.Discrete(points)
    points[0] = 5.0
    assert prior.points[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        prior.weights[0] = 1.0


def test_hyper_parameters_must_fit_the_number_of_coefficients() -> None:
    with pytest.raises(InvalidInputError, match="prior"):
        Posterior(priors.Laplace(scale=np.ones(3)), size=4)
    with pytest.raises(InvalidInputError, match="prior"):
        Posterior(priors.Discrete(np.zeros((3, 2))), size=4)


def test_weights_are_divided_by_their_sum() -> None:
    np.testing.assert_allclose(priors.Discrete([0.0, 1.0], [1.0, 3.0]).weights, [0.25, 0.75])


@pytest.mark.parametrize(
    "prior",
    [
        priors.Gaussian([0.1], [1.0]),
        priors.GaussBernoulli([0.3], [0.0], [1.0]),
        priors.Rademacher([0.4]),
        priors.Laplace([1.0]),
        priors.SparseNonNegative([0.2]),
        priors.Discrete([[0.0, 1.0]]),
        priors.GaussianMixture([[0.5, 0.5]], [[0.0, 1.0]], [[1.0, 2.0]]),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_an_array_of_one_value_is_that_value(prior) -> None:
    """It counted as shared, and NumPy would not convert it to the number that was needed."""
    assert prior.shape == ()
    channel = channels.Gaussian([0.1])
    assert np.isfinite(theory.learning_curve(prior, channel, 0.5, batches=1).mse).all()
    mismatched = theory.learning_curve(prior, channel, 0.5, batches=1, truth=priors.Gaussian(0.5))
    assert np.isfinite(mismatched.mse).all()
