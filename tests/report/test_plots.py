"""Each plot on paper shows the numbers of the estimator."""

import sys
from inspect import unwrap

import numpy as np
import pytest

from miniamp import MiniAMPClassifier, MiniAMPRegressor, report
from miniamp.errors import InvalidInputError, MissingExtraError
from miniamp.report import chart, page
from miniamp.report.calibration import coverage_points, reliability_points
from miniamp.report.facts import Facts

pytest.importorskip("matplotlib")


def test_errors_are_those_of_the_history(regressor):
    ax = report.plot_error(regressor)
    made = ax.get_lines()[0]
    recorded = [entry for entry in regressor.history_ if "error" in entry]
    np.testing.assert_allclose(made.get_ydata(), [entry["error"] for entry in recorded])
    np.testing.assert_allclose(made.get_xdata(), [e["rows_seen"] - e["rows"] for e in recorded])


def test_the_most_certain_coefficients_come_first(regressor):
    ax = report.plot_coefficients(regressor, most=2)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["@1", "column 0"]


def test_inclusion_finds_the_two_that_are_at_work(regressor):
    (curve,) = report.plot_inclusion(regressor).get_lines()
    assert list(curve.get_ydata()[:2]) == pytest.approx([1.0, 1.0], abs=1e-6)
    assert curve.get_ydata()[2] < 0.5


def test_coverage_is_right_where_the_model_is(regressor):
    """350 forecast rows: within three standard deviations of chance at every level."""
    level, inside, two_sigma = coverage_points(Facts.of(regressor))
    assert level[-1] == pytest.approx(0.9)
    assert np.all(np.abs(inside - level) < 1.5 * two_sigma)
    recorded = [e for e in regressor.history_ if "coverage" in e]
    share = np.average([e["coverage"] for e in recorded], weights=[e["rows"] for e in recorded])
    assert inside[-1] == pytest.approx(share, abs=1e-12)


def test_reliability_counts_every_forecast(classifier):
    given, came, _, counts = reliability_points(Facts.of(classifier))
    assert counts.sum() == 2 * 350  # both classes of each row after the first batch
    assert counts @ came == pytest.approx(350)
    assert np.all(np.diff(given) > 0.0)


def test_perfect_calibration_lies_on_the_diagonal(regressor):
    """Every twentieth of the forecasts holds as many outcomes."""
    facts = Facts.of(regressor)
    even = [{"calibration": [5] * 20, "rows_seen": 100, "rows": 100, "batch": 0}]
    facts.everything = even
    level, inside, _ = coverage_points(facts)
    np.testing.assert_allclose(inside, level)


#: Plots that not every estimator has something for.
ONLY = {
    "plot_balance": {"regressor", "classifier", "many_classes"},
    "plot_clusters": {"clusterer"},
    "plot_confusion": {"classifier", "many_classes"},
    "plot_coverage": {"regressor"},
    "plot_inclusion": {"regressor"},
    "plot_reliability": {"classifier", "many_classes"},
    "plot_residuals": {"regressor"},
    "plot_roc": {"classifier", "many_classes"},
    "plot_variance": {"regressor", "classifier", "many_classes"},
}


@pytest.mark.parametrize("name", [n for n in report.__all__ if n.startswith("plot_")])
def test_each_draws_on_given_axes_or_says_why_not(name, kind, request, tmp_path):
    from matplotlib.figure import Figure

    figure, model, plot = Figure(), request.getfixturevalue(kind), getattr(report, name)
    ax = figure.subplots()
    if kind not in ONLY.get(name, {kind}):
        with pytest.raises(InvalidInputError, match=r"estimator: got .* expected"):
            plot(model, ax)
        return
    assert plot(model, ax) is ax
    figure.savefig(tmp_path / "plot.png", dpi=20)
    assert ax.get_xlabel()


def test_without_matplotlib_the_extra_is_named(regressor, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"miniamp\[report\]"):
        report.plot_error(regressor)


def test_without_plotly_the_extra_is_named(regressor, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingExtraError, match=r"miniamp\[report\]"):
        report.write_report(regressor, tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_choices_name_the_solver_and_its_reason(regressor):
    found = {choice.what: choice for choice in report.choices(regressor)}
    assert found["solver"].chosen == "robust, 8 batches"
    assert found["solver"].why == regressor.history_[-1]["reason"]
    assert found["batch"].chosen == "50 rows"


def test_a_single_batch_has_no_error_to_plot():
    model = MiniAMPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9])
    with pytest.raises(InvalidInputError, match="got a single batch, expected at least two"):
        report.plot_error(model)


def test_a_new_plot_is_on_the_page_without_another_word(regressor, tmp_path, monkeypatch):
    monkeypatch.setattr(chart, "PAGE", [*chart.PAGE])
    monkeypatch.setattr(page, "PAGE", chart.PAGE)
    own = chart.Chart("Mine", "Words.", chart.Axis("x"), chart.Axis("y"))
    chart.on_page(5)(lambda facts: own)
    assert page.charts(Facts.of(regressor))[0].title == "Mine"


def test_residuals_are_those_of_unseen_rows(regressor):
    """350 rows with noise 0.5: mean residuals within four standard errors of zero, all counted."""
    facts = Facts.of(regressor)
    assert facts.tally.residuals[:, 0].sum() == 350
    series = unwrap(report.plot_residuals)(facts).series[0]
    rows = facts.tally.residuals[:, 0]
    error = series.error_y / np.sqrt(rows[rows > 0.0])
    many = rows[rows > 0.0] > 5
    assert np.all(np.abs(series.y[many]) < 4.0 * error[many])


@pytest.mark.filterwarnings("ignore::miniamp.estimators.HealthWarning")
def test_a_relation_that_is_no_line_shows_in_the_residuals():
    X = np.random.default_rng(0).normal(size=(2000, 1))
    y = X[:, 0] + np.square(X[:, 0])
    series = unwrap(report.plot_residuals)(
        Facts.of(MiniAMPRegressor(batch_size=200, random_state=0).fit(X, y))
    ).series[0]
    inner = np.abs(series.x - series.x.mean()) < 0.5
    assert series.y[0] > series.y[inner].mean() + 0.3
    assert series.y[-1] > series.y[inner].mean() + 0.3


def test_the_confusion_matrix_counts_every_unseen_row(many_classes):
    cells = unwrap(report.plot_confusion)(Facts.of(many_classes)).cells
    np.testing.assert_allclose(cells.shares.sum(axis=1), 1.0)
    assert many_classes._state.tally.confusion.sum() == 240
    assert cells.texts[0][0].startswith(f"{many_classes._state.tally.confusion[0, 0]:.0f} (")


def test_roc_curves_rise_from_none_to_all(many_classes):
    for series in unwrap(report.plot_roc)(Facts.of(many_classes)).series:
        assert (series.x[0], series.y[0]) == (0.0, 0.0)
        assert (series.x[-1], series.y[-1]) == (1.0, 1.0)
        assert np.all(np.diff(series.x) >= 0.0)
        assert np.all(np.diff(series.y) >= 0.0)


def test_a_classifier_shows_one_curve_of_health(classifier):
    chart = page.charts(Facts.of(classifier))
    (series,) = next(one for one in chart if one.title == "Health").series
    assert series.name == "Brier score, unseen rows"


def test_the_band_of_health_leaves_room_for_the_curve():
    """On a logarithmic axis the band ended at zero, and the curve was a line at the top."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    model = MiniAMPClassifier(batch_size=40, random_state=0).fit(X, X[:, 0] + X[:, 1] > 0.0)
    facts = Facts.of(model)
    ratios = np.geomspace(0.02, 2.0, len(facts.everything))
    entries = zip(facts.everything, ratios, strict=True)
    facts.everything = [{**entry, "surprise": ratio} for entry, ratio in entries]
    drawn = unwrap(report.plot_health)(facts)
    assert drawn.y.logarithmic
    assert drawn.band[0] >= 0.5 * drawn.y.finite.min() > 0.0


def test_a_last_batch_of_one_row_is_not_drawn_in_health():
    rng = np.random.default_rng(0)
    X, model = rng.normal(size=(201, 2)), MiniAMPRegressor(on_conflict="raise")
    y = X[:, 0] + rng.normal(size=201)
    for part in (*np.split(np.arange(200), 5), [200]):
        model.partial_fit(X[part], y[part])
    assert model.history_[-1]["rows"] == 1
    for series in unwrap(report.plot_health)(Facts.of(model)).series:
        assert series.x.max() == 200


def test_coefficients_of_different_units_are_drawn_per_standard_deviation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) * [1.0, 1e-4]
    model = MiniAMPRegressor().fit(X, X @ [1.0, 1e4] + 0.1 * rng.normal(size=200))
    ax = report.plot_coefficients(model)
    assert "per standard deviation" in ax.get_xlabel()
    assert max(abs(x) for x in ax.get_xlim()) < 2.0
