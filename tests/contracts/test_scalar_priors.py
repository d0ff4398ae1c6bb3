"""What every scalar prior must do. A new one needs an entry in EXAMPLES.

The exact log-partitions there are textbook formulas in arithmetic of 60 digits, where nothing
cancels; their numerical derivatives are the moments.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from miniamp import priors
from miniamp.priors import ScalarPrior

mp.mp.dps = 60

#: Relative error of log-partitions and moments.
RELATIVE = 1e-8
#: Smaller than this, a derivative taken with 60 digits is noise.
NOISE = 1e-45


def exact_gaussian(mean: Any, var: Any, A: Any, B: Any) -> Any:
    shrink = 1 + A * var
    exponent = (var * B**2 + 2 * mean * B - A * mean**2) / (2 * shrink)
    return exponent - mp.log(shrink) / 2


def exact_cut(mean: Any, var: Any, A: Any, B: Any) -> Any:
    after = (mean + var * B) / mp.sqrt(var * (1 + A * var))
    before = mean / mp.sqrt(var)
    return exact_gaussian(mean, var, A, B) + mp.log(mp.ncdf(after)) - mp.log(mp.ncdf(before))


def exact_spiked(rho: Any, slab: Any) -> Any:
    return mp.log(1 - rho + rho * mp.exp(slab))


def exact_sum(weights: Any, logs: Any) -> Any:
    total = mp.fsum(weights)
    return mp.log(mp.fsum(w * mp.exp(one) for w, one in zip(weights, logs, strict=True)) / total)


def exact_laplace(scale: Any, A: Any, B: Any) -> Any:
    def side(rate: Any) -> Any:
        if A == 0:
            return 1 / rate
        return mp.sqrt(mp.pi / 2 / A) * mp.exp(rate**2 / (2 * A)) * mp.erfc(rate / mp.sqrt(2 * A))

    return mp.log((side(1 / scale - B) + side(1 / scale + B)) / (2 * scale))


def numbers(value: Any) -> Any:
    array = np.asarray(value)
    return mp.mpf(float(array)) if array.ndim == 0 else [mp.mpf(float(v)) for v in array]


@dataclass
class Example:
    """A prior, its exact log-partition, and how much tilt it takes without A.

    `numeric`: hyper-parameters are numbers that may be one per coefficient.
    """

    prior: ScalarPrior
    exact: Callable[[Any, Any], Any]
    most_B: float = 2.0
    numeric: bool = True


def example_of(prior: ScalarPrior, formula: Callable[..., Any], **more: Any) -> Example:
    values = [numbers(v) for v in prior.parameters().values()]
    return Example(prior, lambda A, B: formula(*values, A, B), **more)


def spiked_gaussian(rho: Any, mean: Any, var: Any, A: Any, B: Any) -> Any:
    return exact_spiked(rho, exact_gaussian(mean, var, A, B))


def spiked_cut(rho: Any, mean: Any, var: Any, A: Any, B: Any) -> Any:
    return exact_spiked(rho, exact_cut(mean, var, A, B))


def signs(p: Any, A: Any, B: Any) -> Any:
    return exact_sum([p, 1 - p], [B - A / 2, -B - A / 2])


def points(places: Any, weights: Any, A: Any, B: Any) -> Any:
    return exact_sum(weights, [B * x - A * x**2 / 2 for x in places])


def mixture(weights: Any, means: Any, variances: Any, A: Any, B: Any) -> Any:
    parts = zip(means, variances, strict=True)
    return exact_sum(weights, [exact_gaussian(m, v, A, B) for m, v in parts])


def numerical_laplace(A: Any, B: Any) -> Any:
    return exact_laplace(mp.mpf(0.7), A, B)


def numerical_gaussian(A: Any, B: Any) -> Any:
    return exact_gaussian(mp.mpf(0.25), mp.mpf(2.0), A, B)


def numerical_cut(A: Any, B: Any) -> Any:
    return exact_cut(mp.mpf(-1.0), mp.mpf(0.5), A, B)


EXAMPLES: dict[str, list[Example]] = {
    "Gaussian": [
        example_of(priors.Gaussian(mean, var), exact_gaussian)
        for mean, var in ((0.0, 1.0), (-2.0, 0.3), (1e3, 1e-6))
    ],
    "GaussBernoulli": [
        example_of(priors.GaussBernoulli(rho, mean, var), spiked_gaussian)
        for rho, mean, var in ((0.3, 0.0, 1.0), (1.0, 1.0, 0.2), (1e-12, -1.0, 4.0))
    ],
    "Rademacher": [example_of(priors.Rademacher(p), signs) for p in (0.5, 0.1, 0.999999)],
    "Discrete": [
        example_of(priors.Discrete(where, weights), points)
        for where, weights in (
            ([-1.0, 0.0, 2.0], [0.2, 0.5, 0.3]),
            ([3.0, -1.0, 0.5], [1.0, 0.0, 1.0]),
            ([0.0, 1e-3, 1.0], [1e-9, 1.0, 1.0]),
        )
    ],
    "Laplace": [
        example_of(priors.Laplace(scale), exact_laplace, most_B=0.9 / scale)
        for scale in (1.0, 0.05, 30.0)
    ],
    "NonNegativeGaussian": [
        example_of(priors.NonNegativeGaussian(mean, var), exact_cut)
        for mean, var in ((0.0, 1.0), (-3.0, 0.2), (5.0, 1.0))
    ],
    "SparseNonNegative": [
        example_of(priors.SparseNonNegative(rho, mean, var), spiked_cut)
        for rho, mean, var in ((0.2, 0.0, 1.0), (1.0, -1.0, 1.0), (1e-9, 2.0, 0.5))
    ],
    "GaussianMixture": [
        example_of(priors.GaussianMixture(*parameters), mixture)
        for parameters in (
            ([0.5, 0.3, 0.2], [-1.0, 0.0, 3.0], [0.1, 2.0, 0.5]),
            ([0.9, 0.1, 0.0], [0.0, 0.0, 9.0], [0.0, 1.0, 1.0]),
            ([1.0, 1e-9, 1.0], [5.0, 0.0, 5.0], [1e-6, 1.0, 1e2]),
        )
    ],
    "Numerical": [
        Example(
            priors.Numerical(lambda x: -np.abs(x) / 0.7, breakpoints=[0.0]),
            numerical_laplace,
            most_B=1.2,
            numeric=False,
        ),
        Example(
            priors.Numerical(lambda x: -np.square(x - 0.25) / 4.0),
            numerical_gaussian,
            numeric=False,
        ),
        Example(
            priors.Numerical(lambda x: -np.square(x + 1.0), support=(0.0, np.inf)),
            numerical_cut,
            numeric=False,
        ),
    ],
}
ALL = [(name, k) for name, found in EXAMPLES.items() for k in range(len(found))]
each_prior = pytest.mark.parametrize(("name", "k"), ALL)


def exported() -> set[str]:
    found = ((name, getattr(priors, name)) for name in priors.__all__)
    return {
        name
        for name, thing in found
        if inspect.isclass(thing) and issubclass(thing, ScalarPrior) and thing is not ScalarPrior
    }


def test_every_exported_prior_has_an_example() -> None:
    assert exported() == set(EXAMPLES)
    for name, found in EXAMPLES.items():
        assert all(type(e.prior).__name__ == name for e in found)


def check_against_exact(case: Example, A: float, B: float) -> None:
    exact_A, exact_B = mp.mpf(A), mp.mpf(B)
    log_partition = case.exact(exact_A, exact_B)
    exact_mean = mp.diff(lambda b: case.exact(exact_A, b), exact_B)
    exact_var = mp.diff(lambda b: case.exact(exact_A, b), exact_B, 2)
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        found = case.prior.log_partition(A, B)
        mean, var = case.prior.moments(A, B)
    scale = 1.0 + abs(float(log_partition))
    assert abs(float(found - log_partition)) <= 1e-11 * scale
    # A formula of the user is rounded where it is large, and its moments with it.
    relative = RELATIVE if case.numeric else RELATIVE + np.finfo(float).eps * scale
    width = float(mp.sqrt(max(exact_var, 0)))
    assert abs(float(mean - exact_mean)) <= relative * (abs(float(exact_mean)) + width) + NOISE
    assert var >= 0.0
    assert abs(float(var - exact_var)) <= relative * float(exact_var) + NOISE


@each_prior
@settings(max_examples=25, deadline=None, derandomize=True)
@given(log_A=st.floats(-6.0, 14.0), x=st.floats(-4.0, 4.0), z=st.floats(-4.0, 4.0))
@example(log_A=14.0, x=0.1, z=0.0)
@example(log_A=14.0, x=-3.0, z=0.0)
@example(log_A=-6.0, x=0.0, z=0.0)
def test_moments_are_derivatives_of_log_partition(
    name: str, k: int, log_A: float, x: float, z: float
) -> None:
    A = 10.0**log_A
    check_against_exact(EXAMPLES[name][k], A, A * x + np.sqrt(A) * z)


@each_prior
@pytest.mark.parametrize("A", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("steps", [-1e6, -1e3, -30.0, 30.0, 1e3, 1e6])
def test_far_from_the_prior_nothing_overflows(name: str, k: int, A: float, steps: float) -> None:
    """B^2/A up to 1e12: 1e6 standard deviations of the tilt away from zero."""
    check_against_exact(EXAMPLES[name][k], A, steps * np.sqrt(A))


@each_prior
@pytest.mark.parametrize("share", [-1.0, -0.1, 0.0, 0.5, 1.0])
def test_without_precision(name: str, k: int, share: float) -> None:
    case = EXAMPLES[name][k]
    check_against_exact(case, 0.0, share * case.most_B)
    mean, var = case.prior.moments(1e-12, share * case.most_B)
    limit_mean, limit_var = case.prior.moments(0.0, share * case.most_B)
    assert np.allclose([mean, var], [limit_mean, limit_var], rtol=1e-6, atol=1e-9)


@each_prior
def test_log_partition_of_no_tilt_is_zero(name: str, k: int) -> None:
    assert abs(EXAMPLES[name][k].prior.log_partition(0.0, 0.0)) < 1e-12


@each_prior
def test_a_sharp_tilt_leaves_what_it_points_at(name: str, k: int) -> None:
    """x drawn from the prior, then seen with precision A = 1e14: standard deviation 1e-7."""
    prior, rng, A = EXAMPLES[name][k].prior, np.random.default_rng(1), 1e14
    x = prior.sample(rng, 200)
    mean, var = prior.moments(A, A * x)
    assert np.max(np.abs(mean - x)) < 1e-6
    assert np.max(var) <= 1.001 / A


@each_prior
@pytest.mark.parametrize(
    ("A", "B"), [(0.0, 0.0), (0.0, 0.4), (3.0, -2.0), (1e4, 1e3), (2.0, -90.0)]
)
def test_samples_agree_with_moments(name: str, k: int, A: float, B: float) -> None:
    """n = 20,000 draws, seed 2: five standard errors of the mean, and six of the variance."""
    case, n = EXAMPLES[name][k], 20_000
    B = np.clip(B, -case.most_B, case.most_B) if A == 0.0 else B
    draws = case.prior.sample(np.random.default_rng(2), n, A, B)
    mean, var = case.prior.moments(A, B)
    assert draws.shape == (n,)
    square = np.square(draws - mean)
    assert abs(draws.mean() - mean) <= 5.0 * np.sqrt(var / n) + 1e-15 * abs(mean)
    # What has a probability of 1e-9 does not show in n draws, nor does the variance that it makes.
    if np.unique(draws, return_counts=True)[1].max() < n - 20:
        assert abs(square.mean() - var) <= 6.0 * np.std(square) / np.sqrt(n) + 1e-15 * mean**2


@each_prior
def test_samples_have_the_shape_asked_for(name: str, k: int) -> None:
    prior, rng = EXAMPLES[name][k].prior, np.random.default_rng(0)
    A, B = 2.0, np.array([-1.0, 0.0, 1.0])
    assert prior.sample(rng).shape == ()
    assert prior.sample(rng, None, A, B).shape == (3,)
    assert prior.sample(rng, (7, 3), A, B).shape == (7, 3)
    first = prior.sample(np.random.default_rng(5), (7, 3), A, B)
    assert np.array_equal(first, prior.sample(np.random.default_rng(5), (7, 3), A, B))


@each_prior
def test_shapes_broadcast(name: str, k: int) -> None:
    prior = EXAMPLES[name][k].prior
    for A, B in ((1.0, np.zeros(4)), (np.ones(4), 0.0), (np.ones((2, 1)), np.zeros(4))):
        shape = np.broadcast_shapes(np.shape(A), np.shape(B))
        assert prior.log_partition(A, B).shape == shape
        assert all(moment.shape == shape for moment in prior.moments(A, B))


@pytest.mark.parametrize("name", [n for n, found in EXAMPLES.items() if found[0].numeric])
def test_per_coordinate_hyper_parameters_equal_a_loop_of_scalars(name: str) -> None:
    found = [case.prior for case in EXAMPLES[name]]
    stacked = {n: np.stack([getattr(p, n) for p in found]) for n in found[0].names}
    together = type(found[0])(**stacked)
    assert together.shape == (len(found),)
    rng = np.random.default_rng(3)
    A, B = 10.0 ** rng.uniform(-2, 8, (20, 3)), rng.normal(size=(20, 3))
    B *= np.sqrt(A) * 3.0
    logs, (means, variances) = together.log_partition(A, B), together.moments(A, B)
    for i, prior in enumerate(found):
        alone = together.at(np.array([i]), len(found))
        for each in (prior, alone):
            mean, var = each.moments(A[:, i], B[:, i])
            # A log-partition near zero may be a difference of logarithms: known to 1e-14.
            log = each.log_partition(A[:, i], B[:, i])
            np.testing.assert_allclose(logs[:, i], log, rtol=1e-14, atol=1e-14)
            # A mean near zero is known relative to the width, where it comes from a quadrature.
            assert np.all(np.abs(means[:, i] - mean) <= 1e-14 * (np.abs(mean) + np.sqrt(var)))
            np.testing.assert_allclose(variances[:, i], var, rtol=1e-14)
    assert together.sample(rng).shape == (3,)
    assert together.fitted(A[0], B[0]) == together


@each_prior
@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), log_A=st.floats(-2.0, 6.0), spread=st.floats(0.05, 5.0))
def test_an_em_step_never_lowers_the_likelihood(
    name: str, k: int, seed: int, log_A: float, spread: float
) -> None:
    prior, rng = EXAMPLES[name][k].prior, np.random.default_rng(seed)
    N = 60 if name == "Numerical" else 300
    A = 10.0**log_A * np.exp(rng.normal(size=N))
    B = A * spread * rng.standard_t(5, size=N) + np.sqrt(A) * rng.normal(size=N)
    before = prior.log_partition(A, B)
    for held in ((), *((one,) for one in prior.names)):
        fitted = prior.fitted(A, B, fixed=held)
        assert type(fitted) is type(prior)
        assert fitted.shape == prior.shape
        assert all(np.array_equal(getattr(fitted, n), getattr(prior, n)) for n in held)
        gain = np.sum(fitted.log_partition(A, B) - before)
        assert gain >= -1e-9 * (1.0 + np.sum(np.abs(before)))


@each_prior
def test_an_em_step_from_the_truth_stays_there(name: str, k: int) -> None:
    """N = 4000 coordinates drawn from the prior, seed 4, seen with A = 25.

    With the truth as start, the most that p hyper-parameters can gain is half a chi-square of p
    degrees of freedom: below 15 with near certainty for p <= 9.
    """
    prior, rng, N, A = EXAMPLES[name][k].prior, np.random.default_rng(4), 4000, 25.0
    B = A * prior.sample(rng, N) + np.sqrt(A) * rng.normal(size=N)
    fitted = prior.fitted(A, B)
    gain = np.sum(fitted.log_partition(A, B) - prior.log_partition(A, B))
    assert -1e-6 <= gain < 15.0


@each_prior
def test_unknown_names_cannot_be_held(name: str, k: int) -> None:
    with pytest.raises(ValueError, match="fixed: got 'nonsense'"):
        EXAMPLES[name][k].prior.fitted(1.0, np.zeros(3), fixed="nonsense")
