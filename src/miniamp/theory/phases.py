"""Phases: where exact inference beats Mini-AMP, and at which batch size it stops doing so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq

from miniamp import checks
from miniamp.absorb import Stop, absorb, stream
from miniamp.arrays import Array, Given
from miniamp.channels import Channel
from miniamp.theory.balance import Balance, Extremum
from miniamp.theory.curves import text_table
from miniamp.theory.law import AnyLaw, ConvergedBatch, OptimalBatch, TypicalEvidence
from miniamp.theory.limits import learning_curve, starting_law
from miniamp.theory.spectrum import Spectrum

Status = Literal["optimal", "hard"]
#: Errors that differ by less than this, relatively, are the same.
SAME = 1e-6
#: How a search for a threshold walks down from the one of the batch before.
DESCENT = 0.97
#: A second branch must begin this share below weak recovery to count: less is rounding.
VISIBLE = 1e-9


@dataclass(frozen=True)
class Transitions:
    """The values of alpha at which fixed points appear, vanish or change places.

    None where there is no such value.
    """

    #: Above it AMP finds the good fixed point. For low-rank models, where AMP needs `weak_recovery`
    #: for that, the same as `lower_spinodal`.
    spinodal: float | None
    information: float | None  #: above it exact inference finds the good fixed point
    #: Below it the good fixed point does not exist; 0 where it exists for every alpha.
    lower_spinodal: float | None
    #: Where knowing nothing is a fixed point (labels without names, signs that rows do not show):
    #: above it AMP leaves that point.
    weak_recovery: float | None = None

    @property
    def first_order(self) -> bool:
        """Whether there is a hard phase, in which exact inference beats AMP."""
        if self.weak_recovery is None or self.information is None:
            return self.spinodal is not None
        return self.information < self.weak_recovery * (1.0 - VISIBLE)


def transitions(
    prior: Given, channel: Channel, lam: Given = 0.0, design: Spectrum | None = None
) -> Transitions:
    """The first-order transition in the size of a batch, after a precision `lam`.

    The spinodals are the extrema of alpha(lambda) (see `Balance`), the information-theoretic
    transition lies where the two minima of the mutual information are equally deep. With a
    `design`, alpha counts rows in independent blocks of that spectrum: a single block has what
    exact inference or AMP needs if its own alpha is above the transition.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> found = theory.transitions(priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8))
    >>> round(found.spinodal, 9), round(found.information, 9), round(found.lower_spinodal, 9)
    (0.480209627, 0.369971222, 0.311069858)
    >>> theory.transitions(priors.Gaussian(), channels.Gaussian(var=0.1))
    Transitions(spinodal=None, information=None, lower_spinodal=None, weak_recovery=None)
    """
    return turning(Balance(prior, channel, checks.number("lam", lam, least=0.0), design))


def turning(balance: Balance) -> Transitions:
    """The transitions of a balance, from where its curve turns."""
    turn, weak = _deepest(balance), balance.weak_recovery
    if turn is None:
        return Transitions(None, None, None, weak)
    top, bottom = turn
    if bottom is None:
        lower = float(np.exp(balance.log_limit))
        if balance.output.noiseless:
            # Any error at all costs infinitely much information: the good point wins at once.
            return Transitions(top.alpha, lower, lower, weak)
    else:
        lower = bottom.alpha
    blank = top.s == -np.inf

    def difference(alpha: float) -> float:
        target = float(np.log(alpha))
        left = top.s if blank else _branch(balance, top, target, -1)
        right = None if bottom is None else _branch(balance, bottom, target, 1)
        both = (balance.point(alpha, s).mutual_information for s in (left, right))
        return next(both) - next(both)

    low, high = lower * (1.0 + 1e-12) + 1e-9 * top.alpha, top.alpha * (1.0 - 1e-12)
    information = None
    if difference(low) < 0.0 < difference(high):
        information = float(brentq(difference, low, high, xtol=1e-15, rtol=1e-14))
    return Transitions(lower if blank else top.alpha, information, lower, weak)


def _deepest(balance: Balance) -> tuple[Extremum, Extremum | None] | None:
    """The maximum that is followed by the deepest fall, and where that ends; None at infinity.

    Where knowing nothing is a fixed point the curve begins there, at weak recovery.
    """
    best: tuple[Extremum, Extremum | None] | None = None
    depth = VISIBLE
    turns, weak = balance.extrema, balance.weak_recovery
    if weak is not None:
        turns = [Extremum(-np.inf, weak, highest=True), *turns]
    for turn, after in pairwise([*turns, None]):
        if turn is None or not turn.highest:
            continue
        end = np.log(after.alpha) if after is not None else balance.log_limit
        if np.log(turn.alpha) - end > depth:
            best, depth = (turn, after), float(np.log(turn.alpha) - end)
    return best


def _branch(balance: Balance, turn: Extremum, target: float, side: int) -> float:
    """Where the branch on this side (-1 or 1) of an extremum passes through `target`."""
    ends = [t.s for t in balance.extrema if side * (t.s - turn.s) > 0 and t.highest != turn.highest]
    end = min(ends, key=lambda s: abs(s - turn.s), default=(balance.begin, balance.end)[side > 0])
    while (float(balance.log_alpha(end)) - target) * side < 0.0:
        end += 5.0 * side
    return balance.root(min(end, turn.s), max(end, turn.s), target)


class BatchThresholds(NamedTuple):
    """Batch sizes between which batch k ends in the wrong minimum: T_k < alpha_b < S_k (errata C2).

    nan where batch k has no such range.
    """

    information: Array  #: T_1, T_2, ...
    spinodal: Array  #: S_1, S_2, ...


def batch_thresholds(
    prior: Given, channel: Channel, batches: int, design: Spectrum | None = None
) -> BatchThresholds:
    """T_k and S_k for k = 1 to `batches`: the transitions of batch k in a stream of equal batches.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> found = theory.batch_thresholds(priors.GaussBernoulli(rho=0.3), channels.Gaussian(1e-8), 2)
    >>> found.information.round(6), found.spinodal.round(6)
    (array([0.369971, 0.356144]), array([0.48021 , 0.420741]))
    """
    first, lists = transitions(prior, channel, design=design), []
    for kind in ("information", "spinodal"):
        start = getattr(first, kind)
        values = [np.nan if start is None else start]
        for k in range(2, checks.count("batches", batches) + 1):
            values.append(_threshold(prior, channel, k, kind, values[-1], design))
        lists.append(np.array(values))
    return BatchThresholds(*lists)


def _threshold(
    prior: Given, channel: Channel, k: int, kind: str, above: float, design: Spectrum | None
) -> float:
    """The alpha_b at which batch k sits at its own transition; `above` is that of batch k - 1."""
    if not above > 0.0:
        return np.nan

    def difference(alpha: float) -> float:
        before = learning_curve(prior, channel, alpha, batches=k - 1, design=design)
        found = getattr(transitions(prior, channel, float(before.lam[-1]), design), kind)
        # Past the end of bistability there is nothing to wait for: count as above.
        return -alpha if found is None else float(found) - alpha

    high = above * (1.0 - 1e-12)
    if difference(high) > 0.0:
        return above  # without noise T_k is the dimension of the signal at every batch
    low = high
    while difference(low) <= 0.0:
        high, low = low, low * DESCENT
        if low < 1e-3 * above:
            return np.nan
    root = float(brentq(difference, low, high, xtol=1e-15, rtol=1e-13))
    return root if abs(difference(root)) < 1e-6 * root else np.nan


class BatchVerdict(NamedTuple):
    """What becomes of one batch.

    `status` compares the whole stream so far: "hard" where exact inference (Theorem 3, recursively)
    has a smaller error than Mini-AMP. `trapped` looks at this batch alone: from where Mini-AMP
    stood it ends in the wrong minimum, T_k < alpha_b < S_k. After it has escaped Mini-AMP stays
    behind by the batches it lost, which is hard but no longer trapped.
    """

    batch: int
    alpha: float
    status: Status
    mse: float
    mmse: float
    trapped: bool


@dataclass(frozen=True)
class Verdict:
    """The verdicts on a stream, batch after batch; iterates over `BatchVerdict`."""

    alpha_b: float  #: rows (columns) of a batch over coefficients (rows of U)
    batches: tuple[BatchVerdict, ...]
    #: Of the first batch. "easy": AMP does what exact inference does. "hard": exact inference does
    #: better. "impossible": one batch is of no use, to AMP or to exact inference.
    phase: str = "easy"
    #: Factor by which a small chance overlap grows per batch where knowing nothing is a fixed
    #: point; inf where AMP leaves it in the first batch.
    growth: float = np.inf
    #: Batches after which an overlap of 1/N reaches order 1: 1 when easy. It grows like log N:
    #: nothing for a fixed number of batches, but not never (errata L14).
    escape: float = 1.0

    def __iter__(self) -> Iterator[BatchVerdict]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, k: int) -> BatchVerdict:
        return self.batches[k]

    @property
    def status(self) -> list[Status]:
        """Either "optimal" or "hard", one per batch."""
        return [batch.status for batch in self.batches]

    @property
    def mse(self) -> Array:
        """Errors of Mini-AMP, one per batch."""
        return np.array([batch.mse for batch in self.batches])

    @property
    def mmse(self) -> Array:
        """Errors of exact inference on the same stream."""
        return np.array([batch.mmse for batch in self.batches])

    @property
    def optimal(self) -> bool:
        """Whether Mini-AMP is optimal at every batch."""
        return all(batch.status == "optimal" for batch in self.batches)

    def __str__(self) -> str:
        rows = [("batch", "alpha", "Mini-AMP", "MMSE", "verdict")]
        for b in self.batches:
            verdict = b.status + (" (trapped)" if b.trapped else "")
            rows.append((f"{b.batch}", f"{b.alpha:.3f}", f"{b.mse:.4e}", f"{b.mmse:.4e}", verdict))
        return text_table(rows, (False, False, False, False, True))


def verdict(
    prior: Given,
    channel: Channel,
    alpha_b: Given,
    batches: int,
    design: Spectrum | None = None,
    size: int = 1000,
) -> Verdict:
    """Whether Mini-AMP is optimal, batch by batch, and both errors.

    Parameters are those of `learning_curve`; `size` is the number N of coefficients, which decides
    how long a chance overlap takes to grow where rows do not show signs (`Verdict.escape`).

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> print(theory.verdict(priors.GaussBernoulli(rho=0.3), channels.Gaussian(1e-8), 0.35, 5))
    batch  alpha    Mini-AMP        MMSE  verdict
        1  0.350  1.4827e-01  1.4827e-01  optimal
        2  0.700  5.1529e-02  5.1529e-02  optimal
        3  1.050  1.2825e-02  6.3884e-08  hard (trapped)
        4  1.400  1.3867e-03  1.7065e-08  hard (trapped)
        5  1.750  6.3855e-08  8.1481e-09  hard
    """
    law = starting_law(prior)
    critical = Balance(law.prior, channel, design=design).weak_recovery
    amp, best = (kind(alpha_b, channel, design=design) for kind in (ConvergedBatch, OptimalBatch))
    return judged(law, amp, best, checks.count("batches", batches), critical, size)


def judged(
    law: AnyLaw,
    amp: TypicalEvidence,
    best: TypicalEvidence,
    number: int,
    critical: float | None,
    size: int,
    stop: Stop | None = None,
) -> Verdict:
    """The verdict on so many equal batches, by Mini-AMP (`amp`) and by exact inference (`best`).

    At most at `critical` AMP starts at a fixed point of no knowledge, and a chance overlap of
    1/size grows by 1/(1 - alpha_b/critical) per batch.
    """
    reached, optimal = (
        [new for new, _ in stream(law, [one] * number, stop)] for one in (amp, best)
    )
    alone = [absorb(before, best, stop)[0] for before in (law, *reached[:-1])]
    mse, mmse, one = (
        [float(new.figures(amp.floor)["mse"]) for new in laws] for laws in (reached, optimal, alone)
    )
    found = tuple(
        BatchVerdict(
            k + 1,
            (k + 1) * amp.alpha,
            "hard" if mmse[k] < mse[k] * (1.0 - SAME) else "optimal",
            mse[k],
            mmse[k],
            one[k] < mse[k] * (1.0 - SAME),
        )
        for k in range(number)
    )
    hard = found[0].trapped
    if critical is None or amp.alpha > critical:
        return Verdict(amp.alpha, found, "hard" if hard else "easy")
    ratio = amp.alpha / critical
    growth = 1.0 / (1.0 - ratio) if ratio < 1.0 else np.inf
    escape = float(1.0 + np.log(checks.count("size", size, least=2)) / np.log(growth))
    return Verdict(amp.alpha, found, "hard" if hard else "impossible", growth, escape)
