"""Figure 3: clustering a stream. A synthetic mixture with its theory, digits and newsgroups."""

from __future__ import annotations

import numpy as np

from miniamp import priors
from miniamp.experiments import clustering, look
from miniamp.experiments.figure import Figure, Scale, Tables, Task, every
from miniamp.experiments.streaming import MINI_AMP, THEORY
from miniamp.experiments.tables import Claim, Table, medians
from miniamp.theory import lowrank

TITLES = {
    "mnist": "MNIST 0, 1, 2",
    "newsgroups": "20 newsgroups, all words",
    "newsgroups-stop": "20 newsgroups, no stop words",
}
#: What the paper shows, and all it states: Mini-AMP is above mini-batch K-means in accuracy.
PAPERS = ("mnist", "newsgroups")
SCORES = ("accuracy", "nmi", "ari")
#: Newsgroups without stop words are not in the paper: fewer orders are enough to see who wins.
BESIDE, FEWER = "newsgroups-stop", 20
#: Relative deviation of the mean error in U from state evolution, for batches well above the
#: threshold: 1 % is what N = 1000 gives (errata, lessons), 100 instances or 5.
CLOSE, CLOSE_QUICK = 0.03, 0.10
WELL_ABOVE = (0.5, 1.0)
#: Batches well below the threshold, in which a small overlap is watched as it grows, and how close
#: its growth must be to the theory's: N = 1000 is 7 to 17 % above it (errata L14).
SLOW, GROWTH, GROWTH_QUICK = 0.1, 0.2, 0.4


def tasks(scale: Scale) -> list[Task]:
    """Theory, then instances of the mixture, then orders of the real data, where there are data."""
    size = scale.choose(1000, 400)
    below = tuple(a for a in clustering.SIZES if a < clustering.ALPHA_C)
    found = every("mixture", clustering.predicted, seed=0.0, alpha_b=clustering.SIZES)
    found += every("mixture", clustering.predicted, seed=clustering.SEED, alpha_b=below)
    seeds = scale.realisations(100, 4)
    found += every("mixture", clustering.simulated, seed=seeds, alpha_b=clustering.SIZES, size=size)
    found += every("growth", clustering.grown, seed=seeds, alpha_b=SLOW, size=size)
    sets = tuple(data for data in clustering.DATA if clustering.available(data))
    for seed in scale.realisations(100, 3):
        some = tuple(data for data in sets if data != BESIDE or seed < FEWER)
        found += every(
            "data", clustering.presented, data=some[:2] if scale.quick else some,
            method=clustering.METHODS, seed=seed, samples=scale.choose(None, 3000),
        )  # fmt: skip
    return found


def draw(tables: Tables) -> look.Canvas:
    """The mixture above, what there is of real data below."""
    real = [data for data in clustering.DATA if data in tables]
    made = look.canvas(10.0, 7.6 if real else 4.2)
    halves = made.subfigures(2 if real else 1, 1, squeeze=False, hspace=0.04)[:, 0]
    left, right = halves[0].subplots(1, 2)
    _draw_mixture(left, right, tables["mixture"])
    look.below(halves[0], 7, left)
    if real:
        axes = halves[1].subplots(1, len(real), squeeze=False)[0]
        for ax, data, mark in zip(axes, real, "cde", strict=False):
            _draw_real(ax, tables[data])
            look.letter(ax, mark, TITLES[data])
        axes[0].set_ylabel("cumulative accuracy")
        look.below(halves[1], 3, axes[0])
    return made


def _draw_mixture(left: look.Axes, right: look.Axes, table: Table) -> None:
    for i, a in enumerate(clustering.SIZES):
        style = look.style(i)
        line, seeded, runs = (
            table.where(kind=kind, alpha_b=a) for kind in (THEORY, clustering.SEEDED, MINI_AMP)
        )
        for ax, value in ((left, "mse"), (right, "loss")):
            look.followed(ax, line, runs, style, value, most=14)
            ax.plot(seeded["alpha"], seeded[value], color=style.colour, ls=":", zorder=2)
        label = rf"$\alpha_b = {a:g}$"
        left.plot([], [], color=style.colour, marker=style.marker, label=label, ms=5)
    left.plot([], [], color="0.4", label="state evolution")
    left.plot([], [], color="0.4", ls=":", label="the same, seeded")
    for ax, label in ((left, r"mean squared error of $U$"), (right, r"0-1 loss of $V$")):
        ax.set(xlabel=r"$\alpha$ = samples seen / features", ylabel=label)
        ax.set(ylim=(0.0, None), xlim=(0.0, clustering.ALPHA_MAX * 1.01))
    look.letter(left, "a", r"mixture, $R = 5$, $\Delta = 0.1$, $\alpha_c = 0.25$: centres")
    look.letter(right, "b", "labels of each batch")


def _draw_real(ax: look.Axes, table: Table) -> None:
    for i, method in enumerate(clustering.METHODS):
        style = look.style(i)
        for number, dash, alpha in ((1, "-", 0.55), (2, "--", 1.0)):
            runs = table.where(kind="cumulative", method=method, **{"pass": number})
            if not len(runs):
                continue
            x, _, low, high = medians(runs, "samples", "accuracy")
            mean = [float(np.mean(runs.where(samples=float(m))["accuracy"])) for m in x]
            ax.plot(
                x, mean, ls=dash, color=style.colour, alpha=alpha, marker=style.marker, ms=4,
                markevery=(3 * i, 9), lw=1.8 if number == 2 else 1.3,
                label=f"{method}, {'first' if number == 1 else 'second'} pass",
            )  # fmt: skip
            if number == 1:
                ax.fill_between(x, low, high, color=style.colour, alpha=0.12, lw=0.0)
    ax.set(xscale="log", xlabel="samples seen")


def judge(tables: Tables, scale: Scale) -> list[Claim]:
    """State evolution is followed above the threshold, and K-means is beaten."""
    table = tables["mixture"]
    found = [_follows(table, a, scale) for a in WELL_ABOVE]
    found += [_symmetric(table), _escapes(table, tables["growth"], scale)]
    for data in clustering.DATA:
        if data in tables:
            found += _against_kmeans(data, tables[data], scale)
        else:
            because = "not part of a quick run" if clustering.available(data) else "no data"
            paper = "Mini-AMP above" if data in PAPERS else "not in the paper"
            found.append(Claim("3 right", TITLES[data], paper, because, None))
    return found


def _follows(table: Table, a: float, scale: Scale) -> Claim:
    line = table.where(kind=THEORY, alpha_b=a)
    runs = table.where(kind=MINI_AMP, alpha_b=a)
    off = {}
    for value in ("mse", "loss"):
        k, median, _, _ = medians(runs, "batch", value)
        expected = line[value][k.astype(int) - 1]
        # Labels are compared as counts: a loss of a percent may be off by a percent of samples.
        scale_of = expected if value == "mse" else 1.0
        off[value] = float(np.mean(np.abs(median - expected) / scale_of))
    what = f"medians follow state evolution, alpha_b = {a:g}"
    ours = f"MSE within {off['mse']:.1%}, 0-1 loss within {off['loss']:.3f}"
    close = max(off.values()) < scale.choose(CLOSE, CLOSE_QUICK)
    return Claim("3 left", what, "symbols on lines", ours, close)


def _symmetric(table: Table) -> Claim:
    below = [a for a in clustering.SIZES if a < clustering.ALPHA_C]
    last = [table.where(kind=THEORY, alpha_b=a)["loss"][-1] for a in below]
    mse = table.where(kind=THEORY, alpha_b=below[0])["mse"][-1]
    return Claim(
        "3 left",
        "below alpha_c = 0.25, from the symmetric point",
        "error of the random estimator",
        f"0-1 loss {max(last):.3f}, MSE of U {mse:.3f}",
        bool(np.allclose(last, 1.0 - 1.0 / clustering.R, atol=1e-9)),
        corrected="0-1 loss 0.8; MSE falls to 0.8",
        note="the mean of all centres is learned at any batch size (errata L13)",
    )


def _escapes(table: Table, growth: Table, scale: Scale) -> Claim:
    """A finite problem leaves the symmetric point: a small overlap grows as predicted.

    When it has grown depends on what it starts from, which for AMP is the tolerance at which a
    batch is stopped; so the growth is compared, and the escape reported.
    """
    runs = table.where(kind=MINI_AMP, alpha_b=SLOW)
    k, loss, _, _ = medians(runs, "batch", "loss")
    there = k[loss < 0.4]
    ours = f"leaves at alpha = {SLOW * there[0]:.1f}" if len(there) else "not by alpha = 4"
    model = priors.GaussianRows(clustering.R), priors.OneHot(clustering.R), clustering.NOISE
    expected = lowrank.verdict(*model, SLOW).growth
    found = float(np.median(growth["growth"]))
    return Claim(
        "3 left",
        f"growth of a small overlap per batch, alpha_b = {SLOW:g}, finite N",
        "none",
        f"{found:.2f} (median), theory {expected:.2f}; {ours}",
        abs(found / expected - 1.0) < (GROWTH_QUICK if scale.quick else GROWTH),
        corrected=f"{expected:.2f} = 1/(1 - alpha_b/alpha_c)",
        note="1.72 at N = 4000, 1.78 to 1.95 at N = 1000 (errata L14)",
    )


def _against_kmeans(data: str, table: Table, scale: Scale) -> list[Claim]:
    return [
        _contest(data, other, number, table.where(kind="final", **{"pass": number}), scale)
        for other in (clustering.KMEANS, clustering.KMEANS_PP)
        for number in (1, 2)
    ]


def _contest(data: str, other: str, number: int, final: Table, scale: Scale) -> Claim:
    """Mini-AMP against another, on the same orders of presentation."""
    amp, means = final.where(method=MINI_AMP), final.where(method=other)
    papers = other == clustering.KMEANS and data in PAPERS
    aside = "" if papers else "not claimed"
    if papers and scale.quick:
        aside = "too few orders"
    ahead = {score: float(amp[score].mean() - means[score].mean()) for score in SCORES}
    text = ", ".join(
        f"{score} {amp[score].mean():.3f} against {means[score].mean():.3f}" for score in SCORES
    )
    # Both tables come seed by seed: the same order of presentation stands in the same row.
    orders = int(np.sum(amp["accuracy"] > means["accuracy"]))
    behind = [score for score, by in ahead.items() if by <= 0.0]
    note = f"more accurate in {orders} of {len(amp)} orders"
    if behind:
        note += f"; below in {', '.join(behind)}"
    return Claim(
        "3 right",
        f"{TITLES[data]}, {'first' if number == 1 else 'second'} pass, against {other}",
        "Mini-AMP above" if papers else "not in the paper",
        text,
        ahead["accuracy"] > 0.0,
        corrected=".896 against .876 (reference)" * (data == "mnist" and papers and number == 2),
        note=note,
        aside=aside,
    )


FIGURE = Figure("Clustering a stream", tasks, draw, judge)
