"""The scalar channel b ~ N(lambda x, lambda): its MMSE and its mutual information."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from itertools import combinations
from typing import ParamSpec, TypeVar

import numpy as np
from scipy.special import logsumexp

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.numerics.scales import VANISHED, LogTable, graded_rule, low_series
from miniamp.priors.base import Components, ScalarPrior

#: Below this lambda, in units of 1/Var x, epsilon is v/(1 + lambda v) to rounding.
WEAK = 1e-7
#: Where each value is a quadrature, a polynomial in lambda up to here saves seven decades of table.
MILD = 0.05
#: Up to this lambda Var x a prior without components is integrated; the density of b is a product
#: of two numbers of size exp(lambda x^2/2), and has no digits left much beyond.
STRONG = 1e13
#: Quadrature over b reaches this many standard deviations of the prior: far enough for heavy tails,
#: at the cost of a few panels.
TAIL = 300.0
#: Stands for an infinite lambda Var x: the points of a discrete prior are long known, a
#: continuous one has reached errors that stand for none.
INFINITE = 1e33
#: Within this many noise scales of 0 the density of b keeps its digits whatever the prior.
NEAR = 40.0
#: Tables that are kept, one per prior, so that all that is computed with one prior shares its work.
KEPT = 64
#: Points of the trapezoid rule, once the window where the integrand lives is known.
FINE = 401
#: ... and of the scan that finds it.
COARSE = 161
#: The integrand is followed down to exp(-DEPTH) of its peak.
DEPTH = 40.0
_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)

Given_ = ParamSpec("Given_")
Made = TypeVar("Made")


class ScalarChannel:
    """epsilon(lambda) and I_x(lambda) of one prior, tabulated where they are needed.

    I_x is half the integral of epsilon (the I-MMSE relation): all its terms are positive, where the
    definition subtracts numbers of size lambda.

    Attributes
    ----------
    mean, variance, power : float
        E x, Var x and E x^2 of the prior.

    Examples
    --------
    >>> from miniamp import priors
    >>> channel = ScalarChannel(priors.Gaussian())
    >>> round(float(channel.mmse(3.0)), 12), round(float(channel.information(3.0)), 12)
    (0.25, 0.69314718056)
    """

    def __init__(self, prior: ScalarPrior) -> None:
        self.prior = prior
        self.parts = parts_of(prior)
        mean, variance = prior.moments(0.0, 0.0)
        self.mean, self.variance = float(np.squeeze(mean)), float(np.squeeze(variance))
        self.power = self.mean**2 + self.variance
        if not 0.0 < self.variance < np.inf:
            none = self.variance == 0.0
            raise checks.refuse(
                "prior", f"{prior!r}, whose variance is {self.variance:g}", "a finite one above 0",
                "spread it over more than one value" if none else "let its tails fall off faster",
            )  # fmt: skip
        weak = (WEAK if self.parts is not None else MILD) / self.variance
        low = self._weak if self.parts is not None else low_series(self._log_mmse, weak)
        self._table = LogTable(self._log_mmse, np.log(weak), low)

    def mmse(self, lam: ArrayOrFloat) -> Array:
        """epsilon(lambda) = E Var(x | b), elementwise."""
        return self._table.value(np.minimum(lam, INFINITE / self.variance))

    def information(self, lam: ArrayOrFloat) -> Array:
        """I(x; b) in nats, elementwise."""
        return 0.5 * self._table.integral(np.minimum(lam, INFINITE / self.variance))

    def decay(self) -> float:
        """-d log epsilon/d lambda for large lambda: positive for discrete priors, else 0.

        The nearest two points, a distance d apart, are distinguished with error exp(-lambda d^2/8).
        """
        if self.parts is None or self.parts.variances.any():
            return 0.0
        return float(np.square(np.diff(np.sort(self.parts.means)).min()) / 8.0)

    def dimension(self) -> float:
        """lim lambda epsilon(lambda): the weight of the continuous part of the prior."""
        if self.parts is not None:
            return float(self.parts.weights[self.parts.variances > 0.0].sum())
        strong = STRONG / self.variance
        return float(strong * self.mmse(strong))

    def _weak(self, lam: Array) -> tuple[Array, Array]:
        known = self.variance * lam
        return self.variance / (1.0 + known), np.log1p(known)

    def _log_mmse(self, log_lam: Array) -> Array:
        lam = np.exp(log_lam)
        if self.parts is not None:
            return log_mmse(self.parts, lam)
        strong = STRONG / self.variance
        logs = np.array([self._integrated(min(x, strong)) for x in lam])
        # Beyond, a continuous prior has epsilon = dimension/lambda.
        return np.asarray(np.maximum(logs - np.log(np.maximum(lam / strong, 1.0)), 2.0 * VANISHED))

    def _integrated(self, lam: float) -> float:
        u, weights = field_rule(self.prior, lam, self.prior.landmarks())
        variance = self.prior.moments(lam, np.sqrt(lam) * u)[1]
        with np.errstate(divide="ignore"):
            return float(np.log(weights @ variance))


def log_mmse(parts: Components, lam: Array) -> Array:
    """log of epsilon(lambda) = E Var(x | b), b ~ N(lambda x, lambda), for an array of lambda > 0.

    With pi_j the posterior probability of part j and m_j, v_j its posterior mean and variance,

        Var = sum_j pi_j v_j + sum_{i<j} pi_i pi_j (m_i - m_j)^2.

    v_j does not depend on b and E pi_j = w_j, so the first sum is known exactly; in the second,
    p(b) pi_i(b) = w_i N_i(b) turns the average over b into one over the narrower part of the pair,
    on whose own scale everything that matters happens within a few tens of standard deviations.
    Nothing cancels: right to 1e-12 for lambda from 0 to 1e30, and down to errors far below 1e-300.
    """
    order = np.argsort(parts.variances, kind="stable")
    weights, means, variances = (a[order] for a in parts)
    lam = lam[:, None]
    shrink = 1.0 + lam * variances
    with np.errstate(divide="ignore"):
        terms = [logsumexp(np.log(weights * variances / shrink), axis=1)]
    terms += [
        _log_pair(weights, means, variances, lam, i, j)
        for i, j in combinations(range(len(weights)), 2)
    ]
    return np.asarray(logsumexp(np.stack(terms), axis=0))


def _log_pair(weights: Array, means: Array, variances: Array, lam: Array, i: int, j: int) -> Array:
    """log E pi_i pi_j (m_i - m_j)^2, part i being no wider than part j; lam is (L, 1)."""
    shrink = 1.0 + lam * variances
    log_heights = np.log(weights) - 0.5 * np.log(shrink)
    gaps = means[i] - means
    root = np.sqrt(lam)
    width = np.sqrt(shrink[:, i : i + 1])

    def log_integrand(t: Array) -> Array:
        # t counts standard deviations of part i's share of b/sqrt(lambda) from its centre.
        exponents = np.stack(
            [
                log_heights[:, k : k + 1]
                - np.square(root * gaps[k] + width * t) / (2.0 * shrink[:, k : k + 1])
                for k in range(len(weights))
            ]
        )
        # Posterior means relative to the centre of part i: no difference of large numbers.
        pull = root * width * t
        m_i = variances[i] * pull / shrink[:, i : i + 1]
        m_j = (variances[j] * pull - gaps[j]) / shrink[:, j : j + 1]
        top = exponents.max(axis=0)
        log_total = top + np.log(np.sum(np.exp(exponents - top), axis=0))
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.log(weights[i])
                - 0.5 * np.square(t)
                - _LOG_SQRT_2PI
                + exponents[j]
                - log_total
                + 2.0 * np.log(np.abs(m_i - m_j))
            )

    # The pair overlaps between its centres: at most half way for points, closer for wide parts.
    reach = np.minimum(15.0 + np.abs(root * gaps[j]) / width, 90.0)
    scan = reach * np.linspace(-1.0, 1.0, COARSE)
    height = log_integrand(scan)
    peak = height.max(axis=1, keepdims=True)
    alive = height >= peak - DEPTH
    step = 2.0 * reach[:, 0] / (COARSE - 1)
    first = np.take_along_axis(scan, alive.argmax(axis=1)[:, None], 1)[:, 0] - step
    last = np.take_along_axis(scan, COARSE - 1 - alive[:, ::-1].argmax(axis=1)[:, None], 1)[:, 0]
    last = last + step
    t = first[:, None] + (last - first)[:, None] * np.linspace(0.0, 1.0, FINE)
    with np.errstate(invalid="ignore"):
        fine = log_integrand(t)
        top = fine.max(axis=1)
        total = np.sum(np.exp(fine - top[:, None]), axis=1)
        value = top + np.log(total) + np.log((last - first) / (FINE - 1))
    return np.where(np.isfinite(top), value, -np.inf)


def field_rule(truth: ScalarPrior, snr: float, landmarks: Array) -> tuple[Array, Array]:
    """Nodes u and weights of an average over u = sqrt(snr) x + N(0, 1), x drawn from `truth`.

    For functions of u that vary on the noise scale, near the landmarks (values of x), or slowly.

    Examples
    --------
    >>> from miniamp import priors
    >>> u, weights = field_rule(priors.Rademacher(), 4.0, np.array([-1.0, 1.0]))
    >>> round(float(weights @ u**2), 12)
    5.0
    """
    mean, variance = truth.moments(0.0, 0.0)
    root = np.sqrt(snr)
    reach = TAIL * root * float(np.sqrt(np.squeeze(variance))) + 12.0
    centre = root * float(np.squeeze(mean))
    places = root * np.unique(np.concatenate([truth.landmarks(), landmarks]))
    u, weights = graded_rule(places, 1.0, centre - reach, centre + reach)
    log_density = _log_density(truth, snr, u)
    return u, _normalised(u, weights * np.exp(log_density - _LOG_SQRT_2PI))


def _normalised(u: Array, weights: Array) -> Array:
    """Weights that sum to one, where the density of a prior without components loses its digits.

    It is exp(log Z - u^2/2), with an error of 1e-16 u^2: none on the noise scale, but noticeable
    far out, where what is averaged is smooth and only the total counts. So the total is put right
    there.
    """
    near = np.abs(u) < NEAR
    mass = weights[near].sum()
    if mass > 0.999:
        return np.asarray(weights / weights.sum())
    return np.asarray(np.where(near, weights, weights * ((1.0 - mass) / weights[~near].sum())))


def _log_density(truth: ScalarPrior, snr: float, u: Array) -> Array:
    """log density of u, without the factor 1/sqrt(2 pi)."""
    parts = parts_of(truth)
    if parts is None:
        return np.asarray(truth.log_partition(snr, np.sqrt(snr) * u) - 0.5 * np.square(u))
    spread = 1.0 + snr * parts.variances
    away = u[:, None] - np.sqrt(snr) * parts.means
    terms = np.log(parts.weights) - 0.5 * (np.log(spread) + np.square(away) / spread)
    return np.asarray(np.logaddexp.reduce(terms, axis=1))


def parts_of(prior: ScalarPrior) -> Components | None:
    """The parts of a mixture that have any weight."""
    parts = prior.components()
    if parts is None:
        return None
    there = parts.weights > 0.0
    return Components(*(np.asarray(a, dtype=np.float64)[there] for a in parts))


def kept(make: Callable[Given_, Made]) -> Callable[Given_, Made]:
    """Keep the last KEPT results, by the identity of the objects (and the numbers) they are of."""
    results: OrderedDict[tuple[float, ...], tuple[object, Made]] = OrderedDict()

    @wraps(make)
    def found(*of: Given_.args, **named: Given_.kwargs) -> Made:
        key = tuple(one if isinstance(one, float) else id(one) for one in of)
        if key not in results:
            # Held with what it is of, so that no other object can have the same id meanwhile.
            results[key] = of, make(*of, **named)
            while len(results) > KEPT:
                results.popitem(last=False)
        return results[key][1]

    return found


@kept
def scalar_channel(prior: Given) -> ScalarChannel:
    """The scalar channel of a prior, made once for each prior object."""
    return ScalarChannel(checked_prior("prior", prior))


def checked_prior(name: str, prior: Given) -> ScalarPrior:
    """`prior`, if it has a theory: scalar, and the same for every coefficient."""
    if not isinstance(prior, ScalarPrior):
        raise checks.refuse(
            name, repr(prior), "a scalar prior such as priors.GaussBernoulli(rho=0.1)",
            "see miniamp.priors; priors of rows have their theory in miniamp.theory.lowrank",
        )  # fmt: skip
    if prior.shape:
        raise checks.refuse(
            name, f"hyper-parameters of shape {prior.shape}", "shared ones: alike coefficients",
            "take a mixture of the values they have",
        )  # fmt: skip
    return prior
