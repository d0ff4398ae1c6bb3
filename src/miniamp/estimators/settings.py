"""The parameters of the estimators, checked once, in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np

from miniamp import channels, checks, priors
from miniamp.absorb import Stop
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.errors import InvalidTypeError
from miniamp.evidence import Frame
from miniamp.posterior import Posterior, Prior
from miniamp.priors import ScalarPrior

#: Priors by name, on a scale that the first rows replace.
PRIORS: dict[str, ScalarPrior] = {
    "gaussian": priors.Gaussian(),
    "sparse": priors.GaussBernoulli(rho=0.5),
    "laplace": priors.Laplace(),
    "nonnegative": priors.NonNegativeGaussian(),
}
#: Memory of "auto": all that can be remembered of few features, and at most so many rows and
#: numbers of many.
REMEMBERED_ROWS, REMEMBERED_NUMBERS, LEAST_REMEMBERED = 256, 4_000_000, 32
#: Prior variance of an intercept, in units of the targets' mean square.
WIDE = 100.0


@dataclass(frozen=True, eq=False)
class Settings:
    """The checked parameters of a regressor or classifier; see `MiniAMPRegressor`."""

    prior: ScalarPrior
    learn_prior: bool
    channel: Channel
    learn_noise: bool
    memory: int | None
    forget: float
    solver: str
    stop: Stop
    intercept: bool
    scaling: bool

    @classmethod
    def checked(
        cls,
        *,
        prior: Given,
        noise: Given,
        channel: Channel,
        memory: Given,
        forget: Given,
        solver: Given,
        max_iter: Given,
        tol: Given,
        fit_intercept: Given,
        standardize: Given,
    ) -> Self:
        """Settings, or an error that names the parameter.

        `channel` is the one that the noise goes with where it is given as a number or learned.
        """
        prior, learn_prior = _prior(prior)
        channel, learn_noise = _channel(noise, channel)
        if not isinstance(solver, str) or solver not in ("auto", "amp", "robust"):
            raise checks.refuse(
                "solver", repr(solver), "'auto', 'amp' or 'robust'", "'auto' suits any rows"
            )
        return cls(
            prior=prior,
            learn_prior=learn_prior,
            channel=channel,
            learn_noise=learn_noise,
            memory=None if _is_auto(memory) else checks.count("memory", memory, least=0),
            forget=checks.number("forget", forget, above=0.0, most=1.0),
            solver=solver,
            stop=Stop(checks.count("max_iter", max_iter), checks.number("tol", tol, least=0.0)),
            intercept=bool(fit_intercept),
            # A prior that the user wrote speaks of coefficients in the user's own units.
            scaling=bool(standardize) and learn_prior,
        )

    def memory_for(self, features: int) -> int:
        """How many rows a belief about so many features remembers."""
        if self.memory is not None:
            return self.memory
        room = max(LEAST_REMEMBERED, min(REMEMBERED_ROWS, REMEMBERED_NUMBERS // features))
        return min(features + self.intercept, room)

    def first_belief(self, features: int, y: Array) -> Posterior:
        """What is believed of so many features before any row, for targets of this size."""
        checks.fits("prior", self.prior.shape, features)
        size, prior = features + self.intercept, cast(Prior, self.prior)
        if self.intercept:
            labels = hasattr(self.channel, "predict_proba")
            power = 1.0 if labels else float(np.mean(np.square(y)))
            prior = priors.WithIntercept(self.prior, WIDE * (power or 1.0))
        return Posterior(prior, size, memory=self.memory_for(features))

    def first_frame(self, X: Any) -> Frame:
        """Zero and unit of each feature, from the first rows."""
        frame = Frame.none(X.shape[1]).following(X)
        if not self.intercept:
            # Without an intercept a feature's zero is its own.
            spread = np.hypot(frame.scale, frame.centre)
            frame = replace(frame, centre=np.zeros_like(frame.centre), scale=spread)
        if not self.scaling:
            frame = replace(frame, scale=np.ones_like(frame.scale))
        return frame

    def next_frame(self, frame: Frame, X: Any) -> Frame:
        """The frame after more rows: units of learned widths follow what is seen."""
        return frame.following(X) if self.scaling else frame.seeing(X)


def coefficient_prior(prior: Any) -> Any:
    """The prior of the coefficients alone, with or without an intercept beside them."""
    return prior.inner if isinstance(prior, priors.WithIntercept) else prior


def batch_rows(batch_size: Given) -> int | None:
    """The number of rows that a user asked for, None for "auto"."""
    return None if _is_auto(batch_size) else checks.count("batch_size", batch_size)


def _is_auto(value: Given) -> bool:
    return isinstance(value, str) and value == "auto"


def _prior(given: Given) -> tuple[ScalarPrior, bool]:
    """The prior, and whether its hyper-parameters are to be learned."""
    if isinstance(given, str):
        if given not in PRIORS:
            names = ", ".join(repr(name) for name in PRIORS)
            raise checks.refuse("prior", repr(given), f"{names} or a prior", "choose one")
        return PRIORS[given], True
    if not isinstance(given, ScalarPrior):
        raise InvalidTypeError(
            f"prior: got {given!r:.60}, expected a name such as 'sparse' or a prior such as "
            "priors.GaussBernoulli(rho=0.1); see miniamp.priors"
        )
    return given, False


def _channel(noise: Given, channel: Channel) -> tuple[Channel, bool]:
    """The channel, and whether its noise is to be learned."""
    if isinstance(noise, Channel):
        if noise.shape not in ((), (1,)):
            raise checks.refuse(
                "noise", f"{noise!r}", "one noise for all rows", "weigh the rows by sample_weight"
            )
        return noise, False
    if isinstance(noise, str):
        if noise != "learn":
            raise checks.refuse(
                "noise", repr(noise), "'learn', a variance or a channel", "choose one"
            )
        return channel, "var" in channel.names
    return channel.replaced(var=checks.number("noise", noise, least=0.0)), False


#: What the targets of a classifier are seen through: probit with unit noise, which sets the scale.
LABELS = channels.Probit(var=1.0)
#: What those of a regressor are seen through; its noise is learned unless given.
NUMBERS = channels.Gaussian(var=1.0)
