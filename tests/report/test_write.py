"""The page is whole, needs no network, and shows what the estimator knows."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from miniamp import MiniAMPRegressor
from miniamp.errors import InvalidInput
from miniamp.report import write_report
from miniamp.report.facts import MOST_BATCHES, Facts
from miniamp.report.write import sections

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
    assert seen.fetched == []
    assert len(figures(text)) == text.count('class="plot"')
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_regression_shows_all_that_was_promised(regressor, tmp_path):
    text = write_report(regressor, tmp_path / "r.html").read_text(encoding="utf-8")
    wanted = {
        "Error and forecast by batch",
        "Coefficients",
        "Inclusion",
        "Coverage",
        "E against V",
        "Health",
        "Hyper-parameters",
    }
    assert wanted <= set(outline(text).headings)


def test_figures_are_what_plotly_takes(model):
    tokens = {"@ink": "black", "@muted": "grey", "@grid": "grey", "@band": "grey"}
    for section in sections(Facts.of(model)):
        text = re.sub(
            r'"(@\w+)"', lambda m: f'"{tokens.get(m[1], "red")}"', json.dumps(section.figure)
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


def test_a_forecast_is_drawn_beside_the_error(regressor):
    facts = Facts.of(regressor)
    names = [trace["name"] for trace in sections(facts, ([0, 100], [2.0, 0.5]))[0].figure["data"]]
    assert names[0] == "made"
    assert names[-1] == "forecast"


@pytest.mark.parametrize("forecast", [1.0, ([1, 2], [1.0]), "text", (["a"], ["b"])])
def test_a_forecast_that_is_none_is_refused(regressor, tmp_path, forecast):
    with pytest.raises(InvalidInput, match="forecast"):
        write_report(regressor, tmp_path / "r.html", forecast=forecast)
    assert list(tmp_path.iterdir()) == []


def test_an_estimator_without_a_history_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="call fit first"):
        write_report(MiniAMPRegressor(), tmp_path / "r.html")
    with pytest.raises(InvalidInput, match="estimator"):
        write_report("a model", tmp_path / "r.html")


def test_a_folder_that_is_not_there_is_named(regressor, tmp_path):
    with pytest.raises(InvalidInput, match="nowhere"):
        write_report(regressor, tmp_path / "nowhere" / "r.html")


def test_one_batch_is_enough(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    path = write_report(MiniAMPRegressor().fit(X, X[:, 0]), tmp_path / "r.html")
    assert "Coverage" not in outline(path.read_text(encoding="utf-8")).headings


def test_long_streams_are_thinned(regressor):
    long = MiniAMPRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    long.history_ = [dict(regressor.history_[-1], batch=k, rows_seen=50 * k) for k in range(3000)]
    facts = Facts.of(long)
    assert len(facts.history) == MOST_BATCHES
    assert facts.batches[0] == 1
    assert facts.batches[-1] == 3000
