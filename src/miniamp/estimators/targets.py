"""One model per target: which solver learns from a batch, and what is learned with it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np

from miniamp.absorb import absorb
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design
from miniamp.errors import ConflictWarning
from miniamp.estimators.rows import Rows
from miniamp.estimators.settings import ModelSettings
from miniamp.evidence import AutoBatch, ExactBatch, SolverChoice, choose_exact
from miniamp.evidence.auto import choose
from miniamp.info import Adaptation, Info
from miniamp.learning import Learn, Model, initial
from miniamp.priors import BasePrior

#: Noise that is given as less than this part of the mean square of y is as good as none: of such
#: rows the products have too few digits.
QUIETEST = 1e-8

#: Makes evidence of rows, targets and a channel.
Solver: TypeAlias = Callable[[Given, Given, Channel], AutoBatch]


def absorbed(
    models: Sequence[Model], settings: ModelSettings, design: Design, Y: Array, rows: Rows
) -> tuple[list[Model], list[Info]]:
    """The models after a batch in standardised units, Y (M, K), and how each got there."""

    @functools.cache
    def solver() -> Solver:
        """The design is examined once for all targets, and only where that is needed."""
        remembers = any(model.posterior.remembered is not None for model in models)
        choice = choose(design, solver=settings.solver, remembers=remembers)
        return functools.partial(AutoBatch, choice=choice)

    learned, infos = [], []
    forget = settings.forget**rows.calls
    with warnings.catch_warnings():
        # A second attempt is recorded in the history as a remedy.
        warnings.simplefilter("ignore", ConflictWarning)
        for model, y in zip(models, Y.T, strict=True):
            if rows.weights is not None:
                model = replace(model, channel=model.channel.weighted(rows.weights))
            try:
                after, info = _one_target(model, settings, design, y, solver, forget)
            except np.linalg.LinAlgError:
                if settings.on_conflict == "raise":
                    raise
                skipped = (Adaptation("skipped", np.inf),)
                nothing = np.inf, "", "", "no solution", skipped
                after, info = model, Info(0, False, np.zeros(1), *nothing)
            learned.append(replace(after, channel=after.channel.unweighted()))
            infos.append(info)
    return learned, infos


def prior_of(model: Model) -> BasePrior:
    """The prior of the coefficients, without that of the intercept."""
    return cast(BasePrior, model.posterior.prior.coefficients)


def _one_target(
    model: Model,
    settings: ModelSettings,
    design: Design,
    y: Array,
    solver: Callable[[], Solver],
    forget: float,
) -> tuple[Model, Info]:
    """The model of one target after the batch; as it was where the batch is skipped."""
    varied = bool(np.any(y != y[0])) or model.batches > 0
    prior, noise = settings.learn_prior and varied, settings.learn_noise and varied
    stop, on_conflict, own = settings.stop, settings.on_conflict, prior_of(model)
    # The sign of a feature is arbitrary: coefficients are centred on zero.
    fixed = own.centres if prior else own.names
    choice = _exact(model, settings, design, y)
    if choice is not None:
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
        )
        start = model.posterior
        if model.batches == 0 and (prior or noise):
            first, channel = initial(model, batch, own.centres)
            start = start.with_prior(first) if prior else start
            batch = batch.with_channel(channel) if noise else batch
        belief, info = absorb(start, batch, stop, forget=forget, on_conflict=on_conflict)
        if any(done.kind == "skipped" for done in info.adapted):
            return model, info
        seen, channel = belief.information, batch.plain.unweighted()
        assert seen is not None
        if noise:
            channel, known = channel.with_noise(seen.noise), max(seen.free, 0.0)
        spread = max(model.spread, float(np.var(y)))
        new = Model(belief, channel, model.batches + varied, model.scale_known, 0.5 * known, spread)
        return new, info
    if prior or noise:
        learn = Learn(design, y, solver(), fixed=fixed, noise=noise)
        return absorb(model, learn, stop, forget=forget, on_conflict=on_conflict)
    rows = solver()(design, y, model.channel)
    belief, info = absorb(model.posterior, rows, stop, forget=forget, on_conflict=on_conflict)
    return Model(belief, model.channel, model.batches + varied), info


def _exact(model: Model, settings: ModelSettings, design: Design, y: Array) -> SolverChoice | None:
    """Why the batch is absorbed in closed form; None where it is not."""
    noise = model.channel.gaussian_noise()
    if settings.solver != "auto" or noise is None:
        return None
    if not settings.learn_noise and noise.min() < QUIETEST * float(np.mean(np.square(y))):
        return None
    return choose_exact(design, model.posterior, model.channel, memory=settings.memory)
