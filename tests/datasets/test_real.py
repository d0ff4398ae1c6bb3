"""MNIST and 20 newsgroups: loading, and clustering their streams ahead of K-means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from miniamp import datasets
from miniamp.errors import InvalidInputError

HAVE = {
    name: (Path(os.environ.get("MINIAMP_DATA", "")) / name).is_file()
    and bool(os.environ.get("MINIAMP_DATA"))
    for name in ("mnist.npz", "20newsgroups.jsonl.gz")
}
needs_mnist = pytest.mark.skipif(
    not HAVE["mnist.npz"], reason="MINIAMP_DATA names no folder with mnist.npz"
)
needs_news = pytest.mark.skipif(
    not HAVE["20newsgroups.jsonl.gz"],
    reason="MINIAMP_DATA names no folder with 20newsgroups.jsonl.gz",
)


def accuracy(found: Any, truth: Any) -> float:
    size = int(max(found.max(), truth.max())) + 1
    table = np.zeros((size, size))
    np.add.at(table, (found, truth), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(truth))


@needs_mnist
def test_mnist_is_what_the_paper_used() -> None:
    data = datasets.load_mnist(digits=(0, 1, 2))
    assert data.X.shape == (21770, 784)
    assert data.X.min() == 0.0
    assert data.X.max() == 1.0
    assert np.bincount(data.y).tolist() == [6903, 7877, 6990]
    assert data.names == ("0", "1", "2")
    assert datasets.load_mnist(digits=(3, 8), dtype=np.float32).X.dtype == np.float32


@needs_news
def test_newsgroups_are_what_the_paper_used() -> None:
    data = datasets.load_newsgroups(("comp", "rec", "sci"), words=1000)
    assert data.X.shape == (12822, 1000)
    assert np.bincount(data.y).tolist() == [4891, 3979, 3952]
    assert len(data.features) == 1000
    assert "the" in data.features
    largest = data.X.max(axis=1).toarray().ravel()
    assert set(largest.round(12).tolist()) <= {0.0, 1.0}


def test_bad_requests_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"^digits: "):
        datasets.load_mnist(digits=(0, 10))
    with pytest.raises(InvalidInputError, match=r"^digits: "):
        datasets.load_mnist(digits=())
    with pytest.raises(InvalidInputError, match=r"^digits: "):
        datasets.load_mnist(digits=12)
    with pytest.raises(InvalidInputError, match=r"^words: "):
        datasets.load_newsgroups(words=0)


def test_missing_data_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setenv("MINIAMP_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)  # as if it were not installed
    with pytest.raises(datasets.MissingDataError, match="MINIAMP_DATA"):
        datasets.load_mnist()
    with pytest.raises(datasets.MissingDataError, match="fetch_20newsgroups"):
        datasets.load_newsgroups()


@needs_news
def test_unknown_hierarchies_are_named() -> None:
    with pytest.raises(InvalidInputError, match=r"^hierarchies: "):
        datasets.load_newsgroups(("comp", "gossip"), words=10)


def stream_mnist(model: Any, X: Any, y: Any, seed: int) -> tuple[np.ndarray, float]:
    """Cumulative accuracy after each batch of 39, and that of a frozen second pass."""
    order = np.random.default_rng(seed).permutation(len(X))
    found, curve = np.zeros(len(X), dtype=np.int64), []
    for low in range(0, len(X), 39):
        rows = order[low : low + 39]
        model.partial_fit(X[rows])
        found[low : low + len(rows)] = model.labels_
        if low // 39 in CHECKPOINTS:
            curve.append(accuracy(found[: low + len(rows)], y[order[: low + len(rows)]]))
    return np.array(curve), accuracy(model.predict(X), y)


#: Batches (counted from 0) at which the cumulative accuracies are compared: from batch 5 on.
CHECKPOINTS = (5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 400, 500, 557)


def rivals(seed: int) -> list[Any]:
    from sklearn.cluster import MiniBatchKMeans

    start = np.sqrt(1e-3) * np.random.default_rng(seed).normal(size=(3, 784))
    return [
        MiniBatchKMeans(3, init=start, n_init=1, random_state=seed),
        MiniBatchKMeans(3, init="k-means++", n_init=3, random_state=seed),
    ]


def compare(orders: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from miniamp.estimators import MiniAMPClusterer

    data = datasets.load_mnist(digits=(0, 1, 2))
    curves, finals = [], []
    for seed in range(orders):
        models = [MiniAMPClusterer(3, random_state=seed), *rivals(seed)]
        runs = [stream_mnist(model, data.X, data.y, seed) for model in models]
        curves.append([curve for curve, _ in runs])
        finals.append([final for _, final in runs])
    return np.array(curves), np.array(finals)[:, 0], np.array(finals)


@needs_mnist
def test_mnist_one_order() -> None:
    """One order of presentation: the second pass and the first are both above .9."""
    from miniamp.estimators import MiniAMPClusterer

    pytest.importorskip("sklearn")
    data = datasets.load_mnist(digits=(0, 1, 2))
    curve, final = stream_mnist(MiniAMPClusterer(3, random_state=0), data.X, data.y, 0)
    assert final > 0.905
    assert curve[-1] > 0.9


@needs_mnist
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_mnist_twenty_orders() -> None:
    """At least .905 on average, none below .85, and ahead of K-means along the stream."""
    curves, ours, finals = compare(orders=20)
    assert ours.mean() > 0.915
    assert ours.min() > 0.90
    ahead = curves.mean(axis=0)
    assert (ahead[0] > ahead[1:].max(axis=0)).all()
    assert finals[:, 0].mean() > finals[:, 1:].mean(axis=0).max()


@needs_news
@pytest.mark.slow
def test_newsgroups_recipe() -> None:
    """The documented recipe: twice the information that K-means finds on the paper's features."""
    from sklearn.metrics import normalized_mutual_info_score

    from miniamp.estimators import MiniAMPClusterer

    data = datasets.load_newsgroups(words=10_000, stop_words=False, weighting="log")
    order = np.random.default_rng(0).permutation(len(data.y))
    model = MiniAMPClusterer(3, n_init_batches=8, random_state=0)
    for low in range(0, len(order), 500):
        model.partial_fit(data.X[order[low : low + 500]])
    found = model.predict(data.X)
    # Full K-means on the paper's features without stop words: accuracy .55, NMI .146.
    assert accuracy(found, data.y) > 0.6
    assert normalized_mutual_info_score(data.y, found) > 0.3
