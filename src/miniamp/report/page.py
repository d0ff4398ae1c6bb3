"""`write_report`: one HTML file that needs no network, for light and dark, wide and narrow."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np

import miniamp
from miniamp import checks
from miniamp.arrays import Given
from miniamp.report.chart import PAGE, Chart, NothingToDrawError
from miniamp.report.choices import choices
from miniamp.report.coefficients import overlapping
from miniamp.report.draw import missing_extra, plotly, safe
from miniamp.report.facts import Facts

#: Rows of the table of batches: the latest ones.
MOST_ROWS = 200
#: Columns that are shown elsewhere, or are no numbers.
HIDDEN = {"task", "calibration", "found", "reason", "forget", "features", "noise_learned"}


def write_report(
    estimator: object,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    forecast: Given = None,
) -> Path:
    """Write one HTML file that shows how the fit went, and return its path.

    Observed and predicted error by batch, coefficients with intervals, inclusion probabilities,
    calibration, health, learned parameters, clusters, and what was chosen and why. The file needs
    no network, fits a phone, and follows the reader's light or dark.

    Parameters
    ----------
    estimator : fitted estimator
        A MiniAMPRegressor, MiniAMPClassifier or MiniAMPClusterer, also one that was loaded.
    path : path
        The file; written whole or not at all.
    title : str, optional
        The heading.
    forecast : pair (rows, errors), optional
        An error that was predicted, against rows seen, to be drawn beside the observed one; the
        theory's own prediction is there without it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(120, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = write_report(model, f"{folder}/report.html").read_text(encoding="utf-8")
    >>> "Prediction error by batch" in text
    True
    """
    facts = replace(Facts.of(estimator), forecast=forecast)
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise checks.refuse(
            "path", f"{target}", "a file in a folder that exists", "create the folder first"
        )
    text = _page(facts, charts(facts), title or "How the fit went")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def charts(facts: Facts) -> list[Chart]:
    """The charts that this estimator has something for, in the order of the page."""
    found = []
    for _, chart in sorted(PAGE, key=lambda entry: entry[0]):
        try:
            found.append(chart(facts))
        except NothingToDrawError:
            continue
    return _filled(found)


def _filled(found: list[Chart]) -> list[Chart]:
    """The same charts, two side by side; one that would stand alone is as wide as both."""
    filled: list[Chart] = []
    waiting = False  # whether the last one has room beside it
    for chart in found:
        if chart.wide and waiting:
            filled[-1] = replace(filled[-1], wide=True)
        waiting = not chart.wide and not waiting
        filled.append(chart)
    if waiting:
        filled[-1] = replace(filled[-1], wide=True)
    return filled


def _page(facts: Facts, drawn: list[Chart], title: str) -> str:
    cards = "\n".join(_card(chart, i) for i, chart in enumerate(drawn))
    figures = json.dumps([plotly(chart) for chart in drawn], allow_nan=False)
    figures = figures.replace("</", r"<\/")  # nothing in it may end the script early
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{safe(title)}</title>
<link rel="icon" href="data:,">
<style>
{resource("page.css")}</style>
</head>
<body>
<main>
<h1>{safe(title)}</h1>
<p class="lead">{safe(_lead(facts))}</p>
<div class="tiles">
{_tiles(facts)}
</div>
<div class="cards">
{_verdict(facts)}
{cards}
{_choices(facts)}
{_batches(facts)}
</div>
<footer>Written by miniamp {miniamp.__version__}. Works without a network.</footer>
</main>
<script type="application/json" id="figures">{figures}</script>
<script>{_plotly_source()}</script>
<script>
{resource("colours.js")}
{resource("page.js")}</script>
</body>
</html>
"""


def _plotly_source() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise missing_extra("plotly") from error
    return str(get_plotlyjs())


def resource(name: str) -> str:
    """A style sheet or a script that pages have in common."""
    return (resources.files("miniamp.report") / name).read_text(encoding="utf-8")


def _lead(facts: Facts) -> str:
    batches = len(facts.everything)
    unit = "batch" if batches == 1 else "batches"
    return (
        f"{facts.name}: {facts.rows_seen:,} rows in {batches:,} {unit}, "
        f"{len(facts.features):,} features."
    )


def _tiles(facts: Facts) -> str:
    last = facts.history[-1]
    tiles = [("rows learned from", f"{facts.rows_seen:,}")]
    error, expected = (facts.column(name)[-1] for name in ("error", "expected_error"))
    if facts.task == "clustering":
        tiles += [("clusters", f"{len(facts.groups)}")]
        tiles += [("noise, standard deviation", f"{np.sqrt(np.mean(facts.noise)):.4g}")]
    elif np.isfinite(error) and facts.task == "regression":
        tiles += [("root mean squared error, last batch", f"{np.sqrt(error):.4g}")]
        tiles += [("predicted by the model", f"{np.sqrt(expected):.4g}")]
    elif np.isfinite(error):
        tiles += [("errors, last batch", f"{error:.1%}")]
        tiles += [("predicted by the model", f"{expected:.1%}")]
    if facts.has("coverage"):
        weights = facts.column("rows") * np.isfinite(facts.column("coverage"))
        inside = np.nansum(weights * facts.column("coverage")) / weights.sum()
        tiles += [("of outcomes in their 90 % interval", f"{inside:.1%}")]
    if facts.included is not None:
        tiles += [("coefficients that are not zero", f"{facts.included.sum():.3g}")]
    tiles += [("iterations, last batch", f"{last['iterations']}")]
    return "\n".join(
        f'<div class="tile"><b>{safe(value)}</b><span>{safe(name)}</span></div>'
        for name, value in tiles
    )


def _verdict(facts: Facts) -> str:
    found = overlapping(facts) if facts.task == "clustering" else facts.findings
    well = ("No problems found", "The observed errors are what the model predicted, up to chance.")
    if facts.task == "clustering":
        well = ("All clusters are separate", "No two centres are close compared with the noise.")
    kind = "finding" if found else "well"
    return "\n".join(
        f'<section class="card wide {kind}"><h2>{safe(message)}</h2>'
        f'<p class="words">{safe(remedy)}</p></section>'
        for message, remedy in found or [well]
    )


def _card(chart: Chart, i: int) -> str:
    wide = " wide" if chart.wide else ""
    label = safe(f"{chart.title}. {chart.words}")
    words = safe(chart.words).replace(" %", "&nbsp;%")
    return (
        f'<section class="card{wide}"><h2>{safe(chart.title)}</h2>'
        f'<p class="words">{words}</p><div class="plot" id="plot{i}" role="img" '
        f'aria-label="{label}" style="height:{chart.height}px"></div></section>'
    )


def _choices(facts: Facts) -> str:
    return (
        '<section class="card wide"><h2>What was chosen, and why</h2><div class="table">'
        f"{_table(('what', 'chosen', 'why'), choices(facts))}</div></section>"
    )


def _batches(facts: Facts) -> str:
    start = max(0, len(facts.everything) - MOST_ROWS)
    latest = facts.everything[start:]
    names = [name for name in latest[-1] if name not in HIDDEN | {"batch"}]
    # People count from 1, as the plots do.
    rows = [[k, *(e.get(n) for n in names)] for k, e in enumerate(latest, start=start + 1)]
    head = ["batch", *(name.replace("_", " ") for name in names)]
    return (
        f'<section class="card wide"><details><summary>Numbers of the last {len(latest):,} '
        f'batches</summary><div class="table numbers">{_table(head, rows, "number")}</div>'
        "</details></section>"
    )


def _table(head: Sequence[str], rows: Iterable[Iterable[object]], kind: str = "") -> str:
    cell = f' class="{kind}"' if kind else ""
    top = "".join(f"<th{cell}>{safe(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td{cell}>{safe(_cell(value))}</td>' for value in row)}</tr>"
        for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
