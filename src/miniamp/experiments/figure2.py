"""Figure 2: why Mini-AMP jumps. The landscape batch after batch, and where it is optimal."""

from __future__ import annotations

import numpy as np

from miniamp import channels, priors, theory
from miniamp.arrays import Array
from miniamp.experiments import look
from miniamp.experiments.figure import Figure, Scale, Tables, Task, every
from miniamp.experiments.tables import Claim, Row, Table, rows_of

PRIOR, CHANNEL = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8)
ALPHA_B, SHOWN = 0.35, range(1, 6)
STEP = 0.15
BATCHES, THRESHOLDS = 10, 6

DOTS = (0, (1.2, 0.8))

#: Errata C2, from the sixth batch to the first.
T = (0.315445, 0.323439, 0.332952, 0.343865, 0.356144, 0.369971)
S = (0.318872, 0.333799, 0.354218, 0.381931, 0.420741, 0.480210)


def tasks(scale: Scale) -> list[Task]:
    """One task per batch of the landscape, per strip of the diagram, and one for its edges."""
    sizes = np.round(np.linspace(0.25, 0.5, scale.choose(126, 26)), 6)
    return [
        *every("left", landscape, batch=SHOWN, points=scale.choose(600, 200)),
        Task("edges", edges),
        *(Task("right", strip, {"sizes": part.tolist()}) for part in np.array_split(sizes, 6)),
    ]


def landscape(batch: int, points: int) -> list[Row]:
    """i_RS^b(E) while the batch is processed, and its stationary points."""
    curve = theory.learning_curve(PRIOR, CHANNEL, ALPHA_B, batches=batch)
    before, reached = float([0.0, *curve.lam][batch - 1]), curve.mse[-1]
    E = np.geomspace(1e-9, 0.3, points)
    i = theory.mutual_information(PRIOR, CHANNEL, E, ALPHA_B, before)
    rows = rows_of(kind="line", batch=batch, mse=E, information=i)
    found = [p for p in theory.fixed_points(PRIOR, CHANNEL, ALPHA_B, before) if p.stable]
    errors = np.array([point.mse for point in found])
    heights = np.array([point.mutual_information for point in found])
    return rows + rows_of(
        kind="minimum", batch=batch, mse=errors, information=heights,
        **{"global": (heights == heights.min()).astype(int)},
        amp=(np.abs(errors / reached - 1.0) < 1e-6).astype(int),
    )  # fmt: skip


def strip(sizes: list[float]) -> list[Row]:
    """Errors of Mini-AMP and of exact inference for some batch sizes."""
    return [
        {
            "alpha_b": a,
            "batch": found.batch,
            "mse": found.mse,
            "mmse": found.mmse,
            "hard": int(found.status == "hard"),
            "trapped": int(found.trapped),
        }
        for a in sizes
        for found in theory.verdict(PRIOR, CHANNEL, a, BATCHES)
    ]


def edges() -> list[Row]:
    """T_k and S_k."""
    found = theory.batch_thresholds(PRIOR, CHANNEL, THRESHOLDS)
    return rows_of(batch=np.arange(1, THRESHOLDS + 1), **found._asdict())


def draw(tables: Tables) -> look.Canvas:
    """The landscape on the left, the diagram on the right."""
    made, (left, right) = look.figure(10.0, 4.3, 2, width_ratios=[1.0, 1.15])
    _draw_landscape(left, tables["left"])
    _draw_diagram(made, right, tables["right"], tables["edges"])
    return made


def _draw_landscape(ax: look.Axes, table: Table) -> None:
    dashes = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
    for k in SHOWN:
        line, style = table.where(kind="line", batch=k), look.style(k - 1)
        # Landscapes differ by constants that say nothing: each is shown above its own minimum, and
        # above the next one.
        zero = float(np.min(line["information"])) - STEP * (SHOWN[-1] - k)
        ax.plot(
            line["mse"], line["information"] - zero, color=style.colour, ls=dashes[k - 1], zorder=2,
            label=f"batch {k}",
        )  # fmt: skip
        for point in table.where(kind="minimum", batch=k).rows:
            spot = float(point["mse"]), float(point["information"]) - zero
            mark = {"marker": "o", "ms": 7, "mfc": "white", "mec": style.colour, "mew": 1.6}
            if point["amp"] == "1":
                mark = {"marker": "*", "ms": 13, "mfc": style.colour, "mec": "black", "mew": 0.8}
            ax.plot(*spot, **mark, zorder=4)  # type: ignore[arg-type]
    ax.plot([], [], "*", color="0.5", mec="black", ms=12, label="where AMP sits")
    ax.plot([], [], "o", mfc="white", mec="0.4", mew=1.6, ms=7, label="other minimum")
    ax.set(xscale="log", ylim=(-0.12, 1.25), xlim=(1e-9, 0.4), xlabel=r"error $\mathcal{E}$")
    ax.set_ylabel(r"$i^b_\mathrm{RS}(\mathcal{E})$ above its minimum, shifted  (nats)")
    ax.text(6e-8, -0.09, "good", ha="center", style="italic", fontsize=9)
    ax.text(0.03, -0.09, "bad", ha="center", style="italic", fontsize=9)
    look.letter(ax, "a", rf"the landscape, $\alpha_b = {ALPHA_B}$")
    ax.legend(loc="upper left", ncols=2)


def _draw_diagram(made: look.Canvas, ax: look.Axes, table: Table, edges_: Table) -> None:
    look.errors(made, ax, table, "alpha_b", "batch", "Mini-AMP")
    for k, t, s in zip(edges_["batch"], edges_["information"], edges_["spinodal"], strict=True):
        ends = [k - 0.5, k + 0.5]
        ax.plot([s, s], ends, color="black", lw=2.0, path_effects=look.outlined(2.0))
        ax.plot([t, t], ends, color="black", lw=2.0, ls=DOTS, path_effects=look.outlined(2.0))
        ax.fill_betweenx(ends, t, s, facecolor="none", edgecolor="black", hatch="///", lw=0.0)
    from matplotlib.patches import Patch

    handles = [
        look.sample(r"$S_k$: AMP escapes above", color="black", lw=2.0),
        look.sample(r"$T_k$: good is best above", color="black", lw=2.0, ls=DOTS),
        Patch(facecolor="none", edgecolor="black", hatch="///", lw=0.0, label="hard"),
    ]
    ax.legend(handles=handles, loc="upper right", frameon=True, framealpha=0.9)
    ax.text(0.262, 2.0, "optimal", color="black", style="italic")
    ax.text(0.487, 4.5, "optimal", color="white", style="italic", ha="center", rotation=90)
    ax.set(xlabel=r"batch size $\alpha_b$", ylabel="batch $k$", yticks=range(1, BATCHES + 1))
    ax.grid(False)
    look.letter(ax, "b", "error of Mini-AMP, and where it is not optimal")


def judge(tables: Tables, _: Scale) -> list[Claim]:
    """Claims about the minima of the landscape and the edges of the diagram."""
    left, edges_ = tables["left"], tables["edges"]
    minima = [len(left.where(kind="minimum", batch=k)) for k in SHOWN]
    trapped = [k for k in SHOWN if len(left.where(kind="minimum", batch=k, amp=1, **{"global": 0}))]
    t, s = edges_["information"], edges_["spinodal"]
    inside = _between(tables["right"], t, s)
    return [
        Claim("2 left", "minima of i_RS^b, batches 1 to 5", "two, at last one",
              ", ".join(map(str, minima)), minima == [2, 2, 2, 2, 1]),
        Claim("2 left", "AMP sits in the wrong minimum at batches", "some, after the first",
              ", ".join(map(str, trapped)), trapped == [3, 4]),
        Claim("2 right", "T_6 to T_1", "0.3 = rho", _list(t[::-1]),
              bool(np.allclose(t[::-1], T, atol=2e-6)), _list(np.array(T)),
              "the print is the noiseless statement"),
        Claim("2 right", "S_6 to S_1", "0.49", _list(s[::-1]),
              bool(np.allclose(s[::-1], S, atol=2e-6)), _list(np.array(S))),
        Claim("2 right", "trapped exactly where T_k < alpha_b < S_k, k = 1 to 6",
              "a region between the lines", f"{inside:.1%} of the grid", inside == 1.0),
    ]  # fmt: skip


def _list(values: Array) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


def _between(table: Table, t: Array, s: Array) -> float:
    """Share of the diagram where the verdict agrees with the edges."""
    k = table["batch"].astype(int)
    known = k <= len(t)
    a, at = table["alpha_b"][known], k[known] - 1
    expected = (t[at] < a) & (a < s[at])
    return float(np.mean(expected == (table["trapped"][known] == 1)))


FIGURE = Figure("Phase transitions of streaming sparse regression", tasks, draw, judge)
