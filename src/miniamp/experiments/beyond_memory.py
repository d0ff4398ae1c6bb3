"""Beyond the paper: what remembered rows buy on correlated designs."""

from __future__ import annotations

import warnings

import numpy as np

from miniamp import channels, priors
from miniamp.absorb import Stop, absorb
from miniamp.arrays import Array
from miniamp.datasets import Problem, ensembles, glm_stream
from miniamp.evidence import Batch, RobustBatch
from miniamp.experiments import look
from miniamp.experiments.figure import Figure, Scale, Tables, Task, every
from miniamp.experiments.streaming import MINI_AMP, absorbed
from miniamp.experiments.tables import Claim, Row, Table, beyond, medians
from miniamp.posterior import Posterior

PRIOR, CHANNEL = priors.GaussBernoulli(rho=0.2), channels.Gaussian(var=1e-2)
ALPHA_B, BATCHES = 0.25, 12
#: Remembered rows over coefficients.
SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)
#: Designs and their titles.
DESIGNS: dict[str, tuple[ensembles.Ensemble, str]] = {
    "correlated": (ensembles.Correlated(0.9), "correlated, 0.9 to the next column"),
    "low_rank": (ensembles.LowRank(factors=5, share=0.9), "5 factors, 90 % of the variance"),
    "ill_conditioned": (ensembles.IllConditioned(100.0), "condition number 100"),
}
DIAL, OFFLINE, LASSO = "memory", "offline", "LassoCV"
#: What the stream is compared with, and how that is drawn: colour, dash and words.
OTHERS = {
    MINI_AMP: (1, ":", "Mini-AMP"),
    OFFLINE: (2, "--", "all rows at once"),
    LASSO: (3, "-.", "LassoCV, all rows"),
}
STOP = Stop(max_iter=300, tol=1e-7)
#: Half-width of a 90 % interval, in standard deviations.
NINETY = 1.6448536269514722
#: A coefficient counts as found when its mean is so many standard deviations from zero.
FOUND = 3.0


def tasks(scale: Scale) -> list[Task]:
    """One task per design and seed."""
    size = scale.choose(400, 120)
    return every("design", compared, seed=scale.realisations(10, 3), design=DESIGNS, size=size)


def compared(design: str, seed: int, size: int) -> list[Row]:
    """Errors and coverage at the end of one stream, for every memory, and of two other methods."""
    ensemble, _ = DESIGNS[design]
    problem = glm_stream(
        PRIOR, CHANNEL, size, ALPHA_B, BATCHES, rng=seed, design=ensemble, stratified=True
    )
    rows = []
    for share in SHARES:
        belief = Posterior(PRIOR, size, memory=round(share * size))
        for Phi, y in problem:
            belief, _ = absorb(belief, RobustBatch(Phi, y, CHANNEL), STOP)
        rows.append(_row(DIAL, problem, belief, seed, share))
    belief = Posterior(PRIOR, size)
    for Phi, y in problem:
        belief, _ = absorbed(belief, Batch(Phi, y, CHANNEL), STOP)
    rows.append(_row(MINI_AMP, problem, belief, seed))
    Phi, y = (np.concatenate(parts) for parts in zip(*problem, strict=True))
    belief, _ = absorb(Posterior(PRIOR, size, memory=size), RobustBatch(Phi, y, CHANNEL), STOP)
    rows.append(_row(OFFLINE, problem, belief, seed))
    rows.append({"kind": LASSO, "seed": seed, "mse": problem.mse(_lasso(Phi, y, seed))})
    return rows


def _row(kind: str, problem: Problem, belief: Posterior, seed: int, share: float = np.nan) -> Row:
    std = np.sqrt(belief.var)
    inside = np.abs(belief.mean - problem.truth) <= NINETY * std
    # Chosen by the belief, not by the truth, so that a calibrated belief covers as often as
    # it claims; those that are surely zero would be covered by any interval.
    found = np.abs(belief.mean) > FOUND * std
    return {
        "kind": kind,
        "share": share,
        "seed": seed,
        "mse": problem.mse(belief.mean),
        "coverage": float(np.mean(inside[found])) if found.any() else np.nan,
        "found": int(found.sum()),
    }


def _lasso(Phi: Array, y: Array, seed: int) -> Array:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LassoCV(cv=5, fit_intercept=False, random_state=seed).fit(Phi, y)
    return np.asarray(model.coef_, dtype=float)


def draw(tables: Tables) -> look.Canvas:
    """Errors above, coverage below, one column per design."""
    made = look.canvas(10.0, 5.6)
    axes = made.subplots(2, len(DESIGNS), sharex=True, sharey="row", height_ratios=[1.4, 1.0])
    designs = zip(axes.T, DESIGNS.items(), "abc", strict=True)
    for (top, low), (name, (_, title)), mark in designs:
        _draw_design(top, low, tables[name])
        look.letter(top, mark, title)
        low.set_xlabel(r"remembered rows / coefficients, $r/N$")
    axes[0, 0].set_ylabel("mean squared error")
    axes[1, 0].set_ylabel("coverage of 90 % intervals\nof what was found")
    look.below(made, 5, axes[0, 0])
    return made


def _draw_design(top: look.Axes, low: look.Axes, table: Table) -> None:
    # r = 0 has no place on a logarithmic axis: its tick is labelled.
    dial, style = table.where(kind=DIAL), look.style(0)
    places = np.arange(len(SHARES), dtype=float)
    for ax, value in ((top, "mse"), (low, "coverage")):
        _, *quartiles = medians(dial, "share", value)
        ax.plot(places, quartiles[0], color=style.colour, zorder=2)
        look.bars(ax, places, quartiles, style, zorder=3)
        for kind, (i, dash, _) in OTHERS.items():
            level, colour = table.where(kind=kind)[value], look.style(i).colour
            if not np.isnan(level).all():
                ax.axhline(float(np.median(level)), color=colour, ls=dash, lw=1.5, zorder=1)
        ax.set_xticks(places, [f"{share:g}" for share in SHARES])
    top.set_yscale("log")
    low.axhline(0.9, color="black", lw=0.8)
    low.set_ylim(0.0, 1.02)
    top.plot([], [], color=style.colour, marker=style.marker, label="stream that remembers r rows")
    for i, dash, words in OTHERS.values():
        top.plot([], [], color=look.style(i).colour, ls=dash, label=words)
    top.plot([], [], color="black", lw=0.8, label="90 %")


def judge(tables: Tables, scale: Scale) -> list[Claim]:
    """Full memory is offline inference, and some memory beats none."""
    found = []
    for name, (_, title) in DESIGNS.items():
        dial, offline = (tables[name].where(kind=kind) for kind in (DIAL, OFFLINE))
        share, mse, _, _ = medians(dial, "share", "mse")
        _, coverage, _, _ = medians(dial, "share", "coverage")
        once, exact = (float(np.median(offline[value])) for value in ("mse", "coverage"))
        lasso = float(np.median(tables[name].where(kind=LASSO)["mse"]))
        errors = ", ".join(f"{e:.2g} (r = {s:g} N)" for s, e in zip(share, mse, strict=True))
        against = f"{mse[-1]:.3g} against {once:.3g}; LassoCV {lasso:.3g}"
        covers = f"{coverage[-1]:.2f}, offline {exact:.2f}; without memory {coverage[0]:.2f}"
        same = abs(mse[-1] / once - 1.0) < scale.choose(0.1, 0.3)
        calibrated = abs(coverage[-1] - 0.9) < scale.choose(0.06, 0.2)
        calibrated &= abs(coverage[-1] - exact) < 0.05 and coverage[-1] > coverage[0]
        found += [
            beyond("a", f"{title}: error against memory", errors, mse[-1] < mse[0]),
            beyond("a", f"{title}: memory N is offline inference", against, same),
            beyond("a", f"{title}: coverage of 90 % intervals with memory N", covers, calibrated),
        ]
    return found


FIGURE = Figure("Memory on correlated designs", tasks, draw, judge)
