"""Bayesian model averaging on a stream, by predictions or by evidence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from miniamp import checks
from miniamp.absorb import absorb
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.designs import as_design
from miniamp.errors import InvalidInputError, MiniampError
from miniamp.evidence import AutoBatch
from miniamp.evidence.base import project
from miniamp.learning import Learn, Model, Solver


@dataclass(frozen=True)
class ModelAverage:
    """Average of models of the same rows, weighted by how well each predicted them beforehand.

    Which prior, or how much memory, is a question that the stream answers itself: the probability
    of a model is the product of the probabilities that it gave to each batch in advance, Bayes'
    rule for models. Predictions are averaged with these probabilities. The average loses at most
    log(number of models), over the whole stream, against the best of them chosen in hindsight.

    `weigh_by="forecasts"` scores the rows of a batch one by one, as if they were independent, and
    leaves out the first batch. `weigh_by="evidence"` takes the probability of the batch as a whole
    (`Info.log_evidence`), the first one included under the hyper-parameters that it led to: with
    given hyper-parameters the posterior probability of the models, exact where they are Gaussian.

    Parameters
    ----------
    models : sequence of Model
        At least one; of one channel, so that their scores can be compared.
    scores : tuple of float, optional
        Log-probability that each gave to the rows so far; -inf is a model that failed.
    weigh_by : {"forecasts", "evidence"}
        What the scores are made of.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, channels, priors
    >>> from miniamp.learning import Model
    >>> rng = np.random.default_rng(0)
    >>> x = 3.0 * rng.normal(size=100) * (rng.random(100) < 0.1)
    >>> average = ModelAverage([Model(Posterior(prior, 100), channels.Gaussian())
    ...                  for prior in (priors.Gaussian(), priors.GaussBernoulli())])
    >>> for _ in range(5):
    ...     Phi = rng.normal(size=(50, 100)) / 10.0
    ...     average = average.learned(Phi, Phi @ x + 0.1 * rng.normal(size=50))
    >>> average.weights.round(3)  # the truth is sparse, and it shows
    array([0., 1.])
    """

    models: Sequence[Model]
    scores: tuple[float, ...] = ()
    weigh_by: str = "forecasts"

    def __post_init__(self) -> None:
        if not self.models or not all(isinstance(m, Model) for m in self.models):
            raise checks.refuse(
                "models", repr(self.models)[:60], "at least one learning.Model", "list them"
            )
        if self.weigh_by not in ("forecasts", "evidence"):
            raise checks.refuse(
                "weigh_by", repr(self.weigh_by), "'forecasts' or 'evidence'", "choose one"
            )
        scores = self.scores or (0.0,) * len(self.models)
        if len(scores) != len(self.models):
            raise checks.refuse(
                "scores",
                f"{len(scores)} of them",
                f"{len(self.models)}, one per model",
                "leave out",
            )
        object.__setattr__(self, "models", tuple(self.models))
        object.__setattr__(self, "scores", tuple(float(score) for score in scores))

    @property
    def weights(self) -> Array:
        """The probability of each model, (K,)."""
        return np.asarray(softmax(self.scores))

    @property
    def best(self) -> Model:
        """The most probable model."""
        return self.models[int(np.argmax(self.scores))]

    def forecast(self, Phi: Given) -> tuple[Array, Array]:
        """Predicted mean and variance of the observations of new rows, (M,) each."""
        alive = [(w, m.forecast(Phi)) for w, m in zip(self.weights, self.models, strict=True) if w]
        mean = np.asarray(sum(w * m for w, (m, _) in alive))
        return mean, np.asarray(sum(w * (v + np.square(m - mean)) for w, (m, v) in alive))

    def stretched(self, factor: ArrayOrFloat) -> ModelAverage:
        """All models of factor * x instead of x, when features change their units."""
        return replace(self, models=tuple(model.stretched(factor) for model in self.models))

    def learned(
        self,
        Phi: Given,
        y: Given,
        solver: Solver = AutoBatch,
        *,
        fixed: Collection[str] = (),
        noise: bool = True,
    ) -> ModelAverage:
        """The average after one more batch, which each model has predicted and then absorbed.

        A model that cannot absorb the batch is dropped; when none can, the error is raised. `fixed`
        are hyper-parameters that stay, of those priors that have them; `noise` says whether that of
        the channel is learned.
        """
        models, scores, broken = [], [], None
        for model, score in zip(self.models, self.scores, strict=True):
            new, gain = model, -np.inf
            if np.isfinite(score):
                try:
                    by_forecasts = self.weigh_by == "forecasts"
                    gain = _score(model, Phi, y) if by_forecasts and model.batches else 0.0
                    names = model.posterior.prior.coefficients.parameters()
                    stay = [name for name in fixed if name in names]
                    new, info = absorb(model, Learn(Phi, y, solver, fixed=stay, noise=noise))
                    gain = gain if by_forecasts else info.log_evidence
                except InvalidInputError:
                    raise
                except MiniampError as error:
                    gain, broken = -np.inf, error
            models.append(new)
            scores.append(score + (gain if np.isfinite(gain) else -np.inf))
        if not np.isfinite(scores).any() and broken is not None:
            raise broken
        return replace(self, models=models, scores=tuple(scores))


def _score(model: Model, Phi: Given, y: Given) -> float:
    """Log-probability of rows that a model has not seen."""
    channel = model.channel
    omega, V = project(model.posterior, as_design(Phi))
    return float(np.sum(channel.log_partition(channel.checked(y), omega, V)))
