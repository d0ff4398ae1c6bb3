"""`write_report`: everything there is to see of a stream, in one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from miniamp import checks
from miniamp.arrays import Given
from miniamp.report import (
    balance,
    clusters,
    coefficients,
    coverage,
    error,
    health,
    hyper_parameters,
    inclusion,
    reliability,
    variance,
)
from miniamp.report.facts import Facts
from miniamp.report.look import Section
from miniamp.report.page import page


def write_report(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    forecast: Given = None,
) -> Path:
    """Write one HTML file that shows how a stream went, and give its path.

    Error and forecast by batch, coefficients with intervals, inclusion probabilities, calibration,
    health against theory, hyper-parameters over time, clusters, and what was chosen and why. The
    file needs no network, fits a phone, and follows the reader's light or dark.

    Parameters
    ----------
    estimator : fitted estimator
        A MiniAMPRegressor, MiniAMPClassifier or MiniAMPClusterer, also one that was loaded.
    path : path
        The file; written whole or not at all.
    title : str, optional
        The heading.
    forecast : pair (rows, errors), optional
        An error that was foretold, against rows seen, to be drawn beside the one made; theory's
        own forecast is there without it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(120, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = write_report(model, f"{folder}/report.html").read_text(encoding="utf-8")
    >>> "Error and forecast by batch" in text
    True
    """
    facts = Facts.of(estimator)
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise checks.refuse(
            "path", f"{target}", "a file in a folder that is there", "make the folder first"
        )
    text = page(facts, sections(facts, forecast), title or "How the stream went")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def sections(facts: Facts, forecast: Given = None) -> list[Section]:
    """The cards that this estimator has something for, in the order of the page."""
    found = (
        error.section(facts, forecast),
        clusters.section(facts),
        coverage.section(facts),
        reliability.section(facts),
        balance.section(facts),
        health.section(facts),
        variance.section(facts),
        hyper_parameters.section(facts),
        inclusion.section(facts),
        coefficients.section(facts),
    )
    return _filled([section for section in found if section is not None])


def _filled(cards: list[Section]) -> list[Section]:
    """The same cards, two side by side; one that would stand alone is as wide as both."""
    filled: list[Section] = []
    waiting = False  # whether the last card has room beside it
    for card in cards:
        if card.wide and waiting:
            filled[-1] = filled[-1]._replace(wide=True)
        waiting = not card.wide and not waiting
        filled.append(card)
    if waiting:
        filled[-1] = filled[-1]._replace(wide=True)
    return filled
