"""The page: one HTML file that needs no network, for light and dark, wide and narrow."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np

import miniamp
from miniamp.errors import MissingExtraError
from miniamp.report.choices import choices
from miniamp.report.clusters import one_heap
from miniamp.report.facts import Facts
from miniamp.report.look import Section, safe

#: Rows of the table of batches: the latest ones.
MOST_ROWS = 200
#: Columns that are told elsewhere, or are no numbers.
HIDDEN = {"task", "calibration", "found", "reason", "forget", "features", "noise_learned"}


def page(facts: Facts, sections: list[Section], title: str) -> str:
    """The whole file as text."""
    cards = "\n".join(_card(section, i) for i, section in enumerate(sections))
    figures = json.dumps([section.figure for section in sections], allow_nan=False)
    figures = figures.replace("</", r"<\/")  # nothing in it may end the script early
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{safe(title)}</title>
<link rel="icon" href="data:,">
<style>
{_resource("page.css")}</style>
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
<script>{_plotly()}</script>
<script>
{_resource("page.js")}</script>
</body>
</html>
"""


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtraError('reports need plotly; pip install "miniamp[report]"') from error
    return str(get_plotlyjs())


def _resource(name: str) -> str:
    return (resources.files("miniamp.report") / name).read_text(encoding="utf-8")


def _lead(facts: Facts) -> str:
    rows, batches = facts.estimator.n_samples_seen_, len(facts.everything)
    name = type(facts.estimator).__name__
    unit = "batch" if batches == 1 else "batches"
    return f"{name}: {rows:,} rows in {batches:,} {unit}, {len(facts.features):,} features."


def _tiles(facts: Facts) -> str:
    last = facts.history[-1]
    tiles = [("rows learned from", f"{facts.estimator.n_samples_seen_:,}")]
    if facts.task == "clustering":
        tiles += [("clusters", f"{len(facts.groups)}")]
        tiles += [("noise, standard deviation", f"{np.sqrt(np.mean(facts.estimator.noise_)):.4g}")]
    elif last.get("error") is not None:
        error = float(last["error"])
        if facts.task == "regression":
            tiles += [("root mean squared error, last batch", f"{np.sqrt(error):.4g}")]
            tiles += [("expected by the model", f"{np.sqrt(last['expected_error']):.4g}")]
        else:
            tiles += [("mistakes, last batch", f"{error:.1%}")]
            tiles += [("expected by the model", f"{last['expected_error']:.1%}")]
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
    if facts.task == "clustering":
        found = one_heap(facts)
        well = "All clusters are well apart", "Every centre stands out from the noise around it."
    else:
        found = [(one.message, one.remedy) for one in facts.estimator.health_.findings]
        well = (
            "Nothing is wrong",
            "What happened on this stream is what the model expected, as far as can be told.",
        )
    kind = "finding" if found else "well"
    return "\n".join(
        f'<section class="card wide {kind}"><h2>{safe(message)}</h2>'
        f'<p class="words">{safe(remedy)}</p></section>'
        for message, remedy in found or [well]
    )


def _card(section: Section, i: int) -> str:
    wide = " wide" if section.wide else ""
    height = section.figure["layout"]["height"]
    label = safe(f"{section.title}. {section.words}")
    words = safe(section.words).replace(" %", "&nbsp;%")
    return (
        f'<section class="card{wide}"><h2>{safe(section.title)}</h2>'
        f'<p class="words">{words}</p><div class="plot" id="plot{i}" role="img" '
        f'aria-label="{label}" style="height:{height}px"></div></section>'
    )


def _choices(facts: Facts) -> str:
    rows = "".join(
        f"<tr><td>{safe(what)}</td><td>{safe(chosen)}</td><td>{safe(why)}</td></tr>"
        for what, chosen, why in choices(facts)
    )
    return (
        '<section class="card wide"><h2>What was chosen, and why</h2><div class="table"><table>'
        f"<tr><th>what</th><th>chosen</th><th>why</th></tr>{rows}</table></div></section>"
    )


def _batches(facts: Facts) -> str:
    latest = [{"batch": k, **entry} for k, entry in enumerate(facts.everything)][-MOST_ROWS:]
    for entry in latest:
        entry["batch"] += 1  # people count from 1, as the plots do
    names = [name for name in latest[-1] if name not in HIDDEN]
    head = "".join(f'<th class="number">{safe(name.replace("_", " "))}</th>' for name in names)
    body = "".join(
        "<tr>"
        + "".join(f'<td class="number">{safe(_cell(e.get(n)))}</td>' for n in names)
        + "</tr>"
        for e in latest
    )
    return (
        f'<section class="card wide"><details><summary>Numbers of the last {len(latest):,} '
        f'batches</summary><div class="table numbers"><table><tr>{head}</tr>{body}</table></div>'
        "</details></section>"
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
