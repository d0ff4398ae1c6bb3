"""Fit states joined and widened: two streams, new features, new classes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from miniamp import channels, checks
from miniamp.arrays import Array
from miniamp.errors import InvalidTypeError
from miniamp.estimators.base import StreamingEstimator
from miniamp.estimators.history import History
from miniamp.estimators.rows import GROUP
from miniamp.estimators.settings import LABELS, REMEMBERED_ROWS, ModelSettings
from miniamp.estimators.state import FitState
from miniamp.evidence import Frame, InformationPosterior
from miniamp.learning import Model
from miniamp.posterior import Posterior
from miniamp.streams.parallel import MergeWarning, together
from miniamp.tilt import Remembered, Tilt

E = TypeVar("E", bound=StreamingEstimator)

#: A probit score is so many times smaller than the logistic one with nearly the same probabilities.
PROBIT_TO_LOGIT = 1.7


def merge(a: E, b: E) -> E:
    """Merge two estimators that learned from disjoint streams into one.

    Both are brought to the same units. Of hyper-parameters that each learned by itself, the prior
    is that of the one with more rows, and the noise the geometric mean weighted by rows. The
    history of `b` follows that of `a`. Neither input changes.

    Parameters
    ----------
    a, b : MiniAMPRegressor or MiniAMPClassifier
        Fitted, of the same class with the same parameters, on the same features and classes. Rows
        that both have seen are counted twice, which cannot be detected.

    Returns
    -------
    estimator
        A new one, which can learn further.

    Warns
    -----
    MergeWarning
        Always: see `miniamp.streams.merge` for what merging costs. Where the rows are available,
        let one estimator learn from both streams instead.

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
        "merged estimators lose what only the two streams together show: expect a larger error (by "
        "a third, or twice as large with sparse coefficients) than from one that learns from both",
        MergeWarning,
        stacklevel=2,
    )
    new: E = clone(b)
    for name in ("n_features_in_", *b._label_names()):
        setattr(new, name, getattr(b, name))
    if hasattr(a, "class_count_") and hasattr(b, "class_count_"):
        new.class_count_ = a.class_count_ + b.class_count_
    new._state = _merged(a._learned, b._learned)
    return new


def _require_alike(a: StreamingEstimator, b: StreamingEstimator) -> None:
    """Refuse estimators of different models."""
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, StreamingEstimator):
            raise InvalidTypeError(
                name,
                type(given).__name__,
                "a MiniAMPRegressor or MiniAMPClassifier",
                "streams.merge accepts posteriors",
            )
        check_is_fitted(given)
        if given.n_samples_seen_ < GROUP:
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


def _listed(estimator: StreamingEstimator, name: str) -> list[object] | None:
    values = getattr(estimator, name, None)
    return None if values is None else np.asarray(values).tolist()


def _merged(a: FitState, b: FitState) -> FitState:
    """The state of both, in the units of b, and of a where b has none yet."""
    old, own = a.units, b.units
    frame = replace(
        own,
        centre=np.where(own.started, own.centre, old.centre),
        scale=np.where(own.scale > 0.0, own.scale, old.scale),
        started=np.logical_or(own.started, old.started),
    )
    share = a.rows / (a.rows + b.rows)
    models = []
    for k, (first, second) in enumerate(zip(a.models, b.models, strict=True)):
        (centre, scale), (zero, unit) = a.target_units[k], b.target_units[k]
        factor, shift = scale / unit, (centre - zero) / unit
        rescaled = first.posterior.prior.rescaled(factor)
        prior = rescaled if a.rows > b.rows else second.posterior.prior
        parts = [
            _moved(first.posterior, old, frame, factor, shift).with_prior(prior),
            _moved(second.posterior, own, frame).with_prior(prior),
        ]
        channel = second.channel
        if b.settings.learn_noise:
            channel = first.channel.in_units(factor).merged(channel, share)
        models.append(
            Model(
                together(*parts),
                channel,
                first.batches + second.batches,
                first.scale_known + second.scale_known,
                first.noise_known + second.noise_known,
            )
        )
    return replace(
        b,
        settings=(a if a.rows > b.rows else b).settings,
        others=(),
        frame=frame,
        models=tuple(models),
        rows=a.rows + b.rows,
        history=_one_after_the_other(a, b),
    )


def _moved(
    belief: Posterior, old: Frame, new: Frame, factor: float = 1.0, offset: float = 0.0
) -> Posterior:
    """The same posterior for coefficients of other units of features and of the target.

    Targets become factor * target + offset. A coefficient u = w s of a feature x enters as
    u (x - c) / s, so that new units rescale u, and a new centre moves the intercept by a sum over
    all coefficients: the evidence about the intercept becomes one more remembered row. The fields
    of remembered rows are left out: `together` solves the rows again.
    """
    same = np.array_equal(old.centre, new.centre) and np.array_equal(old.scale, new.scale)
    if same and factor == 1.0 and offset == 0.0:
        return belief
    N = len(new.scale)
    intercept = belief.size > N
    ratio = np.divide(old.scale, new.scale, out=np.zeros(N), where=new.scale > 0.0)
    shift = np.divide(old.centre - new.centre, new.scale, out=np.zeros(N), where=new.scale > 0.0)
    # u_old = rescale * u_new, and of the intercept also + shift . u_new - offset
    rescale = np.append(ratio, np.ones(belief.size - N)) / factor
    shift, offset = shift / factor, offset / factor
    A = np.array(np.broadcast_to(belief.tilt.A, (belief.size,)))
    B = belief.tilt.B.copy()
    rows: list[Array] = []
    targets: list[float] = []
    if belief.remembered is not None:
        seen = belief.remembered.rows * rescale
        targets = list(belief.remembered.targets)
        if intercept:
            seen[:, :N] += belief.remembered.rows[:, N:] * shift
            targets = list(belief.remembered.targets + offset * belief.remembered.rows[:, N])
        rows = list(seen)
    if intercept:
        B[N] += A[N] * offset
        if A[N] > 0.0 and shift.any():
            root = np.sqrt(A[N])
            rows.append(root * np.append(shift, rescale[N]))
            targets.append(float(B[N] / root))
            A[N] = B[N] = 0.0
    tilt = Tilt(A * np.square(rescale), B * rescale)
    moved = Posterior(belief.prior, belief.size, tilt, memory=belief.memory)
    if not rows:
        return moved
    nothing = Tilt(np.zeros(belief.size), np.zeros(belief.size))
    return moved.remembering(Remembered(np.stack(rows), np.array(targets), nothing))


def _one_after_the_other(a: FitState, b: FitState) -> History:
    """The history of `a`, then that of `b`; theory follows either stream alone, and stops here."""
    batches = a.history[-1]["batch"] + 1
    later = [entry.copy() for entry in b.history.with_theory()]
    for entry in later:
        entry["batch"] += batches
        entry["rows_seen"] += a.rows
    for name in ("theory_precision", "log_evidence_sum"):  # rows of b were not predicted by a's
        cast("dict[str, float]", later[-1]).pop(name, None)
    return History([*a.history.with_theory(), *later])


def with_features(state: FitState, features: int) -> FitState:
    """The same state with more features; those added at the end have not been seen yet.

    Examples
    --------
    >>> from miniamp.estimators import MiniAMPRegressor
    >>> from miniamp.estimators.rows import Rows
    >>> state = FitState(MiniAMPRegressor()._settings(), features=1, targets=1)
    >>> X = np.arange(40.0)[:, None]
    >>> state = state.absorbed(Rows(X, X))
    >>> with_features(state, 2).coefficients.mean.round(2)
    array([[1., 0.]])
    """
    more = features - state.features
    if more == 0 or state.frame is None:
        return replace(_padded(state, more), features=features)
    end = state.features  # the intercept, if there is one, stays the last coordinate
    frame = Frame(
        np.append(state.frame.centre, np.zeros(more)),
        np.append(state.frame.scale, np.full(more, 0.0 if state.settings.scaling else 1.0)),
        np.append(state.frame.started, np.zeros(more, dtype=bool)),
        state.frame.counted,
    )
    state = state.mapped(lambda m: replace(m, posterior=_wider(m.posterior, end, more)))
    old, none = state.tally, np.zeros(more)
    low, high, total = (np.append(part, none) for part in (old.low, old.high, old.total))
    replaced = np.append(old.replaced, none) if len(old.replaced) else old.replaced
    tally = replace(old, low=low, high=high, total=total, replaced=replaced)
    return replace(_padded(state, more), features=features, frame=frame, tally=tally)


def with_classes(state: FitState, classes: int) -> FitState:
    """The same state with more classes, of which no row has been seen yet.

    Two classes have one model, for the second; with a third each gets its own, and that of the
    first is the mirror image. The model of a new class starts from the prior: that none of the
    rows before were of it is not counted.
    """
    targets = classes if classes > 2 else 1
    if targets == state.targets:
        return state
    models, waiting = state.models, state.waiting
    if state.targets == 1:
        join = state.settings.joins(state.features, targets)
        models = tuple(
            image
            for m in models
            for image in (_of_two(m, state.settings) if join else _mirrored(m))
        )
    if models:
        models += tuple(_unseen(models[0]) for _ in range(targets - len(models)))
    if waiting is not None:
        Y = waiting.Y if state.targets > 1 else np.hstack([-waiting.Y, waiting.Y])
        rest = np.full((len(Y), targets - Y.shape[1]), -1.0)
        waiting = replace(waiting, Y=np.hstack([Y, rest]))
    return replace(state, targets=targets, models=models, others=(), waiting=waiting)


def _padded(state: FitState, more: int) -> FitState:
    """The state whose waiting rows have more features, all zero."""
    rows = state.waiting
    if rows is None or more == 0:
        return state
    joined = sp.hstack if sp.issparse(rows.X) else np.hstack
    return replace(state, waiting=replace(rows, X=joined([rows.X, np.zeros((len(rows), more))])))


def _wider(belief: Posterior, end: int, more: int) -> Posterior:
    def padded(values: Array) -> Array:
        return np.insert(values, [end] * more, 0.0, axis=-1)

    def wide(tilt: Tilt) -> Tilt:
        A = tilt.A if np.ndim(tilt.A) == 0 else padded(tilt.A)
        return Tilt(A, padded(tilt.B))

    memory = min(belief.memory + more, max(belief.memory, REMEMBERED_ROWS))
    new = Posterior(belief.prior, belief.size + more, wide(belief.tilt), memory=memory)
    remembered = belief.remembered
    if remembered is None:
        return new
    return new.remembering(
        Remembered(padded(remembered.rows), remembered.targets, wide(remembered.field))
    )


def _mirrored(model: Model) -> tuple[Model, Model]:
    """The model of the opposite labels, and this one."""
    return replace(model, posterior=model.posterior.stretched(-1.0)), model


def _unseen(like: Model) -> Model:
    """A model that has seen nothing, with hyper-parameters as learned so far."""
    belief = Posterior(like.posterior.prior, like.posterior.size, memory=like.posterior.memory)
    return Model(belief, like.channel, like.batches)


def _of_two(model: Model, settings: ModelSettings) -> tuple[Model, Model]:
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
