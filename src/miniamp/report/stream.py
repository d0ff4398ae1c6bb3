"""Plots against the rows seen: error, health, posterior variance and learned parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from miniamp.report.chart import Axis, Chart, Series, nothing, on_page, plotted
from miniamp.report.facts import PAYS, Facts

#: There is nothing to show over time.
SINGLE = nothing("a single batch", "at least two", "fit with a smaller {batch_size}")
#: Batches with less than this share of the usual rows are left out of a curve of errors.
FEW = 0.25
#: How far from 1 the ratios of sound batches lie, of many rows and of few: standard deviations.
SOUND, SIGMAS = 0.25, 3.0
#: A ratio outside these is drawn at the edge: with few iterations the first batches of a
#: classifier reach 1e-3, and nothing else could be read beside them.
LOWEST, HIGHEST = 0.05, 50.0
#: What the health of each task compares, and what makes it bad.
CORRELATED, DISTANCE = "correlated features under the AMP solver", "The mean squared distance of"
CAUSES = {
    "regression": ("The mean squared residual", f"{CORRELATED}, a wrong noise"),
    "classification": ("The Brier score", CORRELATED),
    "clustering": (f"{DISTANCE} samples from their centres", "too few clusters, a wrong noise"),
}
#: What the columns of a history are called in plain words.
NAMES = {
    "noise": "noise variance",
    "noise_var": "noise variance",
    "prior_var": "variance of a coefficient",
    "prior_rho": "share of non-zero coefficients",
    "prior_mean": "mean of a coefficient",
}


def _is_stream(facts: Facts) -> bool:
    return not facts.single


@plotted(10)
def plot_error(facts: Facts) -> Chart:
    """Draw the prediction error per batch beside the predicted error; returns the axes.

    Every batch is predicted before it is learned from. For a clustering: the variance of samples
    around their centres, as it was learned.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(120, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> plot_error(model).get_ylabel()
    'squared prediction error'
    """
    if facts.task == "clustering":
        if facts.single:  # a tile has the number
            raise SINGLE
        drawn = [Series("around the centres", facts.rows, facts.column("noise"))]
        x, y, title = "samples seen", "noise variance", "Noise by batch"
    else:
        rows = facts.column("rows")
        sound = _usual(facts)
        before = facts.rows - rows
        if not facts.single:  # theory alone predicts the first one: far above all others
            sound &= before > 0.0
        named = (
            ("observed", "error"),
            ("predicted by the model", "expected_error"),
            ("predicted by theory", "theory_error"),
        )
        drawn = [
            Series(name, before[sound], facts.column(c)[sound]) for name, c in named if facts.has(c)
        ]
        x, y, title = "rows seen before the batch", facts.error_name, "Prediction error by batch"
    drawn = [replace(s, x=s.x[np.isfinite(s.y)], y=s.y[np.isfinite(s.y)]) for s in drawn]
    drawn = [series for series in drawn if len(series.y)]
    if not drawn:
        raise SINGLE
    return Chart(
        title, _about_error(facts, drawn), Axis(x), Axis(y, [s.y for s in drawn]), drawn, wide=True
    )


def _about_error(facts: Facts, drawn: list[Series]) -> str:
    if facts.task == "clustering":
        words = "Variance of samples around their centres, as estimated after each batch"
        return words + (", in units of each feature's own spread." if facts.per_feature else ".")
    words = "Every batch is predicted before it is learned from, so no row was seen before. "
    if any(series.name == "predicted by theory" for series in drawn):
        words += (
            "Theory (state evolution) knows only the prior, the noise and the number of rows: "
            "where the curves agree, the model fits and these rows allow nothing better."
        )
    else:
        words += "Where both curves agree, the model's error bars are right."
    return words


@plotted(60, _is_stream)
def plot_health(facts: Facts) -> Chart:
    """Draw observed over expected squared residuals per batch; returns the axes.

    One curve compares the residuals of a batch with the error bars it was fitted with; the other
    compares errors on rows that were not seen yet with what was predicted. Both are 1 in a sound
    model, up to chance.
    """
    labels = facts.task == "classification"
    unseen = "Brier score, unseen rows" if labels else "squared error, unseen rows"
    several = labels and len(facts.groups) > 1
    fitted = "squared residuals, fitted rows" + (", worst class" if several else "")
    named = {unseen: "surprise", fitted: "health"}
    if labels and facts.has("surprise"):
        # Labels that are as good as certain make the residuals of fitted rows small, whatever the
        # model: that curve shows nothing, and hid the other one.
        del named[fitted]
    rows, usual = facts.rows, _usual(facts)
    drawn = [
        Series(s.name, rows[usual], np.clip(s.y[usual], LOWEST, HIGHEST))
        for s in _by_rows(facts, **named)
    ]
    low, high = sound_band(facts)
    top = max(high, *(float(np.nanmax(series.y)) for series in drawn))
    what, cause = CAUSES[facts.task]
    words = (
        f"{what} over the expected one. Within the grey band the rows agree with the model, up to "
        f"chance; far above it they contradict it, as with {cause} or a stream that changes."
    )
    # The first batch began without a noise: it does not choose the scale.
    scale = [s.y[1:] if len(s.y) > 1 else s.y for s in drawn]
    ratio = Axis("observed / expected", scale, range=(0.0, 1.06 * top))
    if ratio.logarithmic:  # a band down to zero would leave no room for the curve
        low = max(low, 0.5 * float(ratio.finite.min()))
    return Chart("Health", words, Axis(_seen(facts)), ratio, drawn, band=(low, high), level=1.0)


def sound_band(facts: Facts) -> tuple[float, float]:
    """Lowest and highest ratio of a sound batch with as many rows as these have."""
    chance = facts.column("surprise_std")
    usual = float(np.nanmedian(chance)) if np.isfinite(chance).any() else 0.0
    reach = max(SOUND, SIGMAS * usual)
    return max(0.0, 1.0 - reach), 1.0 + reach


@plotted(70, _is_stream)
def plot_variance(facts: Facts) -> Chart:
    """Draw the mean posterior variance of a coefficient per batch; returns the axes."""
    drawn = _by_rows(facts, posterior="mean_variance", theory="theory_variance")
    if not drawn:
        expected = "a fitted MiniAMPRegressor or MiniAMPClassifier"
        raise nothing("no variances in its history", expected, "use plot_health for a clusterer")
    words = "Mean posterior variance of the coefficients of standardised features. " + (
        "Theory predicts it for independent features."
        if len(drawn) > 1
        else "Theory is not drawn: it applies to independent features and the AMP solver."
    )
    y = Axis("mean posterior variance", [series.y for series in drawn])
    return Chart("Remaining uncertainty", words, Axis(_seen(facts)), y, drawn)


@plotted(80, lambda facts: _is_stream(facts) and facts.task != "clustering")
def plot_hyper_parameters(facts: Facts) -> Chart:
    """Draw the learned parameters of prior and noise after each batch; returns the axes."""
    drawn = []
    for name, value in facts.history[-1].items():
        if not name.startswith(("prior_", "noise_")) and name != "noise":
            continue
        values = facts.column(name)
        # The mean of a centred prior is zero and stays so.
        centred = name == "prior_mean" and not values.any()
        if not isinstance(value, bool) and np.isfinite(values).any() and not centred:
            drawn.append(Series(NAMES.get(name, name.replace("_", " ")), facts.rows, values))
    if not drawn:
        raise nothing("no learned parameters in its history", "some", "learn {prior} or {noise}")
    words = (
        "As estimated after each batch; flat where they were given. A curve that does not settle "
        "means a stream that changes or a model that does not fit."
    )
    y = Axis(drawn[0].name if len(drawn) == 1 else "value", [series.y for series in drawn])
    return Chart("Learned parameters", words, Axis(_seen(facts)), y, drawn)


@on_page(83, lambda facts: _is_stream(facts) and facts.settings.get("forget") == "auto")
def forgetting(facts: Facts) -> Chart:
    """The forgetting factor as it was learned."""
    words = (
        "What the weight of earlier batches is multiplied by with every batch, as learned: 1 "
        "forgets nothing, and lower values mean that the stream changes."
    )
    drawn = [Series("forgetting factor", facts.rows, facts.column("forget"))]
    y = Axis("forgetting factor", range=(min(0.8, float(np.nanmin(drawn[0].y)) - 0.02), 1.02))
    return Chart("Forgetting", words, Axis(_seen(facts)), y, drawn, level=1.0)


@on_page(86, _is_stream)
def discarded(facts: Facts) -> Chart:
    """What batches add about the coefficients, and what is lost between them, by theory."""
    drawn = _by_rows(facts, added="theory_gained", discarded="theory_discarded")
    if len(drawn) < 2:
        expected = "two batches of independent features at least"
        raise nothing("no information by theory in its history", expected, "use {solver=amp}")
    gained, lost = (float(np.nansum(series.y)) for series in drawn)
    words = (
        "Nats of information about the coefficients that each batch adds, and what is discarded "
        f"after it with their correlations, by theory: {lost / gained:.0%} in all. "
        f"{'More memory or larger batches would help.' if lost > PAYS * gained else ''}"
    )
    y = Axis("nats per batch", [series.y for series in drawn])
    return Chart("Information by batch", words.rstrip(), Axis(_seen(facts)), y, drawn)


def _usual(facts: Facts) -> NDArray[np.bool_]:
    """Mask of the batches of enough rows: a short one, as at the end of a file, shows chance."""
    rows = facts.column("rows")
    return np.asarray(~(rows < FEW * (np.nanmedian(rows) if facts.has("rows") else 0.0)))


def _by_rows(facts: Facts, **columns: str) -> list[Series]:
    """Columns of the history against rows seen, those that there are."""
    named = columns.items()
    return [Series(name, facts.rows, facts.column(c)) for name, c in named if facts.has(c)]


def _seen(facts: Facts) -> str:
    return "samples seen" if facts.task == "clustering" else "rows seen"
