"""Health of a stream: problems found in the history of a model, and remedies.

Health is a function of the history alone, which has the scores of each batch before it was learned
from, and the errors that theory predicts for independent features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

import numpy as np

from miniamp.errors import MiniampWarning, typed
from miniamp.estimators.history import Entry, History, column, pooled, worded
from miniamp.info import PLAIN, Naming

#: Findings are based on at least so many of the latest batches, and rows.
BATCHES, ROWS = 5, 200
#: Number of rows to learn from before predictions are examined.
LEARNED_ROWS = 64
#: Limits of squared residuals (Brier scores) over their expectation, and the number of standard
#: deviations by which they must exceed 1.
TOO_LARGE, TOO_SMALL, SIGMAS = 1.5, 0.5, 5.0
#: The upper limit for a model that learns its noise, or has none to learn. With few rows per
#: feature its hyper-parameters are uncertain, which predictive variances do not include: sound
#: streams reach 1.6.
OVERCONFIDENT = 2.0
#: Factor by which the error grows when the stream changes; also SIGMAS beyond chance.
GROWN = 1.5
#: Limit of the error over that of theory, in every batch of the window.
BEHIND_THEORY = 3.0
#: Number of outliers, and their share of the rows, that Gaussian noise does not have.
MANY_OUTLIERS, OUTLIER_SHARE = 3, 0.003
#: Largest share of outliers in one batch: with more, the stream has changed.
MOST_OUTLIERS = 0.05
#: Limit of squared residuals over their expectation: where all batches of the window exceed it, AMP
#: does not suit the rows.
STRAINED = 2.0
#: Limits for all predictions, of at least so many rows: R2, and the coverage of 90 % intervals less
#: so many standard deviations. On targets of pure chance (60 to 1000 rows) the least R2 was -0.35,
#: and coverage 3.2 deviations below; on a trend R2 was -53.
SCORED_ROWS, WORSE, WITHIN, MISSED = 40, -0.4, 0.88, 3.2
#: A prior variance below this part of the largest of so many batches has collapsed. On diabetes,
#: breast cancer, iris and wine (three orders, batches of 5, 20 and 50 rows) it fell to no less than
#: 0.038 of the largest before.
COLLAPSED, COLLAPSE_WINDOW = 1e-5, 200


class HealthWarning(MiniampWarning):
    """The model does not describe the stream; the message names the problem and a remedy."""


@dataclass(frozen=True)
class Finding:
    """A problem of a model; settings in braces in its texts are written as in errors.

    Attributes
    ----------
    kind : str
        "noise", "drift", "design", "order", "conflict", "collapse", "unconverged",
        "overconfidence", "useless" or "theory".
    message : str
        Description of the problem.
    remedy : str
        Advice.
    """

    kind: str
    seen: str
    action: str

    @property
    def message(self) -> str:
        return typed(self.seen, "python")

    @property
    def remedy(self) -> str:
        return typed(self.action, "python")

    def as_typed(self, where: str) -> str:
        """Message and remedy, with settings as typed in "python" or in a "shell"."""
        return typed(f"{self.seen} {self.action}", where)

    def __str__(self) -> str:
        return self.as_typed("python")


@dataclass(frozen=True)
class HealthReport:
    """Problems of a model; empty if there are none.

    Attributes
    ----------
    findings : tuple of Finding
        Problems in the latest batches.
    past : tuple of (int, str)
        Kinds of all findings so far, each with the batch where it was first found.

    Examples
    --------
    >>> report = diagnose(History())
    >>> report.well, str(report)
    (True, 'no problems found')
    """

    findings: tuple[Finding, ...] = ()
    past: tuple[tuple[int, str], ...] = ()

    @property
    def well(self) -> bool:
        """Whether no problem was found."""
        return not self.findings

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "no problems found"


def diagnose(
    history: History,
    expected: Callable[[int], float] | None = None,
    r2: float | None = None,
    names: Naming = PLAIN,
) -> HealthReport:
    """Health report of a model from the history of its stream.

    `expected` is a function with the squared error by theory after so many rows like those of the
    stream. It is called if errors are large and there are no other findings. `r2` is that of all
    predictions.
    """
    past: list[tuple[int, str]] = []
    for entry in history:
        known = {kind for _, kind in past}
        past += [(entry["batch"], kind) for kind in entry.get("found", ()) if kind not in known]
    found = findings(history, names) or list(_overall(history, r2))
    if expected is not None and not found:
        found = list(_behind_spectrum(_window(history), expected))
    return HealthReport(tuple(found), tuple(past))


def _behind_spectrum(recent: list[Entry], expected: Callable[[int], float]) -> Iterator[Finding]:
    """Predictions much worse than theory expects of rows with these singular values."""
    error = column(recent, "error")
    if not recent or not (error > BEHIND_THEORY * column(recent, "noise_var")).all():
        return
    behind = float(np.median(error)) / expected(recent[0]["rows_seen"] - recent[0]["rows"])
    if behind > BEHIND_THEORY:
        yield Finding(
            "theory",
            f"The prediction error is {behind:.2g} times what theory expects for rows with these "
            "singular values.",
            "The prior may not fit the coefficients: try {prior=auto}.",
        )


def findings(history: History, names: Naming = PLAIN) -> list[Finding]:
    """Problems in the latest batches."""
    if not history:
        return []
    conflicts = _conflicts(history, names)
    return [*_findings(history), *conflicts, *_collapse(history), *_unconverged(history)]


def _findings(history: History) -> list[Finding]:
    last = history[-1]
    if "sampled" in last:
        return [blocks(last["sampled"], last["rows"])]
    # A stream that learns how much to forget follows changes by itself.
    follows = last.get("forget_learned", False)
    if _forgotten(last):
        message = last["conflicts"][0]["message"]
        changed = _changed(f"A batch contradicts what was learned before: {message}.")
        return [] if follows else [changed]
    recent = _window(history)
    if not recent:
        return [*_design(history)]
    drift = _drift(recent, _window(history, before=len(recent)))
    if drift:
        return [] if follows else drift
    # After a change of the stream the error bars are wrong for a while.
    if any("drift" in entry.get("found", ()) for entry in islice(reversed(history), 3 * BATCHES)):
        return []
    noise = _error_bars(recent) or _outliers(recent)
    # It comes first: a wrong noise also raises residuals of AMP, and errors above the theory's.
    return noise or [*_design(history), *_theory(recent, history)]


def blocks(used: int, rows: int) -> Finding:
    """The finding that the first rows come in blocks of one class."""
    sample = f"the model is fitted to a sample of {used} of the {rows} rows so far"
    seen = f"The rows come in blocks of one class: {sample}."
    return Finding("order", seen, "Shuffle the rows.")


def _conflicts(history: History, names: Naming) -> Iterator[Finding]:
    found = history[-1].get("conflicts")
    if found and not _forgotten(history[-1]):
        shown = "; ".join(worded(one, history[-1], names) for one in found[:2])  # batch, row
        more = f" (and {len(found) - 2} more)" if len(found) > 2 else ""
        entry = "used" in found[0]  # of X: noise and past do not matter
        learned = entry or history[-1].get("noise_learned", True)
        given = "" if learned else " The noise may be larger than the one given: try {noise=learn}."
        changed = "" if entry else _if_it_changes(history[-1])
        skips = " {on_conflict=skip} leaves such batches out." * (found[0]["kind"] != "skipped")
        yield Finding(
            "conflict",
            f"{'An entry of X' if entry else 'A batch'} contradicts what was learned before: "
            f"{shown}{more}.",
            f"Check these rows.{given}{changed}{skips}",
        )


def _if_it_changes(entry: Entry) -> str:
    """The advice to forget, unless that is learned already."""
    return "" if entry.get("forget_learned") else " If the stream has changed, use {forget=auto}."


def _collapse(history: History) -> Iterator[Finding]:
    """A prior variance that has fallen to zero, so that the model ignores all features."""
    if not history[-1].get("prior_learned"):
        return
    step = COLLAPSE_WINDOW // 20  # every tenth batch, and the latest
    some = cast("list[dict[str, float]]", history[: -COLLAPSE_WINDOW - 1 : -step])
    widths = [entry.get("prior_var", np.nan) for entry in some]
    if widths[0] < COLLAPSED * max(widths):
        yield Finding(
            "collapse",
            f"The prior variance of the coefficients has fallen to {widths[0]:.2g}, from "
            f"{max(widths):.2g}: the model ignores the features.",
            "If they carry information, use larger batches, or give a prior object.",
        )


def _unconverged(history: History) -> Iterator[Finding]:
    """Iterations that ended before convergence, in the latest batch and most of those before."""
    last = history[-BATCHES:]
    cut = [entry for entry in last if not entry["converged"] and "conflicts" not in entry]
    if len(last) == BATCHES and len(cut) > BATCHES // 2 and cut[-1] is last[-1]:
        yield Finding(
            "unconverged",
            f"{len(cut)} of the last {BATCHES} batches did not converge: the latest ended after "
            f"{last[-1]['iterations']} iterations.",
            "Allow more (max_iter=), use larger batches, or {solver=robust}.",
        )


def _window(history: Sequence[Entry], before: int = 0) -> list[Entry]:
    """The latest batches, before the `before` last ones, that a trained model has predicted."""
    window: list[Entry] = []
    rows = 0
    for entry in islice(reversed(history), before, None):
        learned = entry["rows_seen"] - entry["rows"]
        if entry.get("surprise") is None or learned < max(LEARNED_ROWS, entry["features"] // 2):
            break
        window.append(entry)
        rows += entry["rows"]
        if len(window) >= BATCHES and rows >= ROWS:
            return window[::-1]
    return []


def _error_bars(recent: list[Entry]) -> list[Finding]:
    surprise, std = pooled(recent, "surprise")
    last = recent[-1]
    numbers = last["task"] == "regression"
    given = numbers and not last["noise_learned"]
    limit = max(TOO_LARGE if given else OVERCONFIDENT, 1.0 + SIGMAS * std)
    large = surprise > limit and all(e["surprise"] > 1.0 for e in recent)
    small = given and surprise < min(TOO_SMALL, 1.0 - SIGMAS * std)
    if not (large or small):
        return []
    if given:
        assumed, about = "the channel assumes", ""
        if "noise_var" in last:
            off = pooled(recent, "error")[0] - float(np.mean(column(recent, "expected_error")))
            about = f", or about {max(last['noise_var'] + off, 0.0):.2g}"
            assumed = f"{{noise={last['noise_var']:.3g}}}"
        return [
            Finding(
                "noise",
                f"The noise is {'larger' if large else 'smaller'} than {assumed}: "
                f"squared residuals are {surprise:.2g} times the predicted ones.",
                f"Use {{noise=learn}}{about}" + ("." if large else ": more can be learned."),
            )
        ]
    what = "squared residuals are" if numbers else "the Brier score is"
    more = " Else try more {memory}, {solver=robust} or larger batches."
    more = "" if last["solver"] == "exact" else more  # it keeps all correlations
    finding = Finding(
        "overconfidence",
        f"The model is overconfident: {what} {surprise:.2g} times what it predicted.",
        f"If rows are repeated, drop the copies.{more}{_if_it_changes(last)}",
    )
    return [finding]


def _overall(history: History, r2: float | None) -> Iterator[Finding]:
    """Predictions worse than the mean of the target, over all rows, also of short streams."""
    scored = [entry for entry in history if entry.get("coverage") is not None]
    rows = sum(entry["rows"] for entry in scored)
    if rows < SCORED_ROWS or r2 is None:
        return
    within = float(np.average(column(scored, "coverage"), weights=column(scored, "rows")))
    missed = within < WITHIN - MISSED * math.sqrt(0.09 / rows)
    seen = [f"worse than the mean of the target (R2 {r2:.2g})"] if r2 < WORSE else []
    seen += [f"overconfident: 90 % intervals contain {within:.0%} of the targets"] if missed else []
    if seen:
        yield Finding(
            "useless",
            f"Predictions of unseen rows are {' and '.join(seen)}.",
            "If the rows are sorted, shuffle them. Leave out features that keep growing."
            + _if_it_changes(history[-1]),
        )


def _outliers(recent: list[Entry]) -> list[Finding]:
    """Rare errors far beyond the others: noise with heavier tails than a Gaussian."""
    scored = [(e.get("outliers", 0), e.get("scored", e["rows"])) for e in recent]
    count, rows = (sum(each) for each in zip(*scored, strict=True))
    sudden = any(n > MOST_OUTLIERS * max(among, 100) for n, among in scored)
    if sudden or count < MANY_OUTLIERS or count < OUTLIER_SHARE * rows:
        return []
    return [
        Finding(
            "noise",
            f"The noise has outliers: {count} of the last {rows} rows are off by more than 4.5 "
            "standard deviations.",
            "Use {noise=channels.StudentT(...)|student-t:df=4}, which allows them, or clean the "
            "data.",
        )
    ]


def _drift(recent: list[Entry], before: list[Entry]) -> list[Finding]:
    if not before:
        return []
    now, now_std = pooled(recent, "error")
    then, then_std = pooled(before, "error")
    if not (now > GROWN * then and now - then > SIGMAS * math.hypot(now_std, then_std)):
        return []
    surprise, surprise_std = pooled(recent[-BATCHES:], "surprise")
    if not surprise > 1.0 + SIGMAS * surprise_std:
        return []
    return [_changed(f"The stream has changed: its prediction error was {then:.3g}, is {now:.3g}.")]


def _forgotten(entry: Entry) -> bool:
    """Whether earlier data was forgotten because of this batch."""
    return any(done["kind"] == "forgotten" for done in entry.get("conflicts", ()))


def _changed(seen: str) -> Finding:
    remedy = "Forget old rows with {forget=auto}, or start over with a new estimator."
    return Finding("drift", seen, remedy)


def _design(history: Sequence[Entry]) -> Iterator[Finding]:
    last = history[-BATCHES:]
    strained = _strained(last[-1]) and len(last) == BATCHES and all(map(_strained, last))
    # With solver="auto" a batch that does not suit AMP goes to the robust solver by itself.
    remedy = last[-1]["remedy"] if last[-1]["solver_asked"] == "amp" else ""
    if remedy or strained:
        why = f"squared residuals are {last[-1]['health']:.2g} times their expected value"
        why = f"a batch had to be solved again with {remedy}" if remedy else why
        yield Finding(
            "design",
            f"AMP does not suit these rows: {why}, as happens with correlated features.",
            "Use {solver=auto} or {solver=robust}, with {memory=auto}.",
        )


def _strained(entry: Entry) -> bool:
    """Whether the ratio of squared residuals to their expectation is far from 1 in a batch of AMP.

    Labels that are nearly certain make it small, and so do rows of a fractional weight.
    """
    low = 1.0 / STRAINED if entry.get("task") == "regression" else 0.0
    sound = low < entry["health"] < STRAINED
    return entry["solver"] == "amp" and not entry.get("weighted") and not sound


def _theory(recent: list[Entry], history: History) -> Iterator[Finding]:
    """Errors larger than those of theory, for independent features: no others have an entry."""
    # The error by theory is at least the noise: for most streams it is not computed.
    if not all(e["error"] > BEHIND_THEORY * e.get("noise_var", np.nan) for e in recent):
        return
    history.with_theory(informed=False)
    behind = column(recent, "error") / column(recent, "theory_error")
    if behind.min() > BEHIND_THEORY:
        yield Finding(
            "theory",
            f"The prediction error is {np.median(behind):.2g} times what theory expects for "
            "independent features.",
            "Allow more iterations per batch (max_iter=), or try another prior; if features may be "
            "less independent than they look, {solver=robust} with {memory=auto}.",
        )
