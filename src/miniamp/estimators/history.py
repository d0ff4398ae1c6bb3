"""The history of a stream: one entry per batch, and what theory expects of each batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypedDict, cast, overload

import numpy as np

from miniamp.absorb import Info, absorb
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import Design
from miniamp.errors import MiniampError
from miniamp.info import Adaptation, Naming, OddEntry, Outlier
from miniamp.learning import Model
from miniamp.parametric import Parametric
from miniamp.priors import ScalarPrior
from miniamp.theory import ConvergedBatch, Law, Spectrum, mutual_information
from miniamp.theory.scalar import scalar_channel
from miniamp.tilt import Remembered

#: Maximum number of entries in a history. Of more, every second of the older half is dropped: the
#: latest 1,000 batches are complete, older ones the sparser the older they are. A save of 10,000
#: entries wrote 6.5 MB and took .55 s, one of 1,600 in columns .45 MB and .11 s.
KEPT_BATCHES = 2_000
#: Squared singular values of the rows below this, relative to the largest, count as zero.
EMPTY = 1e-12
#: Largest leverage of a row, below 1 by more than rounding.
LARGEST_LEVERAGE = 1.0 - 1e-9


class Conflict(TypedDict, total=False):
    """Treatment of a batch, row or entry that contradicts what was learned before."""

    kind: str  #: "row", "entry", "noise", "forgotten" or "skipped"
    factor: float  #: weight of the row, factor of the noise, share of the past that was kept
    message: str
    row: int  #: within the batch, from 0
    received: float
    expected: float
    deviations: float
    feature: int  #: of an entry of X that is far from all others
    low: float  #: smallest of the others
    high: float  #: and the largest
    used: float  #: value in place of the entry


class Entry(TypedDict, total=False):
    """Record of a batch; its hyper-parameters are in prior_<name> and noise_<name>."""

    batch: int
    rows: int
    rows_seen: int
    features: int
    iterations: int
    converged: bool
    solver: str
    reason: str
    remedy: str
    health: float
    log_evidence: float  #: log-density of the batch given all before it, where it is known
    log_evidence_sum: float  #: of all batches so far; nan if that of one is not known
    mean_variance: float
    noise_var: float
    noise_learned: bool
    prior_learned: bool
    forget: float
    forget_learned: bool
    prior: str  #: the chosen one, with prior="auto"
    weight: float  #: probability of the chosen prior and forgetting factor
    solver_asked: str  #: parameter `solver`
    weighted: bool  #: whether rows had weights
    sampled: int  #: number of rows used, of a first batch that was sampled
    scored: int  #: number of rows with scores, where these are fewer than all
    conflicts: list[Conflict]
    theory_precision: float
    theory_variance: float
    theory_error: float | None
    theory_gained: float  #: information on the coefficients in the batch in nats, by theory
    theory_discarded: float  #: part of it lost with the correlations of coefficients
    task: str
    score: float
    error: float
    error_std: float
    expected_error: float
    surprise: float
    surprise_std: float
    coverage: float | None
    classes: list[int]  #: number of rows of each class that were scored
    outliers: int
    calibration: list[int] | list[list[float]]
    found: list[str]


class ClusterEntry(TypedDict):
    """Record of a batch of a clusterer."""

    samples: int
    iterations: int
    converged: bool
    health: float
    noise: float


class Typical(NamedTuple):
    """Description of a batch absorbed by AMP, for state evolution (Theorem 1).

    Entries of the rows are scaled to variance 1/N, and with them z and its noise.
    """

    prior: ScalarPrior  #: after the batch
    channel: Channel
    alpha: float  #: rows per feature
    features: int
    power: float  #: N times the mean square of an entry
    forget: float  #: weight of all earlier rows
    first: bool  #: whether the stream started with this batch
    unit: float  #: scale of the targets, by which all this is divided
    before: float | None = None  #: the precision before this batch, once it is known

    @classmethod
    def of(
        cls, model: Model, info: Info, design: Design, forget: float, first: bool, unit: float
    ) -> Typical | None:
        """Description for a model after a batch; None where the theory does not apply.

        It requires independent features and a channel with one variance of the noise.
        """
        if info.solver != "amp":
            return None
        prior, channel = prior_of(model), model.channel
        noise = channel.noise_var
        if prior.shape != () or noise is None or not noise > 0.0:
            return None
        rows, features = design.shape
        power = features * design.mean_square
        return cls(prior, channel, rows / features, features, power, forget, first, unit)

    @property
    def scaled(self) -> Channel:
        """The channel on the scale of such rows."""
        return self.channel.replaced(var=self._noise / self.power)

    @property
    def _noise(self) -> float:
        return cast(float, self.channel.noise_var)  # `of` has checked it

    def after(self, entry: Entry, last: Entry) -> Typical | None:
        """Set theory_precision, theory_variance and theory_error in the entry of this batch.

        State evolution starts from the precision in the `last` entry and the hyper-parameters of
        this batch, which may have been learned since. The error is that of predictions before the
        batch. The result is for `inform`; None where the theory does not apply.
        """
        before = 0.0 if self.first else last.get("theory_precision")
        if before is None:
            return None
        before *= self.forget
        try:
            law = Law(self.prior, lam=before, gamma=before, signal=before)
            new, _ = absorb(law, ConvergedBatch(self.alpha, self.scaled))
            lam, variance, error = float(new.lam), float(new.variance), float(law.variance)
        except (MiniampError, ArithmeticError, ValueError):  # beyond the range of the theory
            return None
        entry["theory_precision"], entry["theory_variance"] = lam, self.unit**2 * variance
        if self.channel.shift_invariant:
            entry["theory_error"] = self.unit**2 * (self._noise + self.power * error)
        return self._replace(before=before)

    def inform(self, entry: Entry) -> None:
        """Set theory_gained and theory_discarded in an entry that `after` has filled.

        They take seven times as long, and no later batch needs them.
        """
        before, lam = cast(float, self.before), entry["theory_precision"]
        variance = entry["theory_variance"] / self.unit**2
        try:
            scalar = scalar_channel(self.prior)
            joint = mutual_information(self.prior, self.scaled, variance, self.alpha, before)
            earlier, kept = (float(scalar.information(np.array(a))) for a in (before, lam))
        except (MiniampError, ArithmeticError, ValueError):
            return
        entry["theory_gained"] = self.features * float(joint - earlier)
        entry["theory_discarded"] = self.features * float(joint - kept)


def expected_error(
    models: Sequence[Model], features: int, rows: int, unit: Array, before: int
) -> float:
    """Squared error of predictions by theory, from the singular values of all rows so far.

    That after `before` rows like these, in the units of y; nan where no theory applies or not all
    rows are remembered. With s the singular values of these rows and tau the precision of a
    coefficient without them (`theory.Spectrum`), z has the mean variance
    v = sum_k 1/(tau/s_k^2 + 1/Delta)/before at these rows, and v/(1 - v/Delta) at others like them.
    It takes O(N^3) operations.
    """
    model, belief = models[0], models[0].posterior
    prior, noise = belief.prior.coefficients, model.channel.gaussian_noise()
    if not isinstance(prior, ScalarPrior) or prior.shape != ():
        return np.nan
    if len(models) > 1 or noise is None or noise.size > 1:
        return np.nan
    exact, var = belief.information, float(noise.flat[0])
    if exact is not None:
        S = exact.S * (var / exact.noise)
    elif isinstance(belief.remembered, Remembered) and len(belief.remembered.rows) >= features:
        S = var * belief.remembered.rows.T @ belief.remembered.rows
    else:
        return np.nan
    squares = np.linalg.eigvalsh(S[:features, :features])
    squares = squares[squares > EMPTY * squares[-1]]
    a = float(np.mean(np.broadcast_to(belief.tilt.A, belief.size)[:features]))
    design = Spectrum(np.sqrt(squares * before / rows), features, max(before, len(squares)))
    try:
        law = Law(prior, lam=a, gamma=a, signal=a)
        new, _ = absorb(law, ConvergedBatch(design.alpha, model.channel, design=design))
    except (MiniampError, ArithmeticError, ValueError):
        return np.nan
    tau = max(1.0 / new.variance - (new.lam - a), 0.0)
    free = max(before - (belief.size - features), len(squares))  # an intercept takes one row
    v = float(np.sum(1.0 / (tau / design.squares + 1.0 / var))) / free
    return float(unit[0]) ** 2 * var / (1.0 - min(v / var, LARGEST_LEVERAGE))


class History(Sequence[Entry]):
    """Entries of the batches, oldest first and thinned with age; frozen.

    Successive histories share one list, of which each has a slice, so that appending is fast. The
    predictions of theory are computed when they are needed (`with_theory`), once per batch.

    Examples
    --------
    >>> short = History().appended({"batch": 0})
    >>> long = short.appended({"batch": 1})
    >>> len(short), len(long), long[-1]["batch"]
    (1, 2, 1)
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: list[tuple[Entry, Typical | None]] = [(entry, None) for entry in entries]
        self._end = len(self._entries)
        self._begin = max(0, self._end - KEPT_BATCHES)

    def appended(self, entry: Entry, typical: Typical | None = None) -> History:
        """This history with one more entry."""
        new = History()
        if len(self) >= KEPT_BATCHES:
            self.with_theory(informed=False)  # it needs the entries that are dropped
            kept = self._entries[self._begin : self._end]
            new._entries = kept[: KEPT_BATCHES // 2 : 2] + kept[KEPT_BATCHES // 2 :]
        elif len(self._entries) == self._end:
            new._entries = self._entries
        else:  # another history already appends to the list
            self.with_theory(informed=False)
            new._entries = self._entries[self._begin : self._end]
        new._entries.append((entry, typical))
        new._end = len(new._entries)
        new._begin = max(0, new._end - KEPT_BATCHES)
        return new

    def with_theory(self, informed: bool = True) -> list[Entry]:
        """All entries, with the predictions of theory where it applies.

        Unless `informed`, without the information in each batch, which takes longest.
        """
        last: Entry = {}
        for k in range(self._begin, self._end):
            entry, typical = self._entries[k]
            if typical is not None and typical.before is None:
                typical = typical.after(entry, last)
            if typical is not None and informed:
                typical.inform(entry)
                typical = None
            self._entries[k] = (entry, typical)
            last = entry
        return [entry for entry, _ in self._entries[self._begin : self._end]]

    def __len__(self) -> int:
        return self._end - self._begin

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        """Entries by index; slices are plain lists."""
        if isinstance(index, slice):
            return [self._entries[k][0] for k in range(self._begin, self._end)[index]]
        k = index + (self._end if index < 0 else self._begin)
        if not self._begin <= k < self._end:
            raise IndexError(index)
        return self._entries[k][0]

    def __reversed__(self) -> Iterator[Entry]:
        """The entries, the latest first."""
        for k in range(self._end - 1, self._begin - 1, -1):
            yield self._entries[k][0]

    def __reduce__(self) -> tuple[type[History], tuple[list[Entry]]]:
        return History, (self.with_theory(),)


def column(entries: Sequence[Entry], name: str) -> Array:
    """A number of each entry, as an array; nan where it is missing."""
    return np.array([cast("dict[str, float]", entry).get(name, np.nan) for entry in entries])


def prior_of(model: Model) -> ScalarPrior:
    """The prior of the coefficients, without that of the intercept."""
    return cast(ScalarPrior, model.posterior.prior.coefficients)


def learned_entry(
    models: Sequence[Model], infos: list[Info], units: Sequence[tuple[float, float]], rows: float
) -> Entry:
    """Record of models after a batch of so many rows, or rows of this total weight.

    `units` are centre and scale of each target. Hyper-parameters are averaged over targets.
    """
    each = [(model, scale) for model, (_, scale) in zip(models, units, strict=True)]
    variance = sum(scale**2 * model.posterior.mean_variance for model, scale in each)
    entry: Entry = {**outcome(infos), "mean_variance": variance / len(each)}
    parts: dict[str, list[Parametric]] = {
        "prior": [prior_of(model).rescaled(scale) for model, scale in each],
        "noise": [model.channel.in_units(scale) for model, scale in each],
    }
    for part, owners in parts.items():
        recorded = owners[0].recorded
        for name in owners[0].names if recorded is None else recorded:
            given = (np.asarray(getattr(owner, name)) for owner in owners)
            values = [float(v if v.ndim == 0 else v.mean()) for v in given]
            cast("dict[str, float]", entry)[f"{part}_{name}"] = sum(values) / len(values)
    pairs = zip(infos, units, strict=False)
    conflicts = [conflict_entry(one, *unit) for info, unit in pairs for one in info.adapted]
    if conflicts:
        entry["conflicts"] = conflicts
    evidence = float(sum(info.log_evidence for info in infos))
    if math.isfinite(evidence):
        # In the units of y: a density, which is smaller by the scale for each row.
        volume = sum(math.log(scale) for _, scale in units)
        entry["log_evidence"] = evidence - rows * volume
    return entry


def conflict_entry(done: Adaptation, centre: float, scale: float) -> Conflict:
    """Record of an adaptation, with targets in the user's units."""
    conflict: Conflict = {"kind": done.kind, "factor": done.factor, "message": str(done)}
    if done.outlier is None:
        return conflict
    outlier = done.outlier
    if isinstance(outlier, Outlier):
        y, expected = (centre + scale * v for v in (outlier.received, outlier.expected))
        outlier = outlier._replace(received=y, expected=expected)
    message = str(done._replace(outlier=outlier))
    return cast(Conflict, {**conflict, "message": message, **outlier._asdict()})


def worded(conflict: Conflict, entry: Entry, names: Naming) -> str:
    """Description of a conflict with these names; rows are counted over all batches."""
    kind = OddEntry if "used" in conflict else Outlier if "row" in conflict else None
    fields = cast("dict[str, Any]", conflict)
    outlier = None if kind is None else kind(*(fields[name] for name in kind._fields))
    if names.classes is not None and len(names.classes) > 2 and entry["solver"] != "softmax":
        names = names._replace(classes=None)  # one class against all others
    names = names._replace(before=entry["rows_seen"] - entry["rows"])
    return Adaptation(conflict["kind"], conflict["factor"], outlier).worded(names)


def outcome(infos: list[Info]) -> Entry:
    """Record of how a batch was absorbed, for all targets together; the worst where they differ."""
    worst = max(infos, key=lambda info: abs(math.log(max(info.health, 1e-300))))
    return {
        "iterations": max(info.iterations for info in infos),
        "converged": all(info.converged for info in infos),
        "solver": infos[0].solver,
        "reason": infos[0].reason,
        "remedy": next((info.remedy for info in infos if info.remedy), ""),
        "health": float(worst.health),
    }


def pooled(entries: Sequence[Entry], name: str) -> tuple[float, float]:
    """Mean over the rows of a score of each batch, and its standard deviation."""
    # For a handful of entries sums of floats take a fifth of the time of arrays.
    total, mean, deviation, name_std = 0.0, 0.0, 0.0, f"{name}_std"
    for entry in cast("Sequence[dict[str, float]]", entries):
        rows = entry["rows"]
        total += rows
        mean += rows * entry[name]
        deviation = math.hypot(deviation, rows * entry[name_std])
    return mean / total, deviation / total
