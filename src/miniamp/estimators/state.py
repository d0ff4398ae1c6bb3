"""Fit state of a streaming regression or classification: one frozen value per batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import issparse

from miniamp import checks
from miniamp.arrays import Array
from miniamp.designs import Design
from miniamp.errors import ConflictError
from miniamp.estimators import candidates, outliers, targets
from miniamp.estimators.candidates import Candidate
from miniamp.estimators.health import findings
from miniamp.estimators.history import Entry, History, Typical, learned_entry
from miniamp.estimators.rows import MOST_WAITING, Matrix, Rows, require_shape
from miniamp.estimators.saving import State
from miniamp.estimators.scoring import RowPrediction, Tally, scored_rows
from miniamp.estimators.settings import ModelSettings
from miniamp.estimators.targets import Coefficients
from miniamp.evidence import Frame
from miniamp.info import Adaptation
from miniamp.learning import Model

#: Few rows wait for others unless the weight of older rows falls below this for each of them.
LEAST_KEPT = 0.9


class Trial(NamedTuple):
    """Outcome of a batch for one candidate."""

    candidate: Candidate  #: after the batch
    entry: Entry  #: of the history
    typical: Typical | None
    scores: Entry
    predicted: list[RowPrediction]  #: before the batch; [] for a first one


@dataclass(frozen=True, eq=False)
class FitState:
    """Posteriors of the coefficients of K targets in standardised units, and their history."""

    settings: ModelSettings
    features: int
    targets: int
    frame: Frame | None = None  #: centre and scale of each feature; None before the first batch
    models: tuple[Model, ...] = ()  #: one per target: a problem with two classes has one
    #: Models of other priors and forgetting factors, where these are "auto".
    others: tuple[Candidate, ...] = ()
    #: Centre and scale of the targets of a regression, (K,) each, from the first rows; else (1,).
    y_centre: Array = field(default_factory=lambda: np.zeros(1))
    y_scale: Array = field(default_factory=lambda: np.ones(1))
    #: The latest rows, while they are too few for an update; `settled` learns from them.
    waiting: Rows | None = None
    rows: int = 0  #: number of rows absorbed
    history: History = field(default_factory=History)  #: one entry per batch
    tally: Tally = field(default_factory=Tally)  #: sums over all rows

    def __post_init__(self) -> None:
        if self.frame is None:
            checks.fits("prior", self.settings.prior.shape, self.features)

    def with_settings(self, settings: ModelSettings) -> FitState:
        """The same state after parameters of the estimator were changed."""
        old = self.settings
        if settings is old:
            return self
        if (settings.intercept, settings.scaling) != (old.intercept, old.scaling):
            raise checks.refuse(
                "fit_intercept, standardize, prior",
                "other units of the coefficients",
                "the same as in the first batch",
                "call fit, or clone the estimator, to start over",
            )
        if settings.auto_prior or settings.auto_forget:
            settings = settings.choosing(
                old.prior_name if settings.auto_prior else settings.prior_name,
                old.forget if settings.auto_forget else settings.forget,
            )
        same = settings.auto_prior == old.auto_prior and settings.auto_forget == old.auto_forget
        return replace(self, settings=settings, others=self.others if same else ())

    # One batch.

    def absorbed(self, new: Rows) -> FitState:
        """The state after one more batch; too few rows wait for others."""
        if self.frame is None:
            new = replace(new, changes=int(np.sum((new.Y[1:] != new.Y[:-1]).any(axis=1))))
        elif self.waiting is not None and issparse(new.X) and not issparse(self.waiting.X):
            return self.settled.absorbed(new)  # dense rows are centred, sparse ones may not be
        rows = new if self.waiting is None else self.waiting.and_then(new)
        if self._is_enough(rows):
            return self._learned(rows)
        if self._labels and self.frame is None and len(rows) > MOST_WAITING:
            rows = rows.thinned(MOST_WAITING)
        return self._but(waiting=new.owned() if rows is new else rows)

    @property
    def settled(self) -> FitState:
        """The state that has learned from the waiting rows too, which predictions use."""
        return self if self.waiting is None else self._settled  # a cache of self is never freed

    @cached_property
    def _settled(self) -> FitState:
        return self if self.waiting is None else self._learned(self.waiting)

    @property
    def _labels(self) -> bool:
        return self.settings.channel.predicts_probabilities

    def _is_enough(self, rows: Rows) -> bool:
        """Whether there are enough rows for an update."""
        least = rows.group(self.settings.solver)
        if self.frame is None:
            drifts = self.settings.forget < 1.0 or self.settings.auto_forget
            return rows.enough_at_first(self._labels, least, drifts=drifts)
        if self.settings.on_conflict == "raise":  # an error is about the rows of this call alone
            return True
        kept = rows.kept(self.settings.forget, self.settings.auto_forget)
        return rows.count >= least or (kept < LEAST_KEPT and not self.settings.auto_forget)

    def _learned(self, rows: Rows) -> FitState:
        """The state that has learned from these rows."""
        rows = rows.normalised().measured(self.frame, self.settings.solver)
        tally = self.tally.including(rows.X, rows.ranges)
        if not issparse(rows.X) and (self.frame is None or tally.widens(self.tally).any()):
            rows, tally = outliers.repaired(rows, self.tally, tally, self._predictor)
        start, design = self._standardised(rows)
        return start._updated(design, rows, tally)

    def _standardised(self, rows: Rows) -> tuple[FitState, Design]:
        """The state before these rows, in units adapted to them, and the rows in these units."""
        intercept = self.settings.intercept
        if self.frame is None:
            frame = self.settings.first_frame(rows.X)
            design = frame.design(rows.X, intercept)  # many sweeps, to find the scales
            start = self._started(frame, rows.Y, rows.weights, issparse(rows.X))
        else:
            # Units follow the rows where the prior is learned.
            follow, swept = self.settings.scaling, self.settings.solver == "amp"
            power = rows.ranges and rows.ranges.power
            frame, design = self.frame.framing(rows.X, intercept, follow, swept=swept, power=power)
            factor = self.frame.stretch(frame, intercept=intercept)
            start = self.mapped(lambda m: replace(m, posterior=m.posterior.stretched(factor)))
            start = start._but(frame=frame, waiting=None)
        return start, design

    def _predictor(self, rows: Rows) -> outliers.Predictor:
        """Function that predicts rows by a model that has learned from these rows too."""
        after = self._but(tally=Tally())
        if len(rows):
            start, design = self._standardised(rows)
            Y, settings = start._scaled(rows.Y), replace(self.settings, on_conflict="adapt")
            models, _ = targets.absorbed(start.models, settings, design, Y, rows)
            after = start._but(models=tuple(models), tally=Tally())
        return after.predictions

    def mapped(self, change: Callable[[Model], Model]) -> FitState:
        """The state with all models changed by a function, those of other candidates too."""
        others = tuple(one._replace(models=tuple(map(change, one.models))) for one in self.others)
        return self._but(models=tuple(map(change, self.models)), others=others)

    def _but(self, **changes: object) -> FitState:
        """This state with other fields: `replace` takes five times as long, at each batch."""
        new = object.__new__(FitState)
        new.__dict__.update(self.__getstate__(), **changes)
        return new

    def after_design(self, frame: Frame, design: Design, Y: Array) -> FitState:
        """The state after a first batch whose rows a design holds, standardised, for AMP."""
        amp = replace(self, settings=replace(self.settings, solver="amp"))
        start = amp._started(frame, Y, None, False)
        after = start._updated(design, Rows(np.zeros((len(Y), 0)), Y), self.tally)
        return replace(after, settings=replace(after.settings, solver=self.settings.solver))

    def _started(self, frame: Frame, Y: Array, weights: Array | None, sparse: bool) -> FitState:
        """The state before any row, in units adapted to the first ones."""
        centre, scale = self.settings.target_units(Y, weights)
        start = replace(self, frame=frame, waiting=None, y_centre=centre, y_scale=scale)
        standard, sizes = start._scaled(Y).T, (self.features, sparse, Y.shape[1])

        def models(settings: ModelSettings) -> tuple[Model, ...]:
            separate = [
                Model(settings.first_belief(*sizes, y), settings.channel.in_units(1.0 / unit))
                for y, (_, unit) in zip(standard, start.target_units, strict=True)
            ]
            return targets.started(settings, separate, wide=sparse and len(Y) < self.features)

        ranked = [
            one._replace(models=models(self.settings.choosing(one.prior, one.forget)))
            for one in candidates.first(self.settings)
        ]
        return start._with_candidates(ranked)

    def _with_candidates(self, ranked: Sequence[Candidate], **fields: object) -> FitState:
        """This state with the models of these candidates, the best one first, and these fields."""
        best, settings = ranked[0], self.settings
        if (best.prior, best.forget) != (settings.prior_name, settings.forget):
            settings = settings.choosing(best.prior, best.forget)
        models, others = best.models, tuple(ranked[1:])
        return self._but(settings=settings, models=models, others=others, **fields)

    def _scaled(self, Y: Array) -> Array:
        return np.asarray((Y - self.y_centre) / self.y_scale)

    def _updated(self, design: Design, rows: Rows, tally: Tally) -> FitState:
        """The state after these rows, which `design` has standardised and `tally` includes.

        The scores in the history are those of the candidate that was best before the batch.
        """
        scored = scored_rows(self.models[0].posterior, design, rows.Y, self.rows)
        trials = [self._trial(design, rows, scored)]
        for one in self.others:
            try:
                trials.append(self._with_candidates([one])._trial(design, rows, scored, one.score))
            except (ConflictError, np.linalg.LinAlgError):  # only with on_conflict="raise"
                continue
        best, ranked = trials[0], [trials[0].candidate]
        if self.others or self.settings.auto_forget:
            found = [(trial.candidate, trial.entry) for trial in trials]
            ranked = candidates.compared(self.settings, found, self.targets)
            best = next(t for t in trials if t.candidate.models is ranked[0].models)
        entry: Entry = {**best.entry, **trials[0].scores}
        if len(ranked) > 1:
            entry["weight"] = candidates.weight(ranked)
        if trials[0].predicted:
            tally = tally.scored(scored[1], trials[0].predicted, self.y_centre, self.y_scale)
        history = self.history.appended(entry, best.typical)
        entry["found"] = [finding.kind for finding in findings(history)]
        return self._with_candidates(ranked, rows=entry["rows_seen"], history=history, tally=tally)

    def _trial(
        self, design: Design, rows: Rows, scored: tuple[Design, Array], score: float = 0.0
    ) -> Trial:
        """Outcome of these rows for the models of this state, a candidate of this score."""
        settings, units, (sample, sample_Y) = self.settings, self.target_units, scored
        predicted = targets.predictions(self.models, sample, units) if self.rows else []
        scores = settings.score(sample_Y, predicted) if predicted else {}
        if len(sample_Y) < len(rows):
            scores["scored"] = len(sample_Y)
        Y = self._scaled(rows.Y)
        learned, infos = targets.absorbed(self.models, settings, design, Y, rows)
        if rows.repaired and settings.on_conflict != "skip":
            replaced = (Adaptation("entry", 0.0, entry) for entry in rows.repaired)
            infos[0] = replace(infos[0], adapted=(*infos[0].adapted, *replaced))
        weight = len(rows) if rows.weights is None else float(np.sum(rows.weights))
        entry = self._entry(rows, learned_entry(learned, infos, units, weight), scores)
        typical = None
        if rows.weights is None and self.targets == 1:
            forget = rows.kept(settings.forget, settings.auto_forget)
            first, unit = not self.history, units[0][1]
            typical = Typical.of(learned[0], infos[0], design, forget, first, unit)
        after = Candidate(settings.prior_name, settings.forget, score, tuple(learned))
        return Trial(after, entry, typical, scores, predicted)

    def _entry(self, rows: Rows, learned: Entry, scores: Entry) -> Entry:
        """Entry of the history for these rows: what was learned from them, and their scores."""
        settings, last = self.settings, self.history[-1] if self.history else None
        entry: Entry = {
            "batch": last["batch"] + 1 if last else 0,
            "rows": rows.count,
            "rows_seen": self.rows + rows.count,
            "features": self.features,
            **learned,
            "noise_learned": settings.learn_noise,
            "prior_learned": settings.learn_prior,
            "forget": settings.forget,
            "solver_asked": settings.solver,
            **scores,
        }
        if settings.auto_forget:
            entry["forget_learned"] = True
        if settings.auto_prior:
            entry["prior"] = settings.prior_name
        if "log_evidence" in entry:
            before = last.get("log_evidence_sum", np.nan) if last else 0.0
            entry["log_evidence_sum"] = before + entry["log_evidence"]
        if rows.left_out:
            entry["sampled"] = len(rows)
        if rows.weights is not None:
            entry["weighted"] = True
        return entry

    # Results.

    @property
    def units(self) -> Frame:
        """The frame, of a state that has one."""
        assert self.frame is not None
        return self.frame

    @cached_property
    def target_units(self) -> list[tuple[float, float]]:
        """Centre and scale of each target."""
        both = (np.zeros(self.targets) + part for part in (self.y_centre, self.y_scale))
        return list(zip(*(part.tolist() for part in both), strict=True))

    def predictions(self, X: Matrix) -> list[RowPrediction]:
        """Predictions for new rows, one per target."""
        X, swept = outliers.cleaned(X, self.tally), self.settings.solver == "amp"
        design = self.units.design(X, self.settings.intercept, swept=swept)
        return targets.predictions(self.models, design, self.target_units)

    @property
    def rows_seen(self) -> int:
        """Number of rows, including those that wait."""
        return self.rows + (0 if self.waiting is None else self.waiting.count)

    @property
    def noise(self) -> Array:
        """Variance of the noise of each target, (K,); nan where the channel has none."""
        units = zip(self.models, self.target_units, strict=True)
        each = (model.channel.in_units(unit) for model, (_, unit) in units)
        return np.array([np.mean(getattr(one, "var", np.nan)) for one in each])

    @cached_property
    def coefficients(self) -> Coefficients:
        """Means, standard deviations and inclusion probabilities in the user's units."""
        return targets.coefficients(self.models, self.units, self.target_units)

    # Files.

    def state(self) -> State:
        """This state in plain values and posteriors; settings are saved as parameters."""
        frame, waiting = self.frame, self.waiting
        return {
            "features": self.features,
            "targets": self.targets,
            "rows": self.rows,
            "history": [dict(entry) for entry in self.history.with_theory()],
            "frame": None if frame is None else vars(frame),
            "models": [dict(vars(model)) for model in self.models],
            "others": [one.state() for one in self.others],
            "chosen": [self.settings.prior_name, self.settings.forget],
            "waiting": None if waiting is None else waiting.state(),
            "y_centre": self.y_centre,
            "y_scale": self.y_scale,
            "tally": dict(vars(self.tally)),
        }

    @classmethod
    def from_state(cls, state: State, settings: ModelSettings) -> Self:
        """The inverse of `state`; a missing field is refused, since a default may be wrong."""
        for part in fields(cls):
            if part.name not in state and part.name not in ("settings", "tally", "others"):
                raise checks.refuse(
                    "state", f"no field {part.name!r}", "all that was saved", "save it again"
                )
        frame, tally = state["frame"], state.get("tally", {})
        if "low" in tally:  # a file of version 0.1 has no "total": sums begin with the next rows
            tally = {"total": np.zeros_like(tally["low"]), **tally}
        changes = {
            **state,
            "frame": None if frame is None else Frame(**frame),
            "models": tuple(Model(**model) for model in state["models"]),
            "others": tuple(Candidate.from_state(one) for one in state.get("others", ())),
            "waiting": Rows.from_state(state["waiting"]),
            "history": History(state["history"]),
            "tally": Tally(**tally),
            # A file of version 0.1 has one number, for one target.
            "y_centre": np.atleast_1d(state["y_centre"]),
            "y_scale": np.atleast_1d(state["y_scale"]),
        }
        chosen = changes.pop("chosen", None)
        if settings.auto_prior or settings.auto_forget:
            settings = settings.choosing(*chosen)
        return cls(settings, **changes)._consistent()

    def _consistent(self) -> Self:
        """This state, after a check that its parts have the sizes that it states."""
        N, K = self.features, self.targets
        if len(self.models) != (0 if self.frame is None else K):
            raise checks.refuse("models", len(self.models), f"{K}", "save it again")
        if self.waiting is not None:
            require_shape("waiting rows", self.waiting.X, len(self.waiting.Y), N)
            require_shape("waiting targets", self.waiting.Y, None, K)
        for name, values in ({} if self.frame is None else vars(self.frame)).items():
            if name != "counted" or np.ndim(values):
                require_shape(name, np.asarray(values), N)
        self.tally.require_features(N)
        for name, count in (("rows", self.rows), ("tally.rows", self.tally.rows)):
            checks.count(name, count, least=0)
        if self._labels and set(self.target_units) != {(0.0, 1.0)}:
            raise checks.refuse("y_centre, y_scale", "others", "0 and 1 of labels", "save it again")
        findings(self.history)  # fails now, not at the next batch, if an entry is incomplete
        set(self.history[-1]["found"] if self.history else ())  # so does this
        return self

    def __getstate__(self) -> dict[str, object]:
        """The fields alone, without cached results."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}
