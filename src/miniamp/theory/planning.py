"""Plans: the ways to cut a stream into batches, and which one to take, before any data are seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from miniamp import checks
from miniamp.arrays import Given
from miniamp.channels import Channel
from miniamp.errors import InvalidInputError
from miniamp.priors import ScalarPrior
from miniamp.theory.curves import Curve, axes, text_table
from miniamp.theory.limits import (
    checked_target,
    learning_curve,
    offline_alpha,
    online_alpha,
    online_curve,
)
from miniamp.theory.phases import Transitions, transitions
from miniamp.theory.scalar import checked_prior, scalar_channel
from miniamp.theory.scheduling import Schedule, schedule, shortened
from miniamp.theory.spectrum import Spectrum

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Without a limit on memory, the pick is the smallest batch that costs at most this factor of rows.
WORTH = 1.25
#: Unequal batches are recommended where they save this factor of rows, or of the error.
BETTER = 1.05
#: How far from 1 the mean squared norm of a design's rows may be.
ROW_POWER = 0.01
#: Without a target, this share of the prior variance.
DEFAULT_TARGET = 0.01
#: Batches into which the rows of a single one are cut, to look for a cheaper choice.
CUTS = (1, 2, 3, 5, 10, 20, 50, 100)
MOST_BATCHES = 5_000
#: In a stream of more batches than this, the sizes of the first few hardly matter for the end.
MANY = 50
_UNITS = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


@dataclass(frozen=True, eq=False)
class Choice:
    """One way to cut a stream into batches, and what it leads to."""

    name: str
    alpha_b: float  #: rows of a batch over coefficients; 0 for one row at a time
    batch_rows: int  #: rows of a batch
    memory: int  #: bytes: a batch in double precision, and the working vectors
    rows: int | None  #: rows until the target is met; None where it is not within reach
    mse: float  #: the error when the target is met, or the budget spent
    curve: Curve = field(repr=False)  #: the predicted learning curve


@dataclass(frozen=True, eq=False)
class Plan:
    """What each batch size costs, and which one to take. Print it for the table."""

    features: int
    target_mse: float | None
    budget_rows: int | None
    max_memory: float | None  #: bytes
    choices: tuple[Choice, ...]  #: from the most memory to the least
    pick: Choice  #: the recommendation
    fewest_rows: Choice  #: among the choices that do what is required, as
    least_memory: Choice
    memory_cost: float | None  #: rows with the memory limit over rows without it
    schedule: Schedule | None  #: the best unequal batches, where there is a limit on memory
    #: Of the first batch. Between `information` and `spinodal` a batch is in its hard region.
    transitions: Transitions

    @property
    def hard_rows(self) -> tuple[int, int] | None:
        """First-batch sizes, in rows, for which AMP misses what exact inference would find."""
        found = self.transitions
        if found.information is None or found.spinodal is None:
            return None
        # Whole numbers of rows strictly between the two transitions.
        first = int(np.floor(found.information * self.features)) + 1
        last = int(np.ceil(found.spinodal * self.features)) - 1
        return (first, last) if first <= last else None

    @property
    def unequal(self) -> Schedule | None:
        """The schedule, where it saves rows or error worth the trouble against the pick."""
        found, pick = self.schedule, self.pick
        if found is None or (self.target_mse is not None and not found.reached):
            return None
        if self.target_mse is None:
            better = found.mse * BETTER < pick.mse
        else:
            better = pick.rows is None or found.rows * self.features * BETTER < pick.rows
        return found if better else None

    def advice(self) -> str:
        """The answer in sentences."""
        lines = [f"Take {_rows_of(self.pick)}: {self._reason()}"]
        if self.memory_cost is not None and self.memory_cost > 1.0 + 1e-9:
            lines.append(f"The memory limit costs a factor {self.memory_cost:.2f} in rows.")
        if self.memory_cost == np.inf:
            lines[-1] = "The memory limit puts the target out of reach."
        unequal = self.unequal
        if unequal is not None:
            order = shortened([float(np.ceil(x * self.features - 1e-6)) for x in unequal.sizes])
            lines.append(
                f"Unequal batches do better: in rows, {', then '.join(order)}; an error of "
                f"{unequal.mse:.3g} after {unequal.rows * self.features:,.0f} rows."
            )
        hard = self.hard_rows
        if hard is not None:
            lines.append(
                f"A first batch of {hard[0]:,} to {hard[1]:,} rows is in the hard region: exact "
                "inference would do better, no fast algorithm is known that does."
            )
        return "\n".join(lines)

    def _reason(self) -> str:
        choice = self.pick
        cost = f"{_bytes(choice.memory)} of memory"
        if choice.rows is None:
            return f"an error of {choice.mse:.3g} when the rows are used up, {cost}."
        return f"an error of {choice.mse:.3g} after {choice.rows:,} rows, {cost}."

    def __str__(self) -> str:
        head = ("  choice", "rows per batch", "alpha_b", "memory", "rows to target", "error")
        rows = [
            (
                ("> " if choice is self.pick else "  ") + choice.name,
                f"{choice.batch_rows:,}",
                f"{choice.batch_rows / self.features:.4g}",
                _bytes(choice.memory),
                "out of reach" if choice.rows is None else f"{choice.rows:,}",
                f"{choice.mse:.3g}",
            )
            for choice in self.choices
        ]
        return "\n".join([text_table([head, *rows]), self.advice()])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the predicted learning curve of every choice; returns the axes."""
        ax = axes() if ax is None else ax
        for choice in self.choices:
            rows, mse = choice.curve.alpha * self.features, choice.curve.mse
            shown, width = np.where(mse > 0.0, mse, np.nan), 2.5 if choice is self.pick else 1.0
            ax.semilogy(rows, shown, ".-", label=choice.name, linewidth=width)
        if self.target_mse is not None:
            ax.axhline(self.target_mse, linestyle=":", color="black")
        if self.budget_rows is not None:
            ax.axvline(self.budget_rows, linestyle=":", color="black")
        ax.set(xlabel="rows", ylabel="mean squared error")
        ax.legend()
        return ax


def plan(
    prior: Given,
    channel: Channel,
    features: int,
    target_mse: float | None = None,
    budget_rows: int | None = None,
    max_memory: float | str | None = None,
    design: Spectrum | None = None,
) -> Plan:
    """Choose a batch size from the theory alone.

    Parameters
    ----------
    prior, channel
        The model.
    features : int
        The number N of coefficients; rows have entries of variance 1/N.
    target_mse : float, optional
        The error to reach; one percent of the prior variance where neither it nor a budget is
        given.
    budget_rows : int, optional
        Rows that can be had at most.
    max_memory : float or str, optional
        Bytes that a batch may take, as a number or like "500MB".
    design : Spectrum, optional
        The rows' singular values, of rows with mean squared norm 1; i.i.d. rows by default.

    Returns
    -------
    Plan

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> found = theory.plan(priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8),
    ...                     features=1000, target_mse=1e-6)
    >>> found.fewest_rows.rows, found.pick.name
    (481, 'all rows at once')
    """
    features = checks.count("features", features)
    if target_mse is not None:
        target_mse = checked_target("target_mse", target_mse, prior)
    if budget_rows is not None:
        budget_rows = checks.count("budget_rows", budget_rows)
    if target_mse is None and budget_rows is None:
        target_mse = DEFAULT_TARGET * scalar_channel(prior).variance
    if design is not None and abs(design.row_power - 1.0) > ROW_POWER:
        raise checks.refuse(
            "design", f"rows of mean squared norm {design.row_power:.3g}", "1",
            "divide the rows, and the noise's standard deviation, by their root mean square norm",
        )  # fmt: skip
    limit = _memory_limit(max_memory, features)
    prior = checked_prior("prior", prior)
    asked = PlanRequest(prior, channel, features, target_mse, budget_rows, limit, design)
    choices = asked.choices()
    allowed = [c for c in choices if limit is None or c.memory <= limit]
    best, restricted = _fewest(choices), _fewest(allowed)
    memory_cost = None
    if limit is not None and best.rows is not None:
        memory_cost = np.inf if restricted.rows is None else restricted.rows / best.rows
    done = [c for c in allowed if c.rows is not None] or [restricted]
    return Plan(
        features=features,
        target_mse=target_mse,
        budget_rows=budget_rows,
        max_memory=limit,
        choices=tuple(choices),
        pick=restricted if limit is not None else _worthwhile(allowed, restricted),
        fewest_rows=best,
        least_memory=min(done, key=lambda c: c.memory),
        memory_cost=memory_cost,
        schedule=asked.schedule(),
        transitions=transitions(prior, channel, design=design),
    )


@dataclass(frozen=True, eq=False)
class PlanRequest:
    """What a plan is asked for: a model, and what is wanted or limited. None where nothing is."""

    prior: ScalarPrior
    channel: Channel
    features: int
    target: float | None  #: the error to reach
    budget: int | None  #: rows that can be had
    limit: float | None  #: bytes
    design: Spectrum | None

    def choices(self) -> list[Choice]:
        """One batch of all rows, that cut into pieces, the largest batch in memory, single rows."""
        model, N = (self.prior, self.channel), self.features
        needed: list[float] = []
        if self.target is not None:
            needed = [offline_alpha(*model, self.target, self.design)]
            needed += [online_alpha(*model, self.target)]
        most = np.inf if self.budget is None else self.budget
        all_rows, online_rows = (
            int(min(np.ceil(alpha * N), most)) for alpha in needed or [np.inf, np.inf]
        )
        sizes = {max(int(np.ceil(all_rows / cut)), 1): f"in {cut} pieces" for cut in CUTS}
        sizes[all_rows] = "all rows at once"
        if self.limit is not None and 1 < largest_batch(self.limit, N) < all_rows:
            sizes[largest_batch(self.limit, N)] = "all that fits"
        found = []
        for size in sorted(sizes, reverse=True):
            if size == 1 and all_rows > 1:
                continue
            number = min(max(-(-online_rows // size), -(-all_rows // size)) + 1, MOST_BATCHES)
            number = max(int(min(number, most / size)), 1)
            curve = learning_curve(*model, size / N, batches=number, design=self.design)
            found.append(self._choice(sizes[size], size, size / N, curve))
        curve = online_curve(*model, np.linspace(0.0, online_rows / N, 101)[1:])
        found.append(self._choice("one row at a time", 1, 0.0, curve, online_rows))
        return found

    def _choice(
        self, name: str, size: int, alpha_b: float, curve: Curve, online_rows: int | None = None
    ) -> Choice:
        rows, last = None, len(curve.mse) - 1
        # The last point of an online curve is the target itself, up to rounding.
        reached = None if self.target is None else curve.first(self.target * (1.0 + 1e-9))
        if reached is not None:
            last = reached
            rows = round(float(curve.alpha[last]) * self.features)
            if online_rows is not None:
                rows = min(max(rows, 1), online_rows)
        memory, shown = memory_of(size, self.features), curve.head(last + 1)
        return Choice(name, alpha_b, size, memory, rows, float(curve.mse[last]), shown)

    def schedule(self) -> Schedule | None:
        """The best unequal batches within the memory; None without a limit, or out of reach."""
        if self.limit is None:
            return None
        N, largest = self.features, largest_batch(self.limit, self.features)
        if self.budget is not None and self.budget > MANY * largest:
            return None
        rows = None if self.budget is None else self.budget / N
        try:
            return schedule(self.prior, self.channel, rows, largest / N, self.target, self.design)
        except InvalidInputError:  # no sequence of batches so small reaches the target
            return None


def memory_of(rows: int, features: int) -> int:
    """Bytes for a batch of rows in double precision and the vectors that work on it.

    Examples
    --------
    >>> memory_of(rows=100, features=1000)
    851200
    """
    return 8 * (rows * features + 6 * features + 4 * rows)


def largest_batch(memory: float, features: int) -> int:
    """The rows of the largest batch within so many bytes; 0 where not even one fits."""
    return max(int((memory / 8.0 - 6 * features) // (features + 4)), 0)


def _fewest(choices: list[Choice]) -> Choice:
    """Among choices that meet the target the one with the fewest rows, else the smallest error."""
    done = [c for c in choices if c.rows is not None]
    if done:
        return min(done, key=lambda c: (c.rows, c.memory))
    return min(choices, key=lambda c: (c.mse, c.memory))


def _worthwhile(choices: list[Choice], best: Choice) -> Choice:
    """The least memory for which the rows (or the error) stay within a factor WORTH of the best."""
    if best.rows is not None:
        good = [c for c in choices if c.rows is not None and c.rows <= WORTH * best.rows]
    else:
        good = [c for c in choices if c.mse <= WORTH * best.mse]
    return min(good, key=lambda c: c.memory)


def _memory_limit(given: float | str | None, features: int) -> float | None:
    if given is None:
        return None
    if isinstance(given, str):
        text = given.strip().upper().replace("IB", "B")
        unit = next((u for u in ("KB", "MB", "GB", "TB", "B") if text.endswith(u)), "")
        try:
            limit = float(text.removesuffix(unit)) * _UNITS.get(unit, 1.0)
        except ValueError:
            raise checks.refuse(
                "max_memory", repr(given), 'bytes such as 2e9 or "2GB"', "write a number and a unit"
            ) from None
    else:
        limit = checks.number("max_memory", given, above=0.0)
    if limit < memory_of(1, features):
        raise checks.refuse(
            "max_memory", f"{limit:g} bytes", f"at least {memory_of(1, features):,}",
            "a single row and the working vectors need that much",
        )  # fmt: skip
    return limit


def _bytes(number: float) -> str:
    for unit in ("TB", "GB", "MB", "KB"):
        if number >= _UNITS[unit]:
            return f"{number / _UNITS[unit]:.3g} {unit}"
    return f"{number:.0f} B"


def _rows_of(choice: Choice) -> str:
    if choice.batch_rows == 1:
        return "one row at a time"
    return f"batches of {choice.batch_rows:,} rows ({choice.name})"
