"""Knowledge that grows: features and classes that a stream brings later on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from miniamp.arrays import Array
from miniamp.estimators.knowledge import Knowledge
from miniamp.evidence import Frame
from miniamp.learning import Model
from miniamp.posterior import Posterior, Remembered
from miniamp.tilt import Tilt


def with_features(known: Knowledge, features: int) -> Knowledge:
    """The same knowledge about more features; nothing has been seen yet of those added at the end.

    Examples
    --------
    >>> from miniamp.estimators.judge import judge_numbers
    >>> from miniamp.estimators import MiniAMPRegressor
    >>> known = Knowledge(MiniAMPRegressor()._settings(), features=1, targets=1)
    >>> X = np.arange(40.0)[:, None]
    >>> known = known.absorbed(X, X, judge_numbers)
    >>> with_features(known, 2).coefficients()[0].round(2)
    array([[1., 0.]])
    """
    more = features - known.features
    if more == 0 or known.frame is None:
        return replace(known, features=features)
    end = known.features  # the intercept, if there is one, stays the last coordinate
    frame = Frame(
        np.append(known.frame.centre, np.zeros(more)),
        np.append(known.frame.scale, np.full(more, 0.0 if known.settings.scaling else 1.0)),
        np.append(known.frame.started, np.zeros(more, dtype=bool)),
        known.frame.counted,
    )
    models = tuple(replace(m, posterior=_wider(m.posterior, end, more)) for m in known.models)
    kept = known.kept
    if kept is not None:
        kept = (np.hstack([kept[0], np.zeros((len(kept[0]), more))]), *kept[1:])
    return replace(known, features=features, frame=frame, models=models, kept=kept)


def with_classes(known: Knowledge, classes: int) -> Knowledge:
    """The same knowledge about more classes, of which no row has been seen yet.

    Two classes have one belief, for the second; with a third each gets its own, and that of the
    first is the mirror image. The belief about a new class starts from nothing: that none of the
    rows before were of it is not counted.
    """
    targets = classes if classes > 2 else 1
    if targets == known.targets:
        return known
    models, kept = known.models, known.kept
    if known.targets == 1:
        models = tuple(image for m in models for image in (_mirrored(m), m))
        kept = None if kept is None else (kept[0], np.hstack([-kept[1], kept[1]]), kept[2])
    if models:
        models += tuple(_unseen(models[0]) for _ in range(targets - len(models)))
    if kept is not None:
        rest = np.full((len(kept[1]), targets - kept[1].shape[1]), -1.0)
        kept = (kept[0], np.hstack([kept[1], rest]), kept[2])
    return replace(known, targets=targets, models=models, kept=kept)


def _wider(belief: Posterior, end: int, more: int) -> Posterior:
    def padded(values: Array) -> Array:
        return np.insert(values, [end] * more, 0.0, axis=-1)

    def wide(tilt: Tilt) -> Tilt:
        A = tilt.A if np.ndim(tilt.A) == 0 else padded(tilt.A)
        return Tilt(A, padded(tilt.B))

    memory = min(belief.memory + more, max(belief.memory, 256))
    new = Posterior(belief.prior, belief.size + more, wide(belief.tilt), memory=memory)
    seen = belief.remembered
    if seen is None:
        return new
    return new.remembering(Remembered(padded(seen.rows), seen.targets, wide(seen.field)))


def _mirrored(model: Model) -> Model:
    """The belief of someone who calls every label by the other name."""
    belief = model.posterior

    def mirror(tilt: Tilt) -> Tilt:
        return Tilt(tilt.A, -tilt.B)

    new = Posterior(belief.prior, belief.size, mirror(belief.tilt), memory=belief.memory)
    seen = belief.remembered
    if seen is not None:
        new = new.remembering(Remembered(seen.rows, -seen.targets, mirror(seen.field)))
    return replace(model, posterior=new)


def _unseen(like: Model) -> Model:
    """A belief that has seen nothing, with hyper-parameters as learned so far."""
    belief = Posterior(like.posterior.prior, like.posterior.size, memory=like.posterior.memory)
    return Model(belief, like.channel, like.batches)
