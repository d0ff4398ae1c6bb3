"""The fit state of a streaming regression or classification: one frozen value per batch."""

from __future__ import annotations

import functools
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

#: Rows do not wait for others where older ones would fade below this meanwhile.
STILL_FRESH = 0.9


class Trial(NamedTuple):
    """A batch as one candidate has predicted it and learned from it."""

    candidate: Candidate  #: after the batch
    entry: Entry
    typical: Typical | None
    scores: Entry
    predicted: list[RowPrediction]  #: [] of a first batch


@dataclass(frozen=True, eq=False)
class FitState:
    """Posteriors of the coefficients of K targets, in units of their own, and their history."""

    settings: ModelSettings
    features: int
    targets: int
    frame: Frame | None = None  #: centre and scale of each feature; None before the first batch
    models: tuple[Model, ...] = ()  #: one per target: a problem with two classes has one
    #: Other priors and forgetting factors with their models, where these are "auto".
    others: tuple[Candidate, ...] = ()
    #: Zero and unit of the targets of a regression, (K,) each, from the first rows; else (1,).
    y_centre: Array = field(default_factory=lambda: np.zeros(1))
    y_scale: Array = field(default_factory=lambda: np.ones(1))
    #: The latest rows, while they are too few to be learned from; `settled` learns from them.
    waiting: Rows | None = None
    rows: int = 0  #: number of rows absorbed
    history: History = field(default_factory=History)  #: one entry per batch
    tally: Tally = field(default_factory=Tally)  #: sums over all rows

    def __post_init__(self) -> None:
        if self.frame is None:
            checks.fits("prior", self.settings.prior.shape, self.features)

    def under(self, settings: ModelSettings) -> FitState:
        """The same state under parameters that were changed since."""
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
        others = self.others
        if settings.auto_prior or settings.auto_forget:
            settings = settings.choosing(
                old.prior_name if settings.auto_prior else settings.prior_name,
                old.forget if settings.auto_forget else settings.forget,
            )
        if (settings.auto_prior, settings.auto_forget) != (old.auto_prior, old.auto_forget):
            others = ()
        return replace(self, settings=settings, others=others)

    # One batch.

    def absorbed(self, new: Rows) -> FitState:
        """The state after one more batch; few rows wait for others."""
        if self.frame is None:
            new = replace(new, changes=int(np.sum((new.Y[1:] != new.Y[:-1]).any(axis=1))))
        elif self.waiting is not None and issparse(new.X) and not issparse(self.waiting.X):
            return self.settled.absorbed(new)  # dense rows have centres, which sparse ones may lack
        rows = new if self.waiting is None else self.waiting.and_then(new)
        if self._enough(rows):
            return self._after(rows)
        if self._labels and self.frame is None and len(rows) > MOST_WAITING:
            rows = rows.thinned(MOST_WAITING)
        return self._but(waiting=new.owned() if rows is new else rows)

    @property
    def settled(self) -> FitState:
        """The state that has learned from the waiting rows too: what can be asked for now."""
        return self if self.waiting is None else self._settled  # one that keeps itself stays

    @cached_property
    def _settled(self) -> FitState:
        return self if self.waiting is None else self._after(self.waiting)

    @property
    def _labels(self) -> bool:
        return self.settings.channel.predicts_probabilities

    def _enough(self, rows: Rows) -> bool:
        """Whether there are enough rows to learn from."""
        least = rows.group(self.settings.solver)
        if self.frame is None:
            drifts = self.settings.forget < 1.0 or self.settings.auto_forget
            return rows.enough_at_first(self._labels, least, drifts=drifts)
        if self.settings.on_conflict == "raise":  # about the rows of this call alone
            return True
        kept = rows.kept(self.settings.forget, self.settings.auto_forget)
        return rows.count >= least or (kept < STILL_FRESH and not self.settings.auto_forget)

    def _after(self, rows: Rows) -> FitState:
        """The state that has learned from these rows."""
        rows = rows.normalised().measured(self.frame, self.settings.solver)
        tally = self.tally.seeing(rows.X, rows.ranges)
        if not issparse(rows.X) and (self.frame is None or tally.widens(self.tally).any()):
            rows, tally = outliers.repaired(rows, self.tally, tally, self._predictor)
        start, design = self._framed(rows)
        return start._learned(design, rows, tally)

    def _framed(self, rows: Rows) -> tuple[FitState, Design]:
        """The state before these rows, in units that suit them, and the rows in these units."""
        intercept = self.settings.intercept
        if self.frame is None:
            frame = self.settings.first_frame(rows.X)
            design = frame.design(rows.X, intercept)  # many sweeps, to find the scales
            start = self._started(frame, rows.Y, rows.weights, issparse(rows.X))
        else:
            # Units follow the rows where the prior is learned.
            follow, swept = self.settings.scaling, self.settings.solver == "amp"
            known = rows.ranges and rows.ranges.power
            frame, design = self.frame.framing(rows.X, intercept, follow, swept=swept, power=known)
            factor = self.frame.stretch(frame, intercept=intercept)
            start = self.mapped(lambda m: replace(m, posterior=m.posterior.stretched(factor)))
            start = start._but(frame=frame, waiting=None)
        return start, design

    def _predictor(self, others: Rows) -> outliers.Predictor:
        """Predictions of rows by a model that has learned from these rows too."""
        belief = self._but(tally=Tally())
        if len(others):
            start, design = self._framed(others)
            Y, settings = start._standardised(others.Y), replace(self.settings, on_conflict="adapt")
            models, _ = targets.absorbed(start.models, settings, design, Y, others)
            belief = start._but(models=tuple(models), tally=Tally())
        return belief.predictions

    def mapped(self, change: Callable[[Model], Model]) -> FitState:
        """The state whose models are changed, those of other candidates too."""
        others = tuple(one._replace(models=tuple(map(change, one.models))) for one in self.others)
        return self._but(models=tuple(map(change, self.models)), others=others)

    def _but(self, **changes: object) -> FitState:
        """This state with other fields: `replace` takes five times as long, at each batch."""
        new = object.__new__(FitState)
        new.__dict__.update(self.__getstate__(), **changes)
        return new

    def after_design(self, frame: Frame, design: Design, Y: Array) -> FitState:
        """The state after a first batch whose rows are standardised already, and stay elsewhere.

        AMP sweeps them where they are.
        """
        settings = replace(self.settings, solver="amp")
        start = replace(self, settings=settings)._started(frame, Y, None, False)
        after = start._learned(design, Rows(np.zeros((len(Y), 0)), Y), self.tally)
        return replace(after, settings=replace(after.settings, solver=self.settings.solver))

    def _started(self, frame: Frame, Y: Array, weights: Array | None, sparse: bool) -> FitState:
        """The state before any row, in units that suit the first ones."""
        centre, scale = self.settings.target_units(Y, weights)
        start = replace(self, frame=frame, waiting=None, y_centre=centre, y_scale=scale)
        standardised, sizes = start._standardised(Y).T, (self.features, sparse, Y.shape[1])

        def models(settings: ModelSettings) -> tuple[Model, ...]:
            first = functools.partial(settings.first_belief, *sizes)
            own = [
                Model(first(y), settings.channel.in_units(1.0 / unit))
                for y, (_, unit) in zip(standardised, start.target_units, strict=True)
            ]
            wide = sparse and len(Y) < self.features
            return targets.started(settings, own, wide)

        each = [
            one._replace(models=models(self.settings.choosing(one.prior, one.forget)))
            for one in candidates.first(self.settings)
        ]
        return start._led_by(each)

    def _led_by(self, each: Sequence[Candidate], **parts: object) -> FitState:
        """This state with the models of the first candidate, the others beside, and these parts."""
        lead, settings = each[0], self.settings
        if (lead.prior, lead.forget) != (settings.prior_name, settings.forget):
            settings = settings.choosing(lead.prior, lead.forget)
        others = tuple(each[1:])
        return self._but(settings=settings, models=lead.models, others=others, **parts)

    def _standardised(self, Y: Array) -> Array:
        return np.asarray((Y - self.y_centre) / self.y_scale)

    def _learned(self, design: Design, rows: Rows, tally: Tally) -> FitState:
        """The state that has learned from these rows, standardised in the design, of this tally.

        Its entry has the scores of predictions that were made beforehand, whichever candidate is
        the best thereafter.
        """
        scored = scored_rows(self.models[0].posterior, design, rows.Y, self.rows)
        trials = [self._tried(design, rows, scored)]
        for one in self.others:
            try:
                trials.append(self._led_by([one])._tried(design, rows, scored, one.score))
            except (ConflictError, np.linalg.LinAlgError):  # only with on_conflict="raise"
                continue
        best, each = trials[0], [trials[0].candidate]
        if self.others or self.settings.auto_forget:
            found = [(trial.candidate, trial.entry) for trial in trials]
            each = candidates.compared(self.settings, found, self.targets)
            best = next(t for t in trials if t.candidate.models is each[0].models)
        entry: Entry = {**best.entry, **trials[0].scores}
        if len(each) > 1:
            entry["weight"] = candidates.weight(each)
        if trials[0].predicted:
            tally = tally.scored(scored[1], trials[0].predicted, self.y_centre, self.y_scale)
        history = self.history.appended(entry, best.typical)
        entry["found"] = [finding.kind for finding in findings(history)]
        return self._led_by(each, rows=entry["rows_seen"], history=history, tally=tally)

    def _tried(
        self, design: Design, rows: Rows, scored: tuple[Design, Array], score: float = 0.0
    ) -> Trial:
        """What the models of this state become with these rows, and the entry of the batch."""
        some, seen = scored
        predicted = targets.predictions(self.models, some, self.target_units) if self.rows else []
        scores = self.settings.score(seen, predicted) if predicted else {}
        if len(seen) < len(rows):
            scores["scored"] = len(seen)
        Y, count = self._standardised(rows.Y), rows.count
        weight = len(rows) if rows.weights is None else float(np.sum(rows.weights))
        learned, infos = targets.absorbed(self.models, self.settings, design, Y, rows)
        if rows.repaired and self.settings.on_conflict != "skip":
            read = (Adaptation("entry", 0.0, entry) for entry in rows.repaired)
            infos[0] = replace(infos[0], adapted=(*infos[0].adapted, *read))
        entry: Entry = {
            "batch": self.history[-1]["batch"] + 1 if self.history else 0,
            "rows": count,
            "rows_seen": self.rows + count,
            "features": self.features,
            **learned_entry(learned, infos, self.target_units, weight),
            "noise_learned": self.settings.learn_noise,
            "prior_learned": self.settings.learn_prior,
            "forget": self.settings.forget,
            "solver_asked": self.settings.solver,
            **scores,
        }
        if self.settings.auto_forget:
            entry["forget_learned"] = True
        if self.settings.auto_prior:
            entry["prior"] = self.settings.prior_name
        if "log_evidence" in entry:
            before = self.history[-1].get("log_evidence_sum", np.nan) if self.history else 0.0
            entry["log_evidence_sum"] = before + entry["log_evidence"]
        typical = None
        if rows.left_out:
            entry["sampled"] = len(rows)
        if rows.weights is not None:
            entry["weighted"] = True
        elif self.targets == 1:
            forget = rows.kept(self.settings.forget, self.settings.auto_forget)
            first, unit = not self.history, self.target_units[0][1]
            typical = Typical.of(learned[0], infos[0], design, forget, first, unit)
        chosen = self.settings.prior_name, self.settings.forget
        candidate = Candidate(*chosen, score, tuple(learned))
        return Trial(candidate, entry, typical, scores, predicted)

    # What can be asked.

    @property
    def units(self) -> Frame:
        """The frame, once there is one."""
        assert self.frame is not None
        return self.frame

    @cached_property
    def target_units(self) -> list[tuple[float, float]]:
        """Zero and unit of each target."""
        both = (np.zeros(self.targets) + part for part in (self.y_centre, self.y_scale))
        return list(zip(*(part.tolist() for part in both), strict=True))

    def predictions(self, X: Matrix) -> list[RowPrediction]:
        """Predictions for new rows, one per target."""
        X, swept = outliers.readable(X, self.tally), self.settings.solver == "amp"
        design = self.units.design(X, self.settings.intercept, swept=swept)
        return targets.predictions(self.models, design, self.target_units)

    @property
    def rows_seen(self) -> int:
        """Number of rows, with those that wait."""
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
        """The way back from `state`; a default for a lost field would be another model."""
        for part in fields(cls):
            if part.name not in state and part.name not in ("settings", "tally", "others"):
                raise checks.refuse(
                    "state", f"no field {part.name!r}", "all that was saved", "save it again"
                )
        frame, tally = state["frame"], state.get("tally", {})
        if "total" not in tally and "low" in tally:  # of version 0.1: sums begin with the next rows
            tally = {**tally, "total": np.zeros_like(tally["low"])}
        changes = {
            "frame": None if frame is None else Frame(**frame),
            "models": tuple(Model(**model) for model in state["models"]),
            "others": tuple(Candidate.from_state(one) for one in state.get("others", ())),
            "waiting": Rows.from_state(state["waiting"]),
            "history": History(state["history"]),
            "tally": Tally(**tally),
            # A file of version 0.1 has one number, of one target.
            "y_centre": np.atleast_1d(state["y_centre"]),
            "y_scale": np.atleast_1d(state["y_scale"]),
        }
        state = dict(state)
        chosen = state.pop("chosen", None)
        if settings.auto_prior or settings.auto_forget:
            settings = settings.choosing(*chosen)
        return cls(settings, **{**state, **changes})._consistent()

    def _consistent(self) -> Self:
        """This state, if its parts have the sizes that it states; whoever wrote it."""
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
        findings(self.history)  # reads what the next batch will read
        set(self.history[-1]["found"] if self.history else ())  # so does this
        return self

    def __getstate__(self) -> dict[str, object]:
        """The fields alone, without what was computed from them."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}
