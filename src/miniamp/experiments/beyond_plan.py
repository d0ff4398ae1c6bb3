"""Beyond the paper: rows needed against batch size, which is what the planner weighs."""

from __future__ import annotations

import numpy as np

from miniamp import channels, priors, theory
from miniamp.experiments import look
from miniamp.experiments.figure import Figure, Scale, Tables, Task, every
from miniamp.experiments.tables import Claim, Row, beyond

PRIOR = priors.GaussBernoulli(rho=0.3)
NOISES = (1e-8, 1e-3, 1e-2)
#: The error to reach: one percent of the prior variance.
TARGET = 3e-3
FEATURES = 10_000
LINE, PICK, OFFLINE, ONLINE = "stream", "pick", "offline", "online"


def tasks(scale: Scale) -> list[Task]:
    """One task per noise level."""
    return every("rows", needed, noise=NOISES, points=scale.choose(80, 24))


def needed(noise: float, points: int) -> list[Row]:
    """Rows over coefficients until the error is TARGET, for batches of every size."""
    model = PRIOR, channels.Gaussian(var=noise)
    plan = theory.plan(*model, features=FEATURES, target_mse=TARGET)
    ways = {OFFLINE: plan.fewest_rows, ONLINE: plan.choices[-1], PICK: plan.pick}
    rows = [(kind, way.alpha_b, (way.rows or np.nan) / FEATURES) for kind, way in ways.items()]
    (_, _, most), (_, _, online), _ = rows
    for a in np.geomspace(0.01, most * 1.3, points):
        number = int(np.ceil(1.1 * online / a)) + 1
        reached = theory.learning_curve(*model, float(a), batches=number).reaches(TARGET)
        rows.append((LINE, float(a), reached or np.nan))
    return [{"kind": kind, "noise": noise, "alpha_b": a, "alpha": b} for kind, a, b in rows]


def draw(tables: Tables) -> look.Canvas:
    """One line per noise level, from online on the left to offline on the right."""
    made, (ax,) = look.figure(6.0, 4.2)
    for i, noise in enumerate(NOISES):
        style, own = look.style(i), tables["rows"].where(noise=noise)
        line = own.where(kind=LINE)
        ax.plot(
            line["alpha_b"], line["alpha"], color=style.colour, ls=("-", "--", "-.")[i],
            label=rf"$\Delta = 10^{{{np.log10(noise):.0f}}}$",
        )  # fmt: skip
        online = own.where(kind=ONLINE)["alpha"][0]
        ax.plot([0.008], [online], marker="<", color=style.colour, ms=7, clip_on=False)
        best, pick = own.where(kind=OFFLINE), own.where(kind=PICK)
        ax.plot(best["alpha_b"], best["alpha"], "o", color=style.colour, mfc="none", ms=17, mew=1.5)
        ax.plot(
            pick["alpha_b"], pick["alpha"], "*", color=style.colour, mec="black", ms=13, zorder=4
        )
    ax.plot([], [], "<", color="0.4", label="one row at a time")
    ax.plot([], [], "o", color="0.4", mfc="none", mew=1.5, ms=10, label="all rows at once")
    ax.plot([], [], "*", color="0.4", mec="black", ms=11, label="the planner's pick")
    ax.set(xscale="log", xlim=(0.008, 3.0), ylim=(0.0, None), xlabel=r"batch size $\alpha_b$")
    ax.set_ylabel(rf"rows / coefficients until the error is {TARGET:g}")
    ax.set_title(r"sparse regression, $\rho = 0.3$", loc="left")
    ax.text(0.5, 3.75, "teeth: whole batches only", style="italic", fontsize=8)
    ax.legend(loc="lower left")
    return made


def judge(tables: Tables, _: Scale) -> list[Claim]:
    """Online costs more rows than offline, and less noise makes large batches worth more."""
    factors, smallest = [], 0.0
    for noise in NOISES:
        own = tables["rows"].where(noise=noise)
        line, online, offline = (own.where(kind=k)["alpha"][0] for k in (LINE, ONLINE, OFFLINE))
        factors.append(online / offline)
        smallest = max(smallest, abs(line / online - 1.0))
    text = ", ".join(f"{f:.2f} (noise {n:g})" for f, n in zip(factors, NOISES, strict=True))
    more = min(factors[:2]) > factors[2] > 1.0
    note = f"to an error of {TARGET:g}; small batches cost less where noise is felt"
    return [
        beyond("b", "rows online over rows offline", text, more, note),
        Claim("beyond b", "smallest batches need the rows of ADF", "alpha_b to 0 gives ADF",
              f"within {smallest:.1%}", smallest < 0.03),
    ]  # fmt: skip


FIGURE = Figure("Rows needed against batch size", tasks, draw, judge)
