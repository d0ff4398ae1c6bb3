"""Two estimators of disjoint streams made one."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidTypeError
from miniamp.estimators.base import StreamingEstimator
from miniamp.estimators.knowledge import HISTORY, Knowledge
from miniamp.evidence import Frame
from miniamp.learning import Model
from miniamp.posterior import Posterior, Remembered
from miniamp.streams.merge import MergeWarning, together
from miniamp.tilt import Tilt


def merge(a: Any, b: Any) -> Any:
    """One estimator of two that learned from disjoint streams: what the rows said adds up.

    Both are brought to the same units; of hyper-parameters that each learned by itself, the prior
    is that of the one with more rows, and the noise the (geometric) mean, weighed by rows. The
    histories follow one another, those of `b` last. Neither input changes.

    Parameters
    ----------
    a, b : MiniAMPRegressor or MiniAMPClassifier
        Fitted, of the same class with the same parameters, on the same features and classes. Rows
        that both have seen are counted twice, and nothing in the estimators can tell.

    Returns
    -------
    estimator
        A new one, that can go on learning.

    Warns
    -----
    MergeWarning
        Always: see `miniamp.streams.merge` for what merging costs. Where the rows can be had, let
        one estimator learn from both streams instead.

    Examples
    --------
    >>> import warnings
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] - X[:, 1] + 3.0
    >>> a, b = (MiniAMPRegressor().fit(X[half], y[half]) for half in (slice(100), slice(100, 200)))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     both = merge(a, b)
    >>> both.n_samples_seen_, both.coef_.round(3).tolist(), round(both.intercept_, 3)
    (200, [1.0, -1.0], 3.0)
    """
    _require_alike(a, b)
    warnings.warn(
        "merged estimators forget what the two streams say together: expect a larger error (by a "
        "third, or twice as large with sparse coefficients) than from one that learns from both",
        MergeWarning,
        stacklevel=2,
    )
    new = clone(b)
    for name in ("n_features_in_", *b._labels_held()):
        setattr(new, name, getattr(b, name))
    new._take(_merged(a._known, b._known))
    return new


def _require_alike(a: Any, b: Any) -> None:
    """Refuse estimators that do not speak of the same thing."""
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, StreamingEstimator):
            raise InvalidTypeError(
                f"{name}: got {type(given).__name__}, expected a MiniAMPRegressor or "
                "MiniAMPClassifier; streams.merge takes posteriors"
            )
        check_is_fitted(given, "n_samples_seen_")
        if given._known.kept is not None:
            raise checks.refuse(
                name, f"{given.n_samples_seen_} rows", "more", "let the other learn from them"
            )
    for what, first, second in (
        ("class", type(a).__name__, type(b).__name__),
        ("number of features", a.n_features_in_, b.n_features_in_),
        ("set of names", _listed(a, "feature_names_in_"), _listed(b, "feature_names_in_")),
        ("set of classes", _listed(a, "classes_"), _listed(b, "classes_")),
        ("set of parameters", repr(a.get_params(deep=False)), repr(b.get_params(deep=False))),
    ):
        if first != second:
            raise checks.refuse(
                "b", f"another {what} than a's", "the same", "merge estimators made alike"
            )


def _listed(estimator: Any, name: str) -> Any:
    values = getattr(estimator, name, None)
    return None if values is None else np.asarray(values).tolist()


def _merged(a: Knowledge, b: Knowledge) -> Knowledge:
    """What both know, in the units of b, and of a where b has none yet."""
    old, own = a._frame, b._frame
    frame = replace(
        own,
        centre=np.where(own.started, own.centre, old.centre),
        scale=np.where(own.scale > 0.0, own.scale, old.scale),
        started=np.logical_or(own.started, old.started),
    )
    leading = a if a.rows > b.rows else b
    share = a.rows / (a.rows + b.rows)
    models = []
    for k, (first, second) in enumerate(zip(a.models, b.models, strict=True)):
        prior = leading.models[k].posterior.prior
        parts = [
            _moved(model.posterior.with_prior(prior), known._frame, frame, known.settings.intercept)
            for model, known in ((first, a), (second, b))
        ]
        channel = second.channel
        if b.settings.learn_noise:
            noise = (first.channel.parameters(), second.channel.parameters())
            channel = channel.replaced(
                **{n: noise[0][n] ** share * noise[1][n] ** (1.0 - share) for n in noise[1]}
            )
        models.append(Model(together(*parts), channel, first.batches + second.batches))
    return replace(
        b,
        frame=frame,
        models=tuple(models),
        rows=a.rows + b.rows,
        history=_one_after_the_other(a, b),
    )


def _moved(belief: Posterior, old: Frame, new: Frame, intercept: bool) -> Posterior:
    """The same belief about coefficients in other units.

    A coefficient u = w s of a feature x enters as u (x - c) / s, so that new units rescale u, and a
    new centre moves the intercept by a sum over all coefficients: what was known of the intercept
    becomes one more remembered row.
    """
    if np.array_equal(old.centre, new.centre) and np.array_equal(old.scale, new.scale):
        return belief
    N = len(new.scale)
    ratio = np.divide(old.scale, new.scale, out=np.zeros(N), where=new.scale > 0.0)
    shift = np.divide(old.centre - new.centre, new.scale, out=np.zeros(N), where=new.scale > 0.0)
    # u_old = rescale * u_new, and of the intercept also + shift . u_new
    rescale = np.append(ratio, np.ones(belief.size - N))
    A = np.broadcast_to(belief.tilt.A, (belief.size,)) * np.square(rescale)
    B = belief.tilt.B * rescale
    rows: list[Array] = []
    targets: list[float] = []
    if belief.remembered is not None:
        seen = belief.remembered.rows * rescale
        if intercept:
            seen[:, :N] += belief.remembered.rows[:, N:] * shift
        rows, targets = list(seen), list(belief.remembered.targets)
    if intercept and A[N] > 0.0 and shift.any():
        root = np.sqrt(A[N])
        rows.append(root * np.append(shift, 1.0))
        targets.append(float(B[N] / root))
        A, B = np.where(np.arange(N + 1) == N, 0.0, A), np.where(np.arange(N + 1) == N, 0.0, B)
    moved = Posterior(belief.prior, belief.size, Tilt(A, B), memory=belief.memory)
    if not rows:
        return moved
    nothing = Tilt(np.zeros(belief.size), np.zeros(belief.size))
    return moved.remembering(Remembered(np.stack(rows), np.array(targets), nothing))


def _one_after_the_other(a: Knowledge, b: Knowledge) -> tuple[dict[str, Any], ...]:
    """Both histories; theory knows of either stream alone, and says nothing of what comes."""
    batches = a.history[-1]["batch"] + 1
    later = [
        {**entry, "batch": entry["batch"] + batches, "rows_seen": entry["rows_seen"] + a.rows}
        for entry in b.history
    ]
    later[-1].pop("theory_precision", None)
    return (*a.history, *later)[-HISTORY:]
