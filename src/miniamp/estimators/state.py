"""The fit state of a streaming regression or classification: one frozen value per batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self, TypeAlias, cast

import numpy as np

from miniamp import checks
from miniamp.absorb import Info, absorb
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design, as_design
from miniamp.errors import ConflictError, ConflictWarning
from miniamp.estimators.health import findings
from miniamp.estimators.history import Entry, History, Typical, hyper_parameters
from miniamp.estimators.rows import Matrix, Rows
from miniamp.estimators.saving import State
from miniamp.estimators.scoring import RowPrediction, Scorer
from miniamp.estimators.settings import FEW_FEATURES, ModelSettings
from miniamp.evidence import AutoBatch, Frame
from miniamp.evidence.auto import spectral_outlier
from miniamp.evidence.batch import project
from miniamp.learning import Learn, Model
from miniamp.priors import BasePrior

#: The first rows are kept, and learned from together, until there are so many: units and first
#: guesses from fewer would be poor, and a stream may come one row at a time.
WARM = 32
#: While all targets are the same there is no scale to be found, and rows are kept up to this many.
WARM_CONSTANT = 256
#: Shares of what is known that are tried, largest first, when a batch contradicts a stream that is
#: allowed to forget.
SHARES_KEPT = (0.1, 0.01, 0.001)


#: Makes evidence of rows, targets and a channel.
Solver: TypeAlias = Callable[[Given, Given, Channel], AutoBatch]


class Coefficients(NamedTuple):
    """Coefficients of K targets in the user's units."""

    mean: Array  #: (K, N)
    std: Array  #: (K, N)
    intercept: Array  #: (K,)
    inclusion: Array  #: (K, N) probabilities that they are not zero


@dataclass(frozen=True, eq=False)
class FitState:
    """Posteriors of the coefficients of K targets, in units of their own, and their history.

    Attributes
    ----------
    frame : Frame or None
        Centre and scale of each feature; None before the first batch.
    models : tuple of Model
        One per target: a regression has one, and so has a problem with two classes.
    first : Rows or None
        The first rows, while they are few.
    rows : int
        Number of rows absorbed.
    history : History
        One entry per batch.
    """

    settings: ModelSettings
    features: int
    targets: int
    frame: Frame | None = None
    models: tuple[Model, ...] = ()
    first: Rows | None = None
    rows: int = 0
    history: History = field(default_factory=History)

    def under(self, settings: ModelSettings) -> FitState:
        """The same state under parameters that were changed since."""
        old = self.settings
        if (settings.intercept, settings.scaling) != (old.intercept, old.scaling):
            raise checks.refuse(
                "fit_intercept, standardize, prior",
                "other units of the coefficients",
                "the same as in the first batch",
                "call fit, or clone the estimator, to start over",
            )
        return replace(self, settings=settings)

    # One batch.

    def absorbed(self, new: Rows, score: Scorer) -> FitState:
        """The state after one more batch."""
        if self.frame is None or self.first is not None:
            scores: Entry = score(new.Y, self.predictions(new.X)) if self.models else {}
            rows = new if self.first is None else self.first.and_then(new)
            frame = self.settings.first_frame(rows.X)
            models = tuple(self._first_model(y) for y in rows.Y.T)
            start, design = replace(self, frame=frame, models=models), self._design(frame, rows.X)
        else:
            rows, frame = new, self.settings.next_frame(self.frame, new.X)
            stretch = self.frame.stretch(frame, intercept=self.settings.intercept)
            models = tuple(m.stretched(stretch) for m in self.models)
            start, design = replace(self, frame=frame, models=models), self._design(frame, new.X)
            scores = score(new.Y, start._predictions(design))
        return start._learned(design, rows, scores, len(new))

    def started(self, frame: Frame, design: Design, Y: Array) -> FitState:
        """The state after a first batch whose rows are standardised already, and stay elsewhere.

        AMP sweeps them where they are.
        """
        models = tuple(self._first_model(y) for y in Y.T)
        settings = replace(self.settings, solver="amp")
        start = replace(self, settings=settings, frame=frame, models=models)
        after = start._learned(design, Rows(np.zeros((len(Y), 0)), Y), {}, len(Y))
        return replace(after, settings=self.settings, first=None)

    def _learned(self, design: Design, rows: Rows, scores: Entry, new_rows: int) -> FitState:
        """The state that has learned from these rows, of which the last `new_rows` are new."""
        make = self._solver(design)
        learned, infos = [], []
        with warnings.catch_warnings():
            # A second attempt is recorded in the history as a remedy.
            warnings.simplefilter("ignore", ConflictWarning)
            for model, y in zip(self.models, rows.Y.T, strict=True):
                if rows.weights is not None:
                    model = replace(model, channel=model.channel.weighted(rows.weights))
                after, info = self._one_target(model, design, y, make)
                learned.append(replace(after, channel=after.channel.unweighted()))
                infos.append(info)
        first = self.first is not None or not self.history
        enough = WARM if np.ptp(rows.Y, axis=0).any() else WARM_CONSTANT
        entry: Entry = {
            "batch": self.history[-1]["batch"] + 1 if self.history else 0,
            "rows": new_rows,
            "rows_seen": self.rows + new_rows,
            "features": self.features,
            **_outcome(learned, infos),
            "noise_learned": self.settings.learn_noise,
            "forget": self.settings.forget,
            "solver_asked": self.settings.solver,
            **scores,
        }
        for prefix, things in (
            ("prior", [_prior(m) for m in learned]),
            ("noise", [m.channel for m in learned]),
        ):
            means = {
                n: float(np.mean([np.mean(getattr(t, n)) for t in things])) for n in things[0].names
            }
            hyper_parameters(entry, prefix, means)
        typical = None
        if rows.weights is not None:
            entry["weighted"] = True
        elif self.targets == 1:
            typical = Typical.of(learned[0], infos[0], design, self.settings.forget, first)
        history = self.history.appended(entry, typical)
        entry["found"] = [finding.kind for finding in findings(history)]
        return replace(
            self,
            models=tuple(learned),
            first=rows if first and len(rows) < enough else None,
            rows=entry["rows_seen"],
            history=history,
        )

    def _one_target(
        self, model: Model, design: Design, y: Array, make: Solver
    ) -> tuple[Model, Info]:
        """The model of one target after the batch.

        A batch that contradicts everything before is refused, unless the stream may forget: then
        more and more is forgotten until the batch fits.
        """
        forget = self.settings.forget
        try:
            return self._absorb(model, design, y, make, forget)
        except ConflictError:
            if forget == 1.0:
                raise
            for share in SHARES_KEPT:
                try:
                    new, info = self._absorb(model, design, y, make, share * forget)
                except ConflictError:
                    continue
                return new, replace(info, remedy=f"forgetting all but {share:g} of what was known")
            raise

    def _absorb(
        self,
        model: Model,
        design: Design,
        y: Array,
        make: Solver,
        forget: float,
    ) -> tuple[Model, Info]:
        s = self.settings
        varied = bool(np.any(y != y[0])) or model.batches > 0
        prior, noise = s.learn_prior and varied, s.learn_noise and varied
        if not (prior or noise):
            belief, info = absorb(
                model.posterior, make(design, y, model.channel), s.stop, forget=forget
            )
            return Model(belief, model.channel, model.batches + varied), info
        own = _prior(model)
        # The sign of a feature is arbitrary: coefficients are centred on zero.
        fixed = own.centres if prior else own.names
        rows = Learn(design, y, make, fixed=fixed, noise=noise)
        return absorb(model, rows, s.stop, forget=forget)

    def _solver(self, design: Design) -> Solver:
        """What makes evidence of a batch; the design is examined once for all targets."""
        name, because = self.settings.solver, "as asked"
        if name == "auto" and self.features <= FEW_FEATURES:
            name, because = "robust", "few features: the robust solver is cheap and exact there"
        outlier = spectral_outlier(design) if name == "auto" and self.targets > 1 else None

        def make(Phi: Given, y: Given, channel: Channel) -> AutoBatch:
            rows = AutoBatch(Phi, y, channel, solver=name, because=because)
            if outlier is not None:
                rows.__dict__["outlier"] = outlier
            return rows

        return make

    def _first_model(self, y: Array) -> Model:
        return Model(self.settings.first_belief(self.features, y), self.settings.channel)

    def _design(self, frame: Frame, X: Matrix) -> Design:
        return as_design(frame.rows(X, intercept=self.settings.intercept))

    # What can be asked.

    @property
    def units(self) -> Frame:
        """The frame, once there is one."""
        assert self.frame is not None
        return self.frame

    def predictions(self, X: Matrix) -> list[RowPrediction]:
        """Predictions for new rows, one per target."""
        return self._predictions(self._design(self.units, X))

    def _predictions(self, design: Design) -> list[RowPrediction]:
        return [RowPrediction(m.channel, *project(m.posterior, design)) for m in self.models]

    @cached_property
    def coefficients(self) -> Coefficients:
        """Means, standard deviations and inclusion probabilities in the user's units."""
        scale, N = self.units.scale, self.features
        unit = np.divide(1.0, scale, out=np.zeros(N), where=scale > 0.0)
        mean = np.stack([m.mean for m in self.models])
        std = np.sqrt(np.stack([m.var for m in self.models]))
        own = mean[:, :N] * unit
        intercept = mean[:, N:].sum(axis=1) - own @ self.units.centre
        included = np.stack([self._inclusion(m) for m in self.models])
        return Coefficients(own, std[:, :N] * unit, intercept, included)

    def _inclusion(self, model: Model) -> Array:
        """Posterior probability that each coefficient is not zero, (N,)."""
        total = model.posterior.total
        A = np.broadcast_to(total.A, total.B.shape)[: self.features]
        return _prior(model).inclusion_probability(A, total.B[: self.features])

    # Files.

    def state(self) -> State:
        """This state in plain values and posteriors; settings are saved as parameters."""
        frame, first = self.frame, self.first
        return {
            "features": self.features,
            "targets": self.targets,
            "rows": self.rows,
            "history": [dict(entry) for entry in self.history.with_theory()],
            "frame": None if frame is None else vars(frame),
            "models": [dict(vars(model)) for model in self.models],
            "first": None if first is None else first.state(),
        }

    @classmethod
    def from_state(cls, state: State, settings: ModelSettings) -> Self:
        """The way back from `state`."""
        frame = state["frame"]
        return cls(
            settings,
            state["features"],
            state["targets"],
            None if frame is None else Frame(**frame),
            tuple(Model(**model) for model in state["models"]),
            Rows.from_state(state["first"]),
            state["rows"],
            History(state["history"]),
        )


def _outcome(models: list[Model], infos: list[Info]) -> Entry:
    """How a batch was absorbed, for all targets together; the worst where they differ."""
    worst = max(infos, key=lambda info: abs(np.log(max(info.health, 1e-300))))
    return {
        "iterations": max(info.iterations for info in infos),
        "converged": all(info.converged for info in infos),
        "solver": infos[0].solver,
        "reason": infos[0].reason,
        "remedy": next((info.remedy for info in infos if info.remedy), ""),
        "health": float(worst.health),
        "mean_variance": float(np.mean([np.mean(model.var) for model in models])),
    }


def _prior(model: Model) -> BasePrior:
    """The prior of the coefficients, without that of the intercept."""
    return cast(BasePrior, model.posterior.prior.coefficients)
