"""Several classes with one joint posterior: where it is used, and how it absorbs a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miniamp import channels
from miniamp.absorb import Info, absorb
from miniamp.designs import Design
from miniamp.estimators.rows import Rows
from miniamp.estimators.scoring import RowPrediction
from miniamp.estimators.settings import LABELS, ModelSettings
from miniamp.evidence import InformationPosterior, SoftmaxBatch, SoftmaxPosterior
from miniamp.evidence.base import DrawnRows
from miniamp.info import Adaptation
from miniamp.learning import Model, initial

#: A probit score is so many times smaller than the logistic one with nearly the same probabilities.
PROBIT_TO_LOGIT = 1.7


def started(settings: ModelSettings, models: Sequence[Model], features: int) -> tuple[Model, ...]:
    """The models of all targets before any row, with a joint posterior where they can have one."""
    if not settings.joins(features, len(models)):
        return tuple(models)
    channel = channels.Softmax()
    return tuple(Model(InformationPosterior.of(m.posterior), channel) for m in models)


def joint(models: Sequence[Model]) -> SoftmaxPosterior | None:
    """The joint posterior of all classes; None where each has a model of its own."""
    if not models[0].channel.joint:
        return None
    own = tuple(InformationPosterior.of(m.posterior) for m in models)
    return SoftmaxPosterior(own, models[0].batches, models[0].scale_known)


def predictions(belief: SoftmaxPosterior, design: Design) -> list[RowPrediction]:
    """Predictions of the scores of new rows, one per class."""
    channel, certain = channels.Softmax(), np.full(design.shape[0], np.inf)
    omega, V = belief.scores(design)
    return [RowPrediction(channel, o, v, certain) for o, v in zip(omega.T, V.T, strict=True)]


def absorbed(
    belief: SoftmaxPosterior,
    settings: ModelSettings,
    design: Design,
    rows: Rows,
) -> tuple[list[Model], list[Info]]:
    """The models of all classes after a batch; as they were where it is skipped."""
    first, forget = belief.batches == 0, settings.forget**rows.calls
    if first and settings.learn_prior:
        belief = _with_scale(belief, settings, design, rows)
    evidence = SoftmaxBatch(
        design, rows.Y.argmax(axis=1), rows.weights, learn_scale=settings.learn_prior
    )
    try:
        belief, info = absorb(
            belief, evidence, settings.stop, forget=forget, on_conflict=settings.on_conflict
        )
    except np.linalg.LinAlgError:
        if settings.on_conflict == "raise":
            raise
        skipped = (Adaptation("skipped", np.inf),)
        info = Info(0, False, np.zeros(1), np.inf, "", "softmax", "no solution", skipped)
    return models_of(belief), [info]


def models_of(belief: SoftmaxPosterior) -> list[Model]:
    """One model per class."""
    channel, counts = channels.Softmax(), (belief.batches, belief.scale_known)
    return [Model(one, channel, *counts) for one in belief.posteriors]


def _with_scale(
    belief: SoftmaxPosterior, settings: ModelSettings, design: Design, rows: Rows
) -> SoftmaxPosterior:
    """The belief with the scale that a first batch of labels is taken to have."""
    one = belief.posteriors[0]
    drawn: DrawnRows[None] = DrawnRows(design, rows.Y[:, 0], channels.Logistic())
    prior, _ = initial(Model(one, drawn.channel), drawn, settings.prior.centres)
    return belief.with_prior(prior)


def of_two(model: Model, settings: ModelSettings) -> tuple[Model, Model]:
    """The joint posterior of two classes, from the model of the second against the first.

    The difference d of their scores is known as exp(-Pd^2/2 + bd). Half of it is put on each: the
    scores +-d/2 with the precision 2P, so that the variances of both add up to that of d.
    """
    unit = PROBIT_TO_LOGIT if settings.channel == LABELS else 1.0
    known = InformationPosterior.of(model.posterior).stretched(unit)
    prior = known.prior.rescaled(unit / np.sqrt(2.0))
    two = [
        InformationPosterior(prior, known.size, 2.0 * known.products, sign * known.linear)
        for sign in (-1.0, 1.0)
    ]
    channel = channels.Softmax()
    before, after = (Model(one, channel, model.batches, model.scale_known) for one in two)
    return before, after
