"""`write_report`: one HTML file that needs no network, for light and dark, wide and narrow."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path
from string import Template
from typing import cast

import numpy as np

import miniamp
from miniamp import checks
from miniamp.estimators.describe import latest, mean_over_rows
from miniamp.estimators.history import Conflict, Entry, worded
from miniamp.estimators.summary import TITLES
from miniamp.estimators.summary import shown as number
from miniamp.info import Naming
from miniamp.report.chart import PAGE, Chart, NothingToDrawError, plotly, safe
from miniamp.report.choices import choices
from miniamp.report.coefficients import overlapping
from miniamp.report.facts import Facts, lead
from miniamp.streams.checkpoint import write_whole

#: Rows of the table of batches: the latest ones.
MOST_ROWS = 200
#: Rows of the tables of coefficients and of features: the strongest, the first.
MOST_COEFFICIENTS = 500
#: Columns of probabilities, which have so many digits.
CHANCES, DIGITS = ("p_positive", "inclusion"), 4
#: Attribute of a cell with a number in it.
NUMBER = ' class="number"'
#: Conflicts that are listed: the latest ones.
MOST_CONFLICTS = 20
#: Columns that are shown elsewhere, or are no numbers.
HIDDEN = {
    *("task", "calibration", "found", "reason", "forget", "forget_learned", "prior"),
    *("features", "noise_learned", "solver_asked", "conflicts"),
}


def write_report(
    estimator: object,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
) -> Path:
    """Write the report of a fit to one HTML file, and return its path.

    Observed and predicted error by batch, coefficients with intervals, inclusion probabilities,
    calibration, residuals or confusion matrix and ROC curve, health, learned parameters, clusters,
    sortable tables of coefficients and of the data, and what was chosen and why. The file needs
    no network, fits a phone, and follows the reader's light or dark.

    Parameters
    ----------
    estimator : fitted estimator
        A MiniAMPRegressor, MiniAMPClassifier or MiniAMPClusterer, also one that was loaded.
    path : path
        The file; written whole or not at all.
    title : str, optional
        The heading.

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
    facts = Facts.of(estimator)
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise checks.refuse(
            "path", f"{target}", "a file in a folder that exists", "create the folder first"
        )
    write_whole(target, _page(facts, charts(facts), title or "Fit report"))
    return target


def charts(facts: Facts) -> list[Chart]:
    """The charts that this estimator has something for, in the order of the page."""
    found = []
    for _, chart, shown in sorted(PAGE, key=lambda entry: entry[0]):
        with suppress(NothingToDrawError):
            found += [chart(facts)] if shown(facts) else []
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
    cards = "\n".join(card(chart, i) for i, chart in enumerate(drawn))
    figures = json.dumps([plotly(chart) for chart in drawn], allow_nan=False)
    figures = figures.replace("</", r"<\/")  # nothing in it may end the script early
    return Template(resource("page.html")).substitute(
        title=safe(title),
        style=resource("page.css"),
        above=above(facts),
        cards=cards,
        below=below(facts),
        version=miniamp.__version__,
        figures=figures,
        plotly=plotly_source(),
        script=resource("shared.js") + resource("page.js"),
    )


def above(facts: Facts) -> str:
    """What a page shows above its plots: main numbers, verdict, what was adapted."""
    return f"""<p class="lead">{safe(lead(facts))}</p>
<div class="tiles">
{_tiles(facts)}
</div>
<div class="cards">
{_verdict(facts)}
{_adapted(facts)}
</div>"""


def below(facts: Facts) -> str:
    """What a page shows below its plots: tables, choices and numbers."""
    return f"""<div class="cards">
{_coefficients(facts)}
{_data(facts)}
{_choices(facts)}
{_batches(facts)}
</div>"""


def plotly_source() -> str:
    """The script that draws figures."""
    return str(checks.needed("plotly.offline", "reports").get_plotlyjs())


def resource(name: str, folder: str = "report") -> str:
    """A template, a style sheet or a script."""
    return (resources.files(f"miniamp.{folder}") / name).read_text(encoding="utf-8")


def _tiles(facts: Facts) -> str:
    tiles = [("rows learned from", f"{facts.rows_seen:,}")]
    if facts.single and facts.task != "clustering":  # no errors: these alone are known
        tiles += [("features", f"{len(facts.features):,}")]
        if facts.task == "regression" and facts.has("noise_var"):
            noise = np.sqrt(facts.column("noise_var")[-1])
            tiles += [("noise, standard deviation", number(noise))]
    if facts.task == "clustering":
        tiles += [("clusters", f"{len(facts.groups)}")]
        tiles += [("noise, standard deviation", f"{np.sqrt(np.mean(facts.noise)):.4g}")]
    else:
        tiles += _errors(facts)
    if facts.included is not None:
        tiles += [("coefficients that are not zero", f"{facts.included.sum():.3g}")]
    return "\n".join(
        f'<div class="tile"><b>{safe(value)}</b><span>{safe(name)}</span></div>'
        for name, value in tiles
    )


def _errors(facts: Facts) -> list[tuple[str, str]]:
    """Errors on unseen rows: over all rows, over the latest, and as predicted."""
    every = mean_over_rows(facts.everything, "error")
    if every is None:
        return []
    recent = latest(facts.everything)
    error, expected = (mean_over_rows(recent, name) for name in ("error", "expected_error"))
    rows = sum(int(str(entry["rows"])) for entry in recent)
    numbers = facts.task == "regression"
    name = "root mean squared error" if numbers else "share of errors"

    def shown(value: float | None) -> str:
        value = np.nan if value is None else value
        return number(np.sqrt(value)) if numbers else f"{value:.1%}"

    tiles = [
        (f"{name}, all unseen rows", shown(every)),
        (f"{name}, latest {rows:,} rows", shown(error)),
        ("the same as predicted by the model", shown(expected)),
    ]
    inside = mean_over_rows(facts.everything, "coverage")
    if numbers and facts.tally.r2 is not None:
        tiles += [("R², unseen rows", f"{facts.tally.r2:.4f}")]
    if inside is not None:
        tiles += [("of outcomes in their 90 % interval", f"{inside:.1%}")]
    if not numbers:
        loss = mean_over_rows(facts.everything, "score")
        tiles += [("log loss", "" if loss is None else f"{-loss:.4g}")]
        tiles += [("area under the ROC curve", f"{facts.tally.auc or np.nan:.4f}")]
    return tiles


def _verdict(facts: Facts) -> str:
    found = overlapping(facts) if facts.task == "clustering" else facts.findings
    well = ("No problems found", "No check of the prediction errors found anything unusual.")
    if facts.task == "clustering":
        well = ("All clusters are separate", "No two centres are close compared with the noise.")
    if facts.single and facts.task != "clustering" and not found:
        well = (
            "A single batch",
            "No row was predicted before it was learned from: use smaller batches to see errors.",
        )
    kind = "finding" if found else "well"
    return "\n".join(_section(message, remedy, kind=kind) for message, remedy in found or [well])


def card(chart: Chart, i: int) -> str:
    """A section of the page for the i-th chart."""
    wide = " wide" if chart.wide else ""
    label = safe(f"{chart.title}. {chart.words}")
    words = safe(chart.words).replace(" %", "&nbsp;%")
    return (
        f'<section class="card{wide}"><h2>{safe(chart.title)}</h2>'
        f'<p class="words">{words}</p><div class="plot" id="plot{i}" role="img" '
        f'aria-label="{label}" style="height:{chart.height}px"></div></section>'
    )


def _adapted(facts: Facts) -> str:
    """A card with the latest batches and rows that were adapted to or skipped, if there are any."""
    rows: list[tuple[object, ...]] = []
    names = Naming(facts.features, facts.classes or None)
    for entry in facts.everything:
        last, count = (int(str(entry.get(name) or 0)) for name in ("rows_seen", "rows"))
        for conflict in cast(list[dict[str, object]], entry.get("conflicts") or []):
            row = conflict.get("row")
            first = last - count + 1
            where = f"{first:,} to {last:,}" if row is None else f"{first + int(str(row)):,}"
            why = worded(cast(Conflict, conflict), cast(Entry, entry), names)
            rows.append((int(str(entry["batch"])) + 1, where, conflict["kind"], why))
    if not rows:
        return ""
    table = _table(("batch", "rows", "what", "why"), rows[: -MOST_CONFLICTS - 1 : -1])
    return _section(f"Adapted or skipped: {len(rows):,}", "", table, "finding", "adapted")


def _section(title: str, words: str, table: str = "", kind: str = "", name: str = "") -> str:
    """A card as wide as the page: a heading, a paragraph if there are words, and the table."""
    about = f'<p class="words">{safe(words)}</p>' if words else ""
    own = f'class="{" ".join(["card wide", *kind.split()])}"' + (f' id="{name}"' if name else "")
    # A table of numbers, which sorts by a click, is as high as a screen at most.
    shape = "table numbers high" if 'class="sortable"' in table else "table"
    inner = f'<div class="{shape}">{table}</div>' if table else ""
    return f"<section {own}><h2>{safe(title)}</h2>{about}{inner}</section>"


def _coefficients(facts: Facts) -> str:
    """The table of coefficients or centres, which sorts by a click on a heading."""
    found, columns = facts.summary, facts.summary.columns
    order = np.argsort(-found.strength, kind="stable")[:MOST_COEFFICIENTS].tolist()
    titles = {"lower": "5 %", "upper": "95 %", **TITLES, "name": "feature"}
    rows = [
        [round(v[i], DIGITS) if name in CHANCES else v[i] for name, v in columns.items()]
        for i in order
    ]
    notes = (f"{line[:1].upper()}{line[1:]}." for line in found.note.splitlines())
    words = " ".join(["Click a heading to sort.", *notes])
    if len(order) < len(found.strength):
        words += f" The {len(order)} strongest of {len(found.strength):,}."
    table = _table([titles.get(name, name) for name in columns], rows, sortable=True)
    title = "Table of centres" if facts.task == "clustering" else "Table of coefficients"
    return _section(title, words, table)


def _data(facts: Facts) -> str:
    """Ranges of the features, and missing values where they were counted."""
    if not len(facts.tally.low):
        return ""
    centre, scale = facts.units
    columns = {
        "feature": facts.features,
        "smallest": facts.tally.low.tolist(),
        "largest": facts.tally.high.tolist(),
        # A centre of 1e-17 units is a rounding error.
        "centre": np.where(abs(centre) < 1e-9 * scale, 0.0, centre).tolist(),
        "scale": scale.tolist(),
    }
    missing = facts.origin.get("missing")
    if isinstance(missing, np.ndarray):
        columns["missing"] = [int(count) for count in missing]
    rows = list(zip(*columns.values(), strict=True))[:MOST_COEFFICIENTS]
    words = "Ranges over all rows; centre and scale are a feature's zero and unit in the model."
    table = _table(list(columns), rows, sortable=True)
    return _section("Data", words, table)


def _choices(facts: Facts) -> str:
    table = _table(("what", "chosen", "why"), choices(facts))
    return _section("What was chosen, and why", "", table)


def _batches(facts: Facts) -> str:
    start = max(0, len(facts.everything) - MOST_ROWS)
    latest = facts.everything[start:]
    names = [name for name in latest[-1] if name not in HIDDEN | {"batch"}]
    # People count from 1, as the plots do.
    rows = [[k, *(e.get(n) for n in names)] for k, e in enumerate(latest, start=start + 1)]
    head = ["batch", *(name.replace("_", " ") for name in names)]
    return (
        f'<section class="card wide"><details><summary>Batches: the latest {len(latest):,}'
        f'</summary><div class="table numbers">{_table(head, rows)}</div>'
        "</details></section>"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[object]], *, sortable: bool = False) -> str:
    texts = [all(isinstance(row[k], str) for row in rows) for k in range(len(head))]
    top = "".join(
        f"<th{'' if text else NUMBER}>{_button(name) if sortable else safe(name)}</th>"
        for name, text in zip(head, texts, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    kind = ' class="sortable"' if sortable else ""
    return f"<table{kind}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _button(name: str) -> str:
    return f'<button type="button">{safe(name)}</button>'


def _cell(value: object) -> str:
    if value is None or isinstance(value, (bool, str)):
        text = "" if value is None else str(value)
        return f"<td>{safe({'True': 'yes', 'False': 'no'}.get(text, text))}</td>"
    if isinstance(value, float):
        text = "" if np.isnan(value) else number(value)
        return f'<td{NUMBER} data-value="{value!r}">{text}</td>'
    return f"<td{NUMBER}>{safe(str(value))}</td>"
