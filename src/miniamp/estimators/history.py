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

#: Entries that a history keeps at most. With more, every second of the older half is dropped: the
#: latest 1,000 batches are always there, earlier ones the more thinly the older they are. A save of
#: 10,000 entries wrote 6.5 MB and took .55 s, one of 1,600 in columns .45 MB and .11 s.
KEPT_BATCHES = 2_000
#: Directions in which the rows vary by less than this, relative to the largest, are empty.
EMPTY = 1e-12
#: A row is not known better from itself than this, relative to its noise.
NEVER = 1.0 - 1e-9


class Conflict(TypedDict, total=False):
    """What was done about a batch, or a row of it, that contradicts what was learned before."""

    kind: str  #: "row", "entry", "noise", "forgotten" or "skipped"
    factor: float  #: weight of the row, factor of the noise, share of the past that was kept
    message: str
    row: int  #: within the batch, from 0
    received: float
    expected: float
    deviations: float
    feature: int  #: of an entry of X that is far from all others, which are between these two
    low: float
    high: float
    used: float  #: what the entry was read as


class Entry(TypedDict, total=False):
    """What is recorded of one batch; hyper-parameters follow as prior_<name> and noise_<name>."""

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
    log_evidence_sum: float  #: of all batches so far; nan once one of them is not known
    mean_variance: float
    noise_var: float
    noise_learned: bool
    prior_learned: bool
    forget: float
    forget_learned: bool
    prior: str  #: the one chosen, with prior="auto"
    weight: float  #: probability of the prior and the forgetting factor that were chosen
    solver_asked: str
    weighted: bool
    sampled: int
    scored: int  #: number of rows with scores, where these are fewer than all
    conflicts: list[Conflict]
    theory_precision: float
    theory_variance: float
    theory_error: float | None
    theory_gained: float  #: nats that the batch added about the coefficients, by theory
    theory_discarded: float  #: and those lost after it, with the correlations of coefficients
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
    """What is recorded of one batch."""

    samples: int
    iterations: int
    converged: bool
    health: float
    noise: float


class Typical(NamedTuple):
    """What state evolution needs to know of a batch that AMP has absorbed (Theorem 1).

    Rows are brought to entries of variance 1/N by dividing z, and with it the noise, by their size.
    """

    prior: ScalarPrior  #: after the batch
    channel: Channel
    alpha: float  #: rows per feature
    features: int
    power: float  #: N times the mean square of an entry
    forget: float  #: what counted of everything before
    first: bool  #: whether the stream started with this batch
    unit: float  #: unit of the targets in which all this is
    before: float | None = None  #: the precision before this batch, once it is known

    @classmethod
    def of(
        cls, model: Model, info: Info, design: Design, forget: float, first: bool, unit: float
    ) -> Typical | None:
        """For a model after a batch; None where the theory does not apply.

        That is where features are not independent, or the channel has no single noise.
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
        return cast(float, self.channel.noise_var)  # `of` has looked

    def after(self, entry: Entry, last: Entry) -> Typical | None:
        """Put theory_precision, theory_variance and theory_error into the entry of this batch.

        The precision that the typical batches so far have brought is all that is carried over from
        the `last` one, so that hyper-parameters which are being learned can be followed. The error
        is that of predictions before the batch. What is left to compute comes back; None where the
        theory cannot follow.
        """
        before = 0.0 if self.first else last.get("theory_precision")
        if before is None:
            return None
        before *= self.forget
        try:
            law = Law(self.prior, lam=before, gamma=before, signal=before)
            new, _ = absorb(law, ConvergedBatch(self.alpha, self.scaled))
            lam, variance, error = float(new.lam), float(new.variance), float(law.variance)
        except (MiniampError, ArithmeticError, ValueError):  # beyond what the theory can follow
            return None
        entry["theory_precision"], entry["theory_variance"] = lam, self.unit**2 * variance
        if self.channel.shift_invariant:
            entry["theory_error"] = self.unit**2 * (self._noise + self.power * error)
        return self._replace(before=before)

    def inform(self, entry: Entry) -> None:
        """Put theory_gained and theory_discarded into an entry that `after` has filled.

        They take seven times as long, and no later batch needs them.
        """
        before, lam = cast(float, self.before), entry["theory_precision"]
        variance = entry["theory_variance"] / self.unit**2
        try:
            scalar = scalar_channel(self.prior)
            seen = mutual_information(self.prior, self.scaled, variance, self.alpha, before)
            known, kept = (float(scalar.information(np.array(a))) for a in (before, lam))
        except (MiniampError, ArithmeticError, ValueError):
            return
        entry["theory_gained"] = self.features * float(seen - known)
        entry["theory_discarded"] = self.features * float(seen - kept)


def expected_error(
    models: Sequence[Model], features: int, rows: int, unit: Array, before: int
) -> float:
    """Squared error of predictions by theory, from the singular values of all rows so far.

    The error that `before` rows like these leave, in the units of y; nan where no theory applies or
    not all rows are remembered. With s the singular values of these rows and tau what is known of a
    coefficient without them (`theory.Spectrum`), the rows themselves are known up to the variance
    v = sum_k 1/(tau/s_k^2 + 1/Delta)/before, and others like them up to v/(1 - v/Delta). Computed
    when somebody asks: O(N^3).
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
    return float(unit[0]) ** 2 * var / (1.0 - min(v / var, NEVER))


class History(Sequence[Entry]):
    """The entries of the batches, thinned with age, oldest first; frozen, and cheap to append to.

    Histories that follow one another share one list, of which each knows its own length. Theory is
    computed when somebody asks for it (`with_theory`), once per batch.

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
            self.with_theory(informed=False)  # dropped entries are needed for it
            kept = self._entries[self._begin : self._end]
            new._entries = kept[: KEPT_BATCHES // 2 : 2] + kept[KEPT_BATCHES // 2 :]
        elif len(self._entries) == self._end:
            new._entries = self._entries
        else:  # another history went on from here
            self.with_theory(informed=False)
            new._entries = self._entries[self._begin : self._end]
        new._entries.append((entry, typical))
        new._end = len(new._entries)
        new._begin = max(0, new._end - KEPT_BATCHES)
        return new

    def with_theory(self, informed: bool = True) -> list[Entry]:
        """All entries, with what theory expects wherever it applies.

        Unless `informed`, without the nats of each batch, which take longest.
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
        """Entries by place; slices are plain lists."""
        if isinstance(index, slice):
            places = range(self._begin, self._end)[index]
            return [self._entries[k][0] for k in places]
        place = index + (self._end if index < 0 else self._begin)
        if not self._begin <= place < self._end:
            raise IndexError(index)
        return self._entries[place][0]

    def __reversed__(self) -> Iterator[Entry]:
        """The entries, the latest first."""
        for k in range(self._end - 1, self._begin - 1, -1):
            yield self._entries[k][0]

    def __reduce__(self) -> tuple[type[History], tuple[list[Entry]]]:
        return History, (self.with_theory(),)


def column(entries: Sequence[Entry], name: str) -> Array:
    """One number of each entry, as an array; nan where it is missing."""
    return np.array([cast("dict[str, float]", entry).get(name, np.nan) for entry in entries])


def prior_of(model: Model) -> ScalarPrior:
    """The prior of the coefficients, without that of the intercept."""
    return cast(ScalarPrior, model.posterior.prior.coefficients)


def learned_entry(
    models: Sequence[Model], infos: list[Info], units: Sequence[tuple[float, float]], rows: float
) -> Entry:
    """What is recorded of models after a batch of so many rows, or so much weight of them.

    `units` are the zero and the unit of each target. Hyper-parameters are averaged over targets.
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
    """A conflict as the history records it, with targets in the user's units."""
    found: Conflict = {"kind": done.kind, "factor": done.factor, "message": str(done)}
    if done.outlier is None:
        return found
    outlier = done.outlier
    if isinstance(outlier, Outlier):
        y, expected = (centre + scale * v for v in (outlier.received, outlier.expected))
        outlier = outlier._replace(received=y, expected=expected)
    message = str(done._replace(outlier=outlier))
    return cast(Conflict, {**found, "message": message, **outlier._asdict()})


def worded(conflict: Conflict, entry: Entry, names: Naming) -> str:
    """What was done about a batch, in the user's names; rows are counted over all batches."""
    kind = OddEntry if "used" in conflict else Outlier if "row" in conflict else None
    found = cast("dict[str, Any]", conflict)
    about = None if kind is None else kind(*(found[name] for name in kind._fields))
    if names.classes is not None and len(names.classes) > 2 and entry["solver"] != "softmax":
        names = names._replace(classes=None)  # one class against all others
    names = names._replace(before=entry["rows_seen"] - entry["rows"])
    return Adaptation(conflict["kind"], conflict["factor"], about).worded(names)


def outcome(infos: list[Info]) -> Entry:
    """How a batch was absorbed, for all targets together; the worst where they differ."""
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
    """Mean over the rows of what was recorded for each batch, and its standard deviation."""
    # A window has a handful of entries: sums of floats take a fifth of the time of arrays.
    total, mean, spread, deviation = 0.0, 0.0, 0.0, f"{name}_std"
    for entry in cast("Sequence[dict[str, float]]", entries):
        rows = entry["rows"]
        total += rows
        mean += rows * entry[name]
        spread = math.hypot(spread, rows * entry[deviation])
    return mean / total, spread / total
