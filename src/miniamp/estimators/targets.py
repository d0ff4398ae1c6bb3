"""How the models of all targets learn from a batch: each by itself, or all classes together."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from miniamp import channels
from miniamp.absorb import absorb, iterated
from miniamp.arrays import Array
from miniamp.channels.smooth import Binary
from miniamp.designs import Design
from miniamp.designs.dense import Dense, blas_threads
from miniamp.errors import ConflictError, ConflictWarning
from miniamp.estimators.candidates import first_classes
from miniamp.estimators.history import prior_of
from miniamp.estimators.rows import Matrix, Rows
from miniamp.estimators.scoring import RowPrediction
from miniamp.estimators.settings import LABELS, ModelSettings
from miniamp.evidence import (
    AutoBatch,
    ExactBatch,
    Frame,
    InformationPosterior,
    SoftmaxBatch,
    SoftmaxPosterior,
    SolverChoice,
    choose_exact,
)
from miniamp.evidence.auto import ALWAYS, PER_ROW, choose
from miniamp.evidence.base import project
from miniamp.info import PLAIN, Adaptation, Info
from miniamp.learning import Learn, Model, initial
from miniamp.model import initial_from_evidence

#: Noise that is given as less than this part of the mean square of y is as good as none: of such
#: rows the products have too few digits.
QUIETEST = 1e-8

#: Labels of up to so many features keep all products of their rows, whatever solver="auto" finds of
#: them: beyond, an iteration on 256 remembered rows beside 1000 new ones takes fewer operations.
MOST_KEPT = 2048


class Coefficients(NamedTuple):
    """Coefficients of K targets in the user's units."""

    mean: Array  #: (K, N)
    std: Array  #: (K, N)
    intercept: Array  #: (K,)
    inclusion: Array  #: (K, N) probabilities that they are not zero


def coefficients(
    models: Sequence[Model], frame: Frame, target_units: Sequence[tuple[float, float]]
) -> Coefficients:
    """The coefficients of models, of features and targets with these zeros and units."""
    scale, N = frame.scale, len(frame.scale)
    centres, units = np.array(target_units).T
    unit = units[:, None] * np.divide(1.0, scale, out=np.zeros(N), where=scale > 0.0)
    mean = np.stack([m.mean for m in models])
    std = np.sqrt(np.stack([m.var for m in models]))
    own = mean[:, :N] * unit
    intercept = centres + units * mean[:, N:].sum(axis=1) - own @ frame.centre
    included = []
    for model in models:
        A, B = np.broadcast_arrays(model.posterior.total.A, model.posterior.total.B)
        included.append(prior_of(model).inclusion_probability(A[:N], B[:N]))
    return Coefficients(own, std[:, :N] * unit, intercept, np.stack(included))


def absorbed(
    models: Sequence[Model], settings: ModelSettings, design: Design, Y: Array, rows: Rows
) -> tuple[list[Model], list[Info]]:
    """The models after a batch, and how each, or all classes together, got there.

    Y (M, K) are the targets in standardised units.
    """
    if rows.repaired and settings.on_conflict == "skip":
        why = tuple(Adaptation("skipped", 0.0, entry) for entry in rows.repaired)
        return [_as_saved(model) for model in models], [_left_out("", why)]
    if rows.repaired and settings.on_conflict == "raise" and rows.calls == 1:
        # Of first rows that came in several calls it would be about an earlier one.
        raise ConflictError("X", rows.repaired[0].worded(PLAIN), "entries like all others")
    together = joint(models)
    if together is not None:
        with blas_threads(design.shape):
            return _absorbed_together(together, settings, design, rows)
    products: dict[bytes, Array] | None = {} if len(models) > 1 else None
    if rows.weights is not None:
        models = [replace(m, channel=m.channel.weighted(rows.weights)) for m in models]
    learned, infos, alone = [], [], len(models) == 1
    forget = rows.kept(settings.forget, settings.auto_forget)
    # A second attempt is recorded in the history as a remedy.
    quiet = warnings.catch_warnings(action="ignore", category=ConflictWarning)
    with quiet, blas_threads(design.shape):
        choices = _choices(models, settings, design, Y)
        for model, y, choice in zip(models, Y.T, choices, strict=True):
            try:
                given = model, settings, design, y, choice, forget, products
                after, info = _one_target(*given, doubt=alone and forget == 1.0)
            except np.linalg.LinAlgError:
                if settings.on_conflict == "raise":
                    raise
                after, info = model, _left_out("")
            if any(done.kind == "skipped" for done in info.adapted):
                after = _as_saved(after)
            plain = after.channel.unweighted()
            learned.append(after if plain is after.channel else replace(after, channel=plain))
            infos.append(info)
    return learned, infos


def _one_target(
    model: Model,
    settings: ModelSettings,
    design: Design,
    y: Array,
    choice: SolverChoice,
    forget: float,
    products: dict[bytes, Array] | None,
    doubt: bool,
) -> tuple[Model, Info]:
    """The model of one target after the batch; as it was where the batch is skipped."""
    varied = model.batches > 0 or bool(np.any(y != y[0]))
    prior, noise = settings.learn_prior and varied, settings.learn_noise and varied
    stop, on_conflict, own = settings.stop, settings.on_conflict, prior_of(model)
    # The sign of a feature is arbitrary: coefficients are centred on zero.
    fixed = own.centres if prior else own.names
    if choice.solver == "exact":
        known = 2.0 * model.noise_known
        batch = ExactBatch(
            design,
            y,
            model.channel,
            prior=prior,
            noise=noise,
            fixed=own.centres,
            known=known,
            reason=choice.reason,
            products=products,
        )
        start = model.posterior
        if model.batches == 0 and (prior or noise):
            first, channel = initial(model, batch, own.centres)
            many = isinstance(design, Dense) and design.shape[1] > ALWAYS  # rounds are dear
            if many and prior and noise and channel.unweighted() is channel:
                first, channel = initial_from_evidence(first, channel, batch)
            start = start.with_prior(first) if prior else start
            batch = batch.with_channel(channel) if noise else batch
        belief, info = absorb(start, batch, stop, forget=forget, on_conflict=on_conflict)
        if any(done.kind == "skipped" for done in info.adapted):
            return model, info
        seen, channel = belief.information, batch.plain.unweighted()
        assert seen is not None
        if noise:
            channel, known = channel.with_noise(seen.noise), max(seen.free, 0.0)
        away = y - y.mean()
        spread = max(model.spread, float(away @ away) / len(y))
        new = Model(belief, channel, model.batches + varied, model.scale_known, 0.5 * known, spread)
        return new, info
    solver = functools.partial(AutoBatch, choice=choice)
    if _keeps_sites(model, settings, design) and choice.solver == "robust":
        model = replace(model, posterior=InformationPosterior.of(model.posterior))
        if model.batches == 0 and noise and doubt and model.channel == LABELS:
            # Not of streams that forget: labels of a relation that flips are not wrong.
            model = replace(model, channel=channels.Mislabelled(cast(Binary, model.channel)))
    if prior or noise:
        learn = Learn(design, y, solver, fixed=fixed, noise=noise)
        return absorb(model, learn, stop, forget=forget, on_conflict=on_conflict)
    rows = solver(design, y, model.channel)
    belief, info = absorb(model.posterior, rows, stop, forget=forget, on_conflict=on_conflict)
    return Model(belief, model.channel, model.batches + varied), info


def _as_saved(model: Model) -> Model:
    """The model without its solution in older units: a file has none, and digits would differ."""
    seen = model.posterior.information
    if seen is None:
        return model
    return replace(model, posterior=model.posterior.remembering(replace(seen)))


def _left_out(solver: str, why: tuple[Adaptation, ...] = (Adaptation("skipped", np.inf),)) -> Info:
    """What is reported of a batch that is skipped, unless told why, as beyond working precision."""
    return Info(0, False, np.zeros(1), np.inf, "", solver, "no solution", why)


def _choices(
    models: Sequence[Model], settings: ModelSettings, design: Design, Y: Array
) -> list[SolverChoice]:
    """The solver for each target; the design is examined once, where one needs that."""
    exact = [_exact(model, settings, design, y) for model, y in zip(models, Y.T, strict=True)]
    if all(exact):
        return [one for one in exact if one]
    few = settings.solver == "auto" and design.shape[1] <= ALWAYS
    if few and all(_keeps_sites(model, settings, design) for model in models):
        return [SolverChoice("robust", "few features: all that labels tell is kept")] * len(models)
    remembers, room = any(m.posterior.remembers for m in models), models[0].posterior.memory
    other = choose(design, solver=settings.solver, remembers=remembers, room=room)
    return [one or other for one in exact]


def _exact(model: Model, settings: ModelSettings, design: Design, y: Array) -> SolverChoice | None:
    """Why the batch is absorbed in closed form; None where it is not."""
    noise = model.channel.gaussian_noise()
    if settings.solver != "auto" or noise is None:
        return None
    if not settings.learn_noise and noise.min() < QUIETEST * float(np.mean(np.square(y))):
        return None
    return choose_exact(design, model.posterior, model.channel, memory=settings.memory)


def _keeps_sites(model: Model, settings: ModelSettings, design: Design) -> bool:
    """Whether labels that AMP is not right for are learned with an N x N matrix of their sites.

    As in closed form that costs one factorisation of it, and those of the rows' M x M products.
    """
    belief, (rows, size) = model.posterior, design.shape
    room = settings.memory is None or settings.memory >= size
    few = size <= ALWAYS or (size <= MOST_KEPT and rows * PER_ROW >= size)
    suits = belief.prior.is_gaussian and model.channel.gaussian_noise() is None
    return suits and belief.memory > 0 and room and few


def conflict(
    error: ConflictError | np.linalg.LinAlgError, rows: Rows, settings: ModelSettings, waited: bool
) -> ConflictError:
    """The same refusal of a batch, alone or `waited` for, with remedies of an estimator."""
    X = rows.X
    copies = X.shape[0] - _distinct(X)
    remedies = [f"{copies} of the rows are copies of others: drop those"] if copies else []
    if not settings.learn_noise:
        remedies.append("the noise may be larger than the one given: try {noise=learn}")
    remedies.append("if the stream itself has changed, set {forget=auto} or start over")
    remedies.append("or let {on_conflict=adapt} use what it can")
    about = error if isinstance(error, ConflictError) else ConflictError("", "no solution")
    argument, expected = "X, y", about.expected
    received = f"{X.shape[0]} rows that contradict what was learned before: {about.received}"
    row = None if waited else about.row
    if about.row is not None:
        what = "a row" if row is None else f"row {row}"
        if row is not None and rows.Y.shape[1] == 1 and settings.channel.shift_invariant:
            what += f": y={rows.Y[row, 0]:.4g}"
        argument, received = "y", f"{what}, {about.deviations:.3g} standard deviations off"
        expected = "what the model and the other rows predict; nothing was learned"
    return ConflictError(
        argument,
        received,
        expected,
        "; ".join(remedies),
        health=about.health,
        iteration=about.iteration,
        row=row,
        deviations=about.deviations,
    )


def _distinct(X: Matrix) -> int:
    """Number of different rows."""
    if sp.issparse(X):
        X = sp.csr_array(X)
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return len({(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in ends})
    return len({row.tobytes() for row in np.ascontiguousarray(X)})


# Several classes with one joint posterior.


def started(settings: ModelSettings, models: Sequence[Model], wide: bool) -> tuple[Model, ...]:
    """The models of all targets before any row, with a joint posterior where they can have one.

    `wide`: the first rows are sparse, and fewer than their features.
    """
    features = models[0].posterior.size - settings.intercept
    if not settings.joins(features, len(models), wide):
        return tuple(models)
    channel = channels.Softmax()
    return tuple(Model(InformationPosterior.of(m.posterior), channel) for m in models)


def joint(models: Sequence[Model]) -> SoftmaxPosterior | None:
    """The joint posterior of all classes; None where each has a model of its own."""
    if not models[0].channel.joint:
        return None
    own = tuple(InformationPosterior.of(m.posterior) for m in models)
    channel = cast(channels.Softmax, models[0].channel)
    return SoftmaxPosterior(own, models[0].batches, models[0].scale_known, channel)


def predictions(
    models: Sequence[Model], design: Design, units: Sequence[tuple[float, float]]
) -> list[RowPrediction]:
    """Predictions for rows, one per target of these zeros and units, or one score per class."""
    together = joint(models)
    with blas_threads(design.shape):
        if together is None:
            return [
                RowPrediction.of(model, *project(model.posterior, design), unit)
                for model, unit in zip(models, units, strict=True)
            ]
        omega, V = together.scores(design)
    channel, certain = together.channel, np.full(design.shape[0], np.inf)
    return [RowPrediction(channel, o, v, certain) for o, v in zip(omega.T, V.T, strict=True)]


def _absorbed_together(
    belief: SoftmaxPosterior, settings: ModelSettings, design: Design, rows: Rows
) -> tuple[list[Model], list[Info]]:
    """The models of all classes after a batch; as they were where it is skipped."""
    forget, labels = rows.kept(settings.forget, settings.auto_forget), rows.Y.argmax(axis=1)
    learns, policy, stop = settings.learn_prior, settings.on_conflict, settings.stop
    doubt = True
    try:
        if belief.batches == 0:
            belief, doubt = first_classes(belief, settings, design, rows)
        evidence = SoftmaxBatch(design, labels, rows.weights, learn_scale=learns, doubt=doubt)
        if belief.batches == 0 and belief.scale_known > 0.0:
            # Cross-validation has weighed every row, which left out by linear response may seem
            # an outlier: one of 133 wines by 11 standard deviations.
            attempt = iterated(belief, evidence, stop)
            belief, info = attempt.belief, attempt.report(belief)
        else:
            belief, info = absorb(belief, evidence, stop, forget=forget, on_conflict=policy)
    except np.linalg.LinAlgError:
        if policy == "raise":
            raise
        info = _left_out("softmax")
    known = belief.channel, belief.batches, belief.scale_known
    return [Model(one, *known) for one in belief.posteriors], [info]
