"""What a streaming regression or classification knows, as one frozen value."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from miniamp import checks
from miniamp.absorb import Info, absorb
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import Design, as_design
from miniamp.errors import ConflictError, ConflictWarning
from miniamp.estimators.expectation import expected
from miniamp.estimators.health import findings
from miniamp.estimators.settings import Settings, coefficient_prior
from miniamp.evidence import AutoBatch, Frame
from miniamp.evidence.auto import spectral_outlier
from miniamp.evidence.batch import project
from miniamp.learning import Learn, Model

#: The first rows are kept, and learned from together, until there are so many: units and first
#: guesses from fewer would be poor, and a stream may come one row at a time.
WARM = 32
#: While all targets are the same there is no scale to be found, and rows are kept up to this many.
WARM_CONSTANT = 256
#: So many batches are remembered in the history, the latest ones.
HISTORY = 10_000
#: For so few features the robust solver is cheap, and exact where AMP is right for many only.
FEW_FEATURES = 64


class Seen(NamedTuple):
    """What was believed of new rows before their targets were looked at, for one target."""

    channel: Channel
    omega: Array
    V: Array


#: What to record of a batch: from its targets (M, K) and what was believed of them.
Judge = Callable[[Array, list[Seen]], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Beliefs about the coefficients of K targets, in units of their own, and how they came about.

    Attributes
    ----------
    models : tuple of Model
        One for each target: a regression has one, so has a problem with two classes.
    kept : tuple (X, Y, weights) or None
        The first rows, while they are few.
    rows : int
        Rows seen.
    history : tuple of dict
        One entry a batch.
    """

    settings: Settings
    features: int
    targets: int
    frame: Frame | None = None
    models: tuple[Model, ...] = ()
    kept: tuple[Any, Array, Array | None] | None = None
    rows: int = 0
    history: tuple[dict[str, Any], ...] = ()

    def under(self, settings: Settings) -> Knowledge:
        """The same knowledge under parameters that were changed since."""
        if (settings.intercept, settings.scaling) != (
            self.settings.intercept,
            self.settings.scaling,
        ):
            raise checks.refuse(
                "fit_intercept, standardize, prior",
                "other units of the coefficients",
                "the same as when this began",
                "call fit, or clone the estimator, to begin anew",
            )
        return replace(self, settings=settings)

    def absorbed(self, X: Any, Y: Array, judge: Judge, weights: Array | None = None) -> Knowledge:
        """What is known after rows X (M, N) with targets Y (M, K) and weights (M,)."""
        judged: dict[str, Any] = {}
        if self.models:
            judged = judge(Y, self.seen(X))
        go_on = self._started if self._warming else self._continued
        new, infos, design = go_on(X, Y, weights)
        return self._recorded(new, infos, design, X.shape[0], judged)

    def begun(self, frame: Frame, design: Design, Y: Array) -> Knowledge:
        """What is known after the rows of a design that is in a frame already, as the first batch.

        For rows that are not here: they are left where they are, and AMP sweeps them.
        """
        models = tuple(self._first_model(y) for y in Y.T)
        known = replace(self, settings=replace(self.settings, solver="amp"))
        models, infos = known._learned(models, design, Y, None)
        new = replace(self, frame=frame, models=models)
        return self._recorded(new, infos, design, design.shape[0], {})

    def _recorded(
        self, new: Knowledge, infos: list[Info], design: Design, rows: int, judged: dict[str, Any]
    ) -> Knowledge:
        """New knowledge with an entry in its history about how it came about."""
        last = self.history[-1] if self.history and not self._warming else {}
        entry: dict[str, Any] = {
            "batch": self.history[-1]["batch"] + 1 if self.history else 0,
            "rows": int(rows),
            "rows_seen": self.rows + int(rows),
            "features": self.features,
            **_record(new.models, infos),
            "noise_learned": self.settings.learn_noise,
            "forget": self.settings.forget,
            "solver_asked": self.settings.solver,
            **(expected(new.models[0], infos[0], design, last) if self.targets == 1 else {}),
            **judged,
        }
        entry["found"] = [f.kind for f in findings((*self.history[-HISTORY:], entry))]
        return replace(new, rows=entry["rows_seen"], history=(*self.history[1 - HISTORY :], entry))

    def seen(self, X: Any) -> list[Seen]:
        """What is believed of z for new rows, one entry a target."""
        design = self._design(self._frame, X)
        return [Seen(m.channel, *project(m.posterior, design)) for m in self.models]

    @property
    def _warming(self) -> bool:
        return self.frame is None or self.kept is not None

    @property
    def _frame(self) -> Frame:
        assert self.frame is not None
        return self.frame

    def _design(self, frame: Frame, X: Any) -> Design:
        return as_design(frame.rows(X, intercept=self.settings.intercept))

    def coefficients(self) -> tuple[Array, Array, Array]:
        """Means and deviations (K, N) of the coefficients and intercepts (K,), in users' units."""
        scale, N = self._frame.scale, self.features
        unit = np.divide(1.0, scale, out=np.zeros(N), where=scale > 0.0)
        mean = np.stack([m.mean for m in self.models])
        std = np.sqrt(np.stack([m.var for m in self.models]))
        own = mean[:, :N] * unit
        intercept = mean[:, N:].sum(axis=1) - own @ self._frame.centre
        return own, std[:, :N] * unit, intercept

    def _started(
        self, X: Any, Y: Array, weights: Array | None
    ) -> tuple[Knowledge, list[Info], Design]:
        """All rows so far, from the beginning."""
        if self.kept is not None:
            weights = _weights(self.kept[2], len(self.kept[1]), weights, len(Y))
            X, Y = _stacked(self.kept[0], X), np.concatenate([self.kept[1], Y])
        frame = self.settings.first_frame(X)
        models = tuple(self._first_model(y) for y in Y.T)
        design = self._design(frame, X)
        models, infos = self._learned(models, design, Y, weights)
        warm = X.shape[0] >= (WARM if np.ptp(Y, axis=0).any() else WARM_CONSTANT)
        kept = None if warm else (X, Y, weights)
        return replace(self, frame=frame, models=models, kept=kept), infos, design

    def _continued(
        self, X: Any, Y: Array, weights: Array | None
    ) -> tuple[Knowledge, list[Info], Design]:
        """One more batch, in a frame that has seen it."""
        frame = self.settings.next_frame(self._frame, X)
        design = self._design(frame, X)
        factor = self._frame.stretch(frame, intercept=self.settings.intercept)
        models = tuple(m.stretched(factor) for m in self.models)
        models, infos = self._learned(models, design, Y, weights)
        return replace(self, frame=frame, models=models), infos, design

    def _first_model(self, y: Array) -> Model:
        channel = self.settings.channel
        return Model(self.settings.first_belief(self.features, y), channel)

    def _learned(
        self, models: tuple[Model, ...], design: Design, Y: Array, weights: Array | None
    ) -> tuple[tuple[Model, ...], list[Info]]:
        make = self._solver(design)
        with warnings.catch_warnings():
            # A second try is recorded in the history as a remedy.
            warnings.simplefilter("ignore", ConflictWarning)
            pairs = [
                self._one(
                    replace(
                        m, channel=m.channel if weights is None else m.channel.weighted(weights)
                    ),
                    design,
                    y,
                    make,
                )
                for m, y in zip(models, Y.T, strict=True)
            ]
        learned = tuple(replace(m, channel=m.channel.unweighted()) for m, _ in pairs)
        return learned, [info for _, info in pairs]

    def _one(self, model: Model, design: Design, y: Array, make: Any) -> tuple[Model, Info]:
        """One target's belief after the batch.

        A batch that contradicts everything before is refused, unless the stream was said to change:
        then more and more is forgotten until the batch is believable.
        """
        forget = self.settings.forget
        try:
            return self._absorb(model, design, y, make, forget)
        except ConflictError as error:
            if forget == 1.0:
                raise ConflictError(
                    f"{error} If the stream itself has changed, set forget=0.9 or begin anew.",
                    health=error.health,
                    iteration=error.iteration,
                ) from error
            for more in (0.1, 0.01, 0.001):
                try:
                    new, info = self._absorb(model, design, y, make, more * forget)
                except ConflictError:
                    continue
                return new, replace(info, remedy=f"forgetting all but {more:g} of what was known")
            raise

    def _absorb(
        self, model: Model, design: Design, y: Array, make: Any, forget: float
    ) -> tuple[Model, Info]:
        s = self.settings
        varied = bool(np.any(y != y[0])) or model.batches > 0
        prior = s.learn_prior and varied
        noise = s.learn_noise and varied
        if not (prior or noise):
            rows = make(design, y, model.channel)
            belief, info = absorb(model.posterior, rows, s.stop, forget=forget)
            return Model(belief, model.channel, model.batches + varied), info
        names = coefficient_prior(model.posterior.prior).names
        # Signs of features are a matter of taste: coefficients are centred on zero.
        fixed = [name for name in names if name == "mean"] if prior else names
        rows = Learn(design, y, make, fixed=fixed, noise=noise)
        return absorb(model, rows, s.stop, forget=forget)

    def _solver(self, design: Design) -> Callable[[Any, Any, Channel], AutoBatch]:
        """What makes evidence of a batch; the design is looked at once for all targets."""
        name, because = self.settings.solver, "as asked"
        if name == "auto" and self.features <= FEW_FEATURES:
            name, because = "robust", "few features: the robust solver is cheap and exact there"
        outlier = spectral_outlier(design) if name == "auto" and self.targets > 1 else None

        def make(Phi: Any, y: Any, channel: Channel) -> AutoBatch:
            rows = AutoBatch(Phi, y, channel, solver=name, because=because)
            if outlier is not None:
                rows.__dict__["outlier"] = outlier
            return rows

        return make


def _record(models: tuple[Model, ...], infos: list[Info]) -> dict[str, Any]:
    """How a batch was absorbed, for all targets together; the worst where they differ."""
    worst = max(infos, key=lambda info: abs(np.log(max(info.health, 1e-300))))
    entry: dict[str, Any] = {
        "iterations": max(info.iterations for info in infos),
        "converged": all(info.converged for info in infos),
        "solver": infos[0].solver,
        "reason": infos[0].reason,
        "remedy": next((info.remedy for info in infos if info.remedy), ""),
        "health": float(worst.health),
        "mean_variance": float(np.mean([np.mean(model.var) for model in models])),
    }
    for prefix, things in (
        ("prior", [coefficient_prior(m.posterior.prior) for m in models]),
        ("noise", [m.channel for m in models]),
    ):
        for name in things[0].names:
            values = [np.mean(getattr(thing, name)) for thing in things]
            entry[f"{prefix}_{name}"] = float(np.mean(values))
    return entry


def _weights(first: Array | None, a: int, second: Array | None, b: int) -> Array | None:
    """The weights of a rows and b more, None where all are one."""
    if first is None and second is None:
        return None
    return np.concatenate([np.ones(n) if w is None else w for w, n in ((first, a), (second, b))])


def _stacked(first: Any, second: Any) -> Any:
    if sp.issparse(first) or sp.issparse(second):
        return sp.csr_array(sp.vstack([sp.csr_array(first), sp.csr_array(second)]))
    return np.concatenate([first, second])
