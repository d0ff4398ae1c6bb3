"""The page is whole, needs no network, and shows what the estimator knows."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from miniamp import MiniAMPClassifier, MiniAMPClusterer, MiniAMPRegressor
from miniamp.errors import InvalidInputError
from miniamp.report import choices, write_report
from miniamp.report.chart import plotly
from miniamp.report.coefficients import neighbours
from miniamp.report.facts import MOST_BATCHES, Facts
from miniamp.report.page import charts
from miniamp.report.stream import sound_band

go = pytest.importorskip("plotly.graph_objects")


class Outline(HTMLParser):
    """Headings, and whatever a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.headings, self.fetched, self._inside = [], [], False

    def handle_starttag(self, tag, attrs):
        self._inside = tag in ("h1", "h2")
        fetched = [value for name, value in attrs if name in ("src", "href")]
        self.fetched += [value for value in fetched if not value.startswith("data:")]

    def handle_endtag(self, tag):
        self._inside = False

    def handle_data(self, data):
        if self._inside:
            self.headings.append(data)


def outline(text):
    parser = Outline()
    parser.feed(re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL))
    return parser


def figures(text):
    (found,) = re.findall(r'id="figures">(.*?)</script>', text, flags=re.DOTALL)
    return json.loads(found)


def test_every_kind_of_estimator_has_a_page(model, tmp_path):
    path = write_report(model, tmp_path / "report.html", title="A <stream>")
    text = path.read_text(encoding="utf-8")
    seen = outline(text)
    assert seen.headings[0] == "A <stream>"
    assert "What was chosen, and why" in seen.headings
    assert "Health" in seen.headings
    assert any(heading.startswith("Table of ") for heading in seen.headings)
    assert seen.fetched == []
    assert len(figures(text)) == text.count('class="plot"')
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_regression_shows_all_that_was_promised(regressor, tmp_path):
    text = write_report(regressor, tmp_path / "r.html").read_text(encoding="utf-8")
    wanted = {
        "Prediction error by batch",
        "Coefficients",
        "Inclusion",
        "Coverage",
        "Residuals",
        "Table of coefficients",
        "Data",
        "Observed against predicted error",
        "Health",
        "Learned parameters",
    }
    assert wanted <= set(outline(text).headings)


def test_figures_are_what_plotly_takes(model):
    tokens = {"@ink": "black", "@muted": "grey", "@grid": "grey", "@band": "grey"}
    for chart in charts(Facts.of(model)):
        text = re.sub(
            r'"(@\w+)"', lambda m: f'"{tokens.get(m[1], "red")}"', json.dumps(plotly(chart))
        )
        go.Figure(json.loads(text))  # raises where a property has no such name or value


def test_names_of_features_cannot_break_the_page(regressor, tmp_path):
    text = write_report(regressor, tmp_path / "r.html").read_text(encoding="utf-8")
    shown = next(
        f
        for f in figures(text)
        if "ticktext" in f["layout"]["yaxis"] and f["data"][0].get("error_x")
    )
    assert "&lt;/script&gt;&lt;b&gt;" in shown["layout"]["yaxis"]["ticktext"]
    assert "@1" in shown["layout"]["yaxis"]["ticktext"]


def test_an_estimator_without_a_history_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="call fit first"):
        write_report(MiniAMPRegressor(), tmp_path / "r.html")
    with pytest.raises(InvalidInputError, match="estimator"):
        write_report("a model", tmp_path / "r.html")


def test_a_folder_that_is_not_there_is_named(regressor, tmp_path):
    with pytest.raises(InvalidInputError, match="nowhere"):
        write_report(regressor, tmp_path / "nowhere" / "r.html")


def test_one_batch_is_enough(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    path = write_report(MiniAMPRegressor().fit(X, X[:, 0]), tmp_path / "r.html")
    headings = outline(path.read_text(encoding="utf-8")).headings
    assert "A single batch" in headings
    # What changes from batch to batch has nothing to show.
    assert not {"Coverage", "Health", "Learned parameters", "Prediction error by batch"} & {
        *headings
    }
    assert {"Coefficients", "Table of coefficients", "Data"} <= {*headings}
    assert "noise, standard deviation" in path.read_text(encoding="utf-8")


def test_errors_are_told_for_all_rows_and_for_the_latest(regressor, tmp_path):
    text = write_report(regressor, tmp_path / "r.html").read_text(encoding="utf-8")
    scored = [e for e in regressor.history_ if "error" in e]
    every = np.sqrt(np.average([e["error"] for e in scored], weights=[e["rows"] for e in scored]))
    assert f"<b>{every:.4g}</b><span>root mean squared error, all unseen rows</span>" in text
    last = np.sqrt(scored[-1]["error"])
    assert f"<b>{last:.4g}</b><span>root mean squared error, latest 50 rows</span>" in text


def test_a_short_last_batch_is_no_measure_of_the_error(tmp_path):
    """Batches of 40, 40, 40 and 2 rows: the latest error is that of 42."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(122, 2))
    model = MiniAMPRegressor()
    for k in range(0, 122, 40):
        model.partial_fit(X[k : k + 40], X[k : k + 40, 0] + rng.normal(size=len(X[k : k + 40])))
    facts = Facts.of(model)
    text = write_report(model, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "root mean squared error, latest 42 rows" in text
    assert len(facts.everything) == 4
    assert [len(series.x) for series in charts(facts)[0].series] == [2, 2]


def test_tables_sort_by_the_numbers_not_by_their_text(regressor, tmp_path):
    text = write_report(regressor, tmp_path / "r.html").read_text(encoding="utf-8")
    table = text.split('<table class="sortable">')[1].split("</table>")[0]
    values = [float(value) for value in re.findall(r'data-value="([^"]+)"', table)]
    assert set(regressor.coef_.tolist()) <= set(values)
    assert table.count("<button") == 8  # name, mean, std, ends, P(>0), inclusion, effect


def test_long_streams_are_thinned(regressor):
    last = regressor.history_[-1]
    long = [dict(last, batch=k, rows_seen=50 * k) for k in range(3000)]
    facts = Facts.of(regressor)
    facts.everything = long
    assert len(facts.history) == MOST_BATCHES
    assert facts.batches[0] == 1
    assert facts.batches[-1] == 3000


@pytest.mark.parametrize("kind", ["classifier", "many_classes"])
def test_a_classification_shows_all_that_was_promised(kind, request, tmp_path):
    model = request.getfixturevalue(kind)
    text = write_report(model, tmp_path / "r.html").read_text(encoding="utf-8")
    wanted = {
        "Prediction error by batch",
        "Coefficients",
        "Reliability",
        "Confusion matrix",
        "ROC curve",
        "Observed against predicted error",
        "Health",
        "Remaining uncertainty",
        "Learned parameters",
        "No problems found",
    }
    assert wanted <= set(outline(text).headings)


def test_a_clustering_shows_its_clusters_and_its_choices(clusterer, tmp_path):
    text = write_report(clusterer, tmp_path / "r.html").read_text(encoding="utf-8")
    wanted = {"Noise by batch", "Clusters", "Centres", "Health", "All clusters are separate"}
    assert wanted <= set(outline(text).headings)
    bars = next(f["data"][0] for f in figures(text) if f["data"][0]["type"] == "bar")
    assert bars["x"] == sorted(clusterer.cluster_weights_, reverse=True)
    assert "best of 5, repeated in the first 5 batches" in text
    assert "variational mean field" in text
    assert '<td class="number">4</td>' in text.split("<details>")[1]  # batches count from 1


def test_clusters_that_are_one_are_named(tmp_path):
    """One Gaussian in 10 dimensions halved: the centres are 2 sqrt(2/pi) = 1.6 apart."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 10))
    X[::2, 0] += 12.0
    model = MiniAMPClusterer(3, batch_size=400, random_state=0).fit(X)
    facts = Facts.of(model)
    nearest, far = neighbours(facts)
    a = int(np.argmin(far))
    assert far[a] < 2.0
    text = write_report(model, tmp_path / "r.html").read_text(encoding="utf-8")
    first, second = sorted((a, int(nearest[a])))
    told = f"Cluster {first} and cluster {second} overlap"
    assert any(heading.startswith(told) for heading in outline(text).headings)


def test_the_band_of_health_is_as_wide_as_chance(regressor):
    """Batches of 50 rows: the mean of 50 squares has a deviation of sqrt(2/50) = 0.2."""
    low, high = sound_band(Facts.of(regressor))
    assert low == pytest.approx(0.4)
    assert high == pytest.approx(1.6)


def test_a_first_batch_begun_without_a_noise_does_not_squeeze_the_health(regressor):
    facts = Facts.of(regressor)
    first = {**facts.everything[0], "health": 1e-3}
    facts.everything = [first, *facts.everything[1:]]
    figure = plotly(next(chart for chart in charts(facts) if chart.title == "Health"))
    assert figure["layout"]["yaxis"]["type"] == "linear"
    assert figure["layout"]["yaxis"]["range"][1] > 1.6


def test_inclusion_is_told_for_all_classes_together():
    X = np.random.default_rng(5).normal(size=(300, 6))
    model = MiniAMPClassifier("sparse", batch_size=100).fit(X, X[:, :3].argmax(axis=1))
    words = next(chart.words for chart in charts(Facts.of(model)) if chart.title == "Inclusion")
    assert re.fullmatch(
        r"About [\d.]+ of 6 coefficients are not zero \(mean over the classes\); \d+ of all 18 "
        r"with a probability above 95 %\.",
        words,
    )


def test_several_targets_have_one_report(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    Y = pd.DataFrame({"near": X[:, 0], "far": 100.0 * X[:, 1]}) + rng.normal(size=(300, 2))
    model = MiniAMPRegressor(batch_size=60).fit(X, Y)
    write_report(model, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "regression of 2 targets (near, far), 300 rows" in text
    assert "means over the targets" in text


def test_what_batches_discard_is_drawn_where_theory_follows(regressor):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 100))
    y = X @ rng.normal(size=100) + rng.normal(size=600)
    made = MiniAMPRegressor(solver="amp", memory=0, batch_size=200, random_state=0).fit(X, y)
    (chart,) = [c for c in charts(Facts.of(made)) if c.title == "Information by batch"]
    gained, lost = (series.y for series in chart.series)
    assert gained.tolist() == [entry["theory_gained"] for entry in made.history_]
    assert np.all((lost > 0.0) & (lost < gained))
    assert f"{lost.sum() / gained.sum():.0%} in all" in chart.words
    assert "Information by batch" not in [c.title for c in charts(Facts.of(regressor))]


def test_the_first_prediction_by_theory_does_not_squeeze_the_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 100))
    y = X @ rng.normal(size=100) + rng.normal(size=600)
    made = MiniAMPRegressor(solver="amp", memory=0, batch_size=200, random_state=0).fit(X, y)
    theory = charts(Facts.of(made))[0].series[-1]
    assert theory.name == "predicted by theory"
    assert theory.x.tolist() == [200.0, 400.0]


def test_a_learned_forgetting_factor_is_drawn(regressor):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    made = MiniAMPRegressor(forget="auto", batch_size=50, random_state=0).fit(X, X[:, 0])
    (chart,) = [c for c in charts(Facts.of(made)) if c.title == "Forgetting"]
    assert chart.series[0].y.tolist() == [entry["forget"] for entry in made.history_]
    assert "Forgetting" not in [c.title for c in charts(Facts.of(regressor))]


def test_batches_that_waited_are_explained():
    X = np.random.default_rng(0).normal(size=(120, 2))
    made = MiniAMPRegressor(batch_size=20, random_state=0).fit(X, X[:, 0])
    (batch,) = [choice for choice in choices(made) if choice.what == "batch"]
    assert batch.chosen == "40 rows"
    assert "wait until there are 32" in batch.why


def test_a_clustering_of_one_batch_shows_no_noise_by_batch_and_centres_side_by_side(tmp_path):
    """Years beside litres: centres are drawn in standard deviations of each feature."""
    rng = np.random.default_rng(0)
    X = np.repeat([[1999.0, 2.0], [2008.0, 5.0]], 60, axis=0) + 0.3 * rng.normal(size=(120, 2))
    model = MiniAMPClusterer(2, random_state=0).fit(X)
    drawn = {chart.title: chart for chart in charts(Facts.of(model))}
    assert set(drawn) == {"Clusters", "Centres"}
    assert max(np.abs(series.x).max() for series in drawn["Centres"].series) < 2.0
    text = write_report(model, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "All clusters are separate" in text
    assert "1999.0 ±" in model.summary_text()
