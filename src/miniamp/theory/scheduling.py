"""Schedules: the best sequence of batch sizes, when batches need not be equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid

from miniamp import checks
from miniamp.absorb import Stop, absorb, stream
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.theory.balance import Balance
from miniamp.theory.curves import Curve, text_table
from miniamp.theory.law import ConvergedBatch, Law
from miniamp.theory.limits import checked_target, precision_for, smallest_batch, streamed
from miniamp.theory.scalar import checked_prior
from miniamp.theory.spectrum import Spectrum

#: Precisions that the dynamic program knows. Against 4000 of them, 1.2 N rows in batches of at most
#: .45 N end with an error .05 % larger (.8 % with 300), and an error of 1e-4 in batches of at most
#: .47 N takes .4 % more rows (.6 %).
NODES = 1000
#: More of them where two are further apart than a batch reaches: so many for each of its sizes.
PER_BATCH = 4
#: The grid of precisions starts here, in units of 1/Var x: less than that needs hardly any rows.
LEAST = 1e-3
#: A maximum of the cost between two nodes is above both by less than this factor: half the squared
#: relative step, 1e-4. A batch without it might stop just short of the threshold it is to cross,
#: or need 1e4 iterations to cross it.
PEAK = 1.0 + 1e-4
#: An error this small, in units of Var x, counts as none.
SOLVED = 1e-13
#: Numbers of equal batches that are compared, beside the smallest number that memory allows.
MORE = (1, 2, 3, 5, 10)
#: Streams of more batches are not planned: 1,000 batches take half a second to predict, and the
#: order of the sizes hardly matters in so many.
MOST_BATCHES = 5_000
#: Batches that one comparison of plans may take beyond the first plan.
AFFORDABLE = 300
#: Bisections of one batch's size, relative to that size.
HALVINGS = 14
#: Sizes smaller than this, in units of the largest, are dropped.
DUST = 1e-6
#: The last batches, so many, are made as small as a target allows: the first already are, to the
#: grid's 1e-4, and each costs a search through all that come after it.
SHRUNK = 5
#: Positions in a schedule at which rows that are left over are tried.
PLACES = 6
#: Equal batches are followed for so many times the rows of the schedule at most.
PATIENCE = 8.0


@dataclass(frozen=True, eq=False)
class Sizes:
    """A way to cut a stream, and what it leads to."""

    name: str
    sizes: tuple[float, ...]  #: rows of each batch over coefficients, in order
    mse: float  #: the error after the last batch
    reached: bool = True  #: whether the target is met, where there is one

    @property
    def rows(self) -> float:
        """Number of all rows over coefficients."""
        return float(sum(self.sizes))


@dataclass(frozen=True, eq=False)
class Schedule(Sizes):
    """The best sequence of batch sizes, beside other ways to cut the same rows. Print it."""

    largest: float = np.inf  #: the limit on a batch
    target: float | None = None  #: the error that was to be reached
    curve: Curve = field(kw_only=True, repr=False)  #: the predicted error after each batch
    #: Equal batches of every size within the limit, and all rows at once, which ignores it: no
    #: equal batches do better than the schedule, and no schedule better than all rows at once.
    others: tuple[Sizes, ...] = field(kw_only=True, repr=False)

    def __str__(self) -> str:
        rows = [
            (
                way.name,
                f"{len(way.sizes)}",
                f"{max(way.sizes):.4g}",
                f"{way.rows:.4g}" if way.reached else "out of reach",
                f"{way.mse:.3g}",
            )
            for way in (self, *self.others)
        ]
        table = text_table([("  plan", "batches", "largest", "rows", "error"), *rows])
        return f"{table}\nBatches in order: {', '.join(shortened(self.sizes))}"


def schedule(
    prior: Given,
    channel: Channel,
    rows: Given = None,
    largest: Given = None,
    target: Given = None,
    design: Spectrum | None = None,
) -> Schedule:
    """The best sequence of batch sizes under a memory limit, or the fewest rows to a target.

    One large batch can cross a threshold that many small ones do not; once it is crossed, small
    batches lose little. So the order and the sizes matter, not only the number of rows.

    A law is one number, the precision lambda, and a batch of alpha N rows takes it from lambda_0 to
    lambda if alpha is the largest of (l - lambda_0)/delta(epsilon(l)) over lambda_0 < l <= lambda.
    With c(lambda_0, lambda) for that cost, the fewest rows W to each lambda follow by dynamic
    programming,

        W(lambda) = min over lambda_0 of W(lambda_0) + c(lambda_0, lambda),   c <= largest.

    More precision before a batch never means less after it, so no other sequence on the grid of
    precisions does better; a finer grid saves less than half a percent of the rows (`NODES`).

    Parameters
    ----------
    prior, channel
        The model.
    rows : float, optional
        Rows over coefficients that can be had in all; without limit by default (give a target).
    largest : float, optional
        Rows over coefficients that one batch can hold, for at most 5,000 batches; without limit by
        default.
    target : float, optional
        The error to reach with the fewest rows; without one, the smallest error with all rows.
    design : Spectrum, optional
        The rows' singular values; i.i.d. rows by default.

    Returns
    -------
    Schedule

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> found = theory.schedule(priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-4),
    ...                         rows=1.2, largest=0.5)
    >>> [round(size, 3) for size in found.sizes], f"{found.mse:.1e}"
    ([0.5, 0.5, 0.2], '6.3e-05')
    """
    prior = checked_prior("prior", prior)
    if rows is None and target is None:
        raise checks.refuse(
            "rows, target", "neither", "at least one of them", "give rows, or the error to reach"
        )
    limit = None if rows is None else checks.number("rows", rows, above=0.0)
    goal = None if target is None else checked_target("target", target, prior)
    ways = _Ways(prior, channel, design, goal)
    needed = np.inf if goal is None else smallest_batch(ways.balance, goal) * PEAK
    most = float(min(needed, np.inf if limit is None else limit))
    cap = most if largest is None else min(checks.number("largest", largest, above=0.0), most)
    if most > MOST_BATCHES * cap:
        raise checks.refuse(
            "largest", cap, f"at least {most / MOST_BATCHES:.3g}, for {MOST_BATCHES:,} batches",
            "take equal batches: in so many the order of sizes hardly matters",
        )  # fmt: skip
    sizes = [most] if cap == most else ways.sizes(limit, cap)
    if sizes is None:
        raise checks.refuse(
            "target", goal, f"an error that batches of {cap:g} N rows reach",
            "raise {largest}, or give {rows} for the smallest error they allow",
        )  # fmt: skip
    curve = ways.curve(sizes)
    mse = float(curve.mse[-1])
    reached = goal is None or mse <= goal * (1.0 + 1e-9)
    others = ways.others(sum(sizes), cap, most if reached else float(limit or most))
    name, cut = "> schedule", tuple(sizes)
    return Schedule(name, cut, mse, reached, cap, goal, curve=curve, others=others)


class _Ways:
    """Batch sizes for one model, and what they lead to."""

    def __init__(
        self, prior: Given, channel: Channel, design: Spectrum | None, goal: float | None
    ) -> None:
        self.law = Law(checked_prior("prior", prior))
        self.channel, self.design, self.goal = channel, design, goal
        self.balance = Balance(self.law.prior, channel, design=design)

    def _batch(self, size: float) -> ConvergedBatch:
        return ConvergedBatch(size, self.channel, design=self.design)

    def curve(self, sizes: Sequence[float]) -> Curve:
        """The predicted error after each batch."""
        batches = [self._batch(size) for size in sizes]
        return streamed(self.law, batches, Stop(), "schedule")

    def error(self, sizes: Sequence[float], law: Law | None = None) -> float:
        """The error after the last batch, from a law that has absorbed those before."""
        now = self.law if law is None else law
        for size in sizes:
            now, _ = absorb(now, self._batch(size))
        return max(now.mse, self.channel.error_floor)

    def sizes(self, limit: float | None, cap: float) -> list[float] | None:
        """The best sizes within a limit on rows and one on batches; None if the goal is beyond."""
        planned = self._planned(limit, cap)
        if self.goal is not None:
            number = MOST_BATCHES if limit is None else int(limit / cap)
            full = self._equal(cap, number)
            ways = [planned] if self.error(planned) <= self.goal else []
            ways += [list(full.sizes)] if full.reached else []
            if ways:
                return min((self._shrunk(way) for way in ways), key=sum)
        return None if limit is None else self._filled(planned, limit, cap)

    def _planned(self, limit: float | None, cap: float) -> list[float]:
        """The dynamic program: sizes to the target, or to the best that the rows allow."""
        lam, price = self._nodes(limit, cap)
        rows, before, size = _fewest_rows(lam, price, cap * (1.0 + 1e-12))
        within = rows <= (np.inf if limit is None else limit * (1.0 + 1e-9))
        j = int(np.flatnonzero(within & np.isfinite(rows))[-1])
        sizes: list[float] = []
        while j > 0:
            sizes.append(float(size[j]))
            j = int(before[j])
        return sizes[::-1]

    def _nodes(self, limit: float | None, cap: float) -> tuple[Array, Array]:
        """Precisions, and what each costs in rows: 1/delta(epsilon)."""
        scalar = self.balance.scalar
        if self.goal is not None:
            top = precision_for(scalar, self.goal)
        else:
            top = precision_for(scalar, SOLVED * scalar.variance)
            s = self.balance.smallest_root(float(limit or 1.0))
            if s is not None:
                top = min(top, float(np.exp(s)))
        low = min(LEAST / scalar.variance, 0.01 * top)
        lam = np.concatenate([[0.0], np.geomspace(low, top, NODES)])
        paid = cumulative_trapezoid(self.balance.price(lam), lam, initial=0.0)
        even = np.interp(np.arange(0.0, paid[-1], cap / PER_BATCH), paid, lam)
        lam = np.union1d(lam, even)
        return lam, self.balance.price(lam)

    def _shrunk(self, sizes: list[float]) -> list[float]:
        """The sizes made as small as the target allows, from the last to the first."""
        assert self.goal is not None
        best = list(sizes)
        laws = [law for law, _ in stream(self.law, (self._batch(size) for size in sizes))]
        for k in reversed(range(max(len(best) - SHRUNK, 0), len(best))):
            before = laws[k - 1] if k else self.law
            low, high = 0.0, best[k]
            for _ in range(HALVINGS):
                middle = 0.5 * (low + high)
                met = self.error([middle, *best[k + 1 :]], before) <= self.goal
                low, high = (low, middle) if met else (middle, high)
            best[k] = high
        return [size for size in best if size > DUST * max(best)]

    def _filled(self, sizes: list[float], limit: float, cap: float) -> list[float]:
        """The best of the plan with what is left of the rows, and of full batches with a rest."""
        *full, rest = _cut(limit, cap)
        trials = [[*full[:k], rest, *full[k:]] for k in _places(len(full))]
        left = limit - sum(sizes)
        for k in _places(len(sizes)):
            room = min(left, cap - sizes[k]) if k < len(sizes) else 0.0
            grown = [size + room * (i == k) for i, size in enumerate(sizes)]
            trials.append(grown + _cut(left - room, cap))
        return min(trials, key=self.error)

    def others(self, total: float, cap: float, most: float) -> tuple[Sizes, ...]:
        """Equal batches within the limit, and all rows at once."""
        fewest = max(int(np.ceil(total / cap - 1e-9)), 1)
        longer = PATIENCE if self.goal is not None else 1.0
        found = [
            self._equal(total / (fewest * more), int(longer * fewest * more) + (longer > 1.0))
            for more in MORE
            if more == 1 or fewest * more <= AFFORDABLE
        ]
        if self.goal is not None:
            found.insert(0, self._equal(cap, int(PATIENCE * fewest) + 1))
        once = self.error([most])
        met = self.goal is None or once <= self.goal * (1.0 + 1e-9)
        return (*found, Sizes("  all rows at once", (most,), once, met))

    def _equal(self, size: float, number: int) -> Sizes:
        """Equal batches, until they reach the goal where there is one, or `number` of them."""
        used, mse, met = 0, np.inf, self.goal is None
        for law, _ in stream(self.law, repeat(self._batch(size), number)):
            used, mse = used + 1, max(law.mse, self.channel.error_floor)
            if self.goal is not None and mse <= self.goal * (1.0 + 1e-9):
                met = True
                break
        name = "  equal batches" if used > 1 else "  one batch"
        return Sizes(name, (size,) * used, mse, met)


def _cut(rows: float, cap: float) -> list[float]:
    """Full batches and a rest, if there is any."""
    full = int(rows / cap + 1e-9)
    rest = rows - full * cap
    return [cap] * full + [rest] * (rest > DUST * cap)


def _places(last: int) -> list[int]:
    """Positions from 0 to `last` at which something is tried: in a long schedule only the end."""
    number = min(last + 1, PLACES, max(AFFORDABLE // max(last, 1), 1))
    return sorted(set(np.linspace(last, 0, number).astype(int).tolist()))


def _fewest_rows(lam: Array, price: Array, cap: float) -> tuple[Array, NDArray[np.int64], Array]:
    """W at each precision, the precision before its last batch, and that batch's size."""
    number, end = len(lam), 1
    rows = np.full(number, np.inf)
    rows[0] = 0.0
    before, size = np.zeros(number, dtype=np.int64), np.zeros(number)
    for i in range(number - 1):
        if not np.isfinite(rows[i]):
            continue
        # What a batch from here costs to each later precision: it must pass all in between. From
        # the next precision it reaches no less far.
        while True:
            end = min(max(end, i + 2), number)
            cost = PEAK * np.maximum.accumulate((lam[i + 1 : end] - lam[i]) * price[i + 1 : end])
            if cost[-1] > cap or end == number:
                break
            end = i + 1 + 2 * (end - i)
        here = slice(i + 1, i + 1 + int(np.searchsorted(cost, cap, side="right")))
        total = rows[i] + cost[: here.stop - here.start]
        better = total < rows[here]
        rows[here] = np.where(better, total, rows[here])
        before[here] = np.where(better, i, before[here])
        size[here] = np.where(better, cost[: len(total)], size[here])
        end = max(here.stop, i + 2)
    return rows, before, size


def shortened(sizes: Sequence[float]) -> list[str]:
    """Sizes as text, with repeats counted.

    Examples
    --------
    >>> shortened([0.5, 0.05, 0.05, 0.05])
    ['0.5', '3 x 0.05']
    """
    found: list[list[float]] = []
    for size in sizes:
        if found and np.isclose(found[-1][0], size, rtol=1e-6):
            found[-1][1] += 1
        else:
            found.append([size, 1])
    return [f"{size:.5g}" if n == 1 else f"{n:g} x {size:.5g}" for size, n in found]
