"""Streaming clustering against MiniBatchKMeans.partial_fit: accuracy, samples a second, memory.

Run as a script; needs scikit-learn and the data sets (MINIAMP_DATA). Prints one table a data set:
accuracy, NMI and ARI of the frozen second pass, cumulative accuracy of the first, samples a second
of the first pass, and the peak of memory that was allocated during it. `--orders` sets the number
of orders of presentation.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from miniamp import datasets
from miniamp.estimators import MiniAMPClusterer


def accuracy(found: Any, truth: Any, size: int) -> float:
    """Share of samples whose cluster is their class, under the best matching of the two."""
    table = np.zeros((size, size))
    np.add.at(table, (found, truth), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(truth))


def paper_start(clusters: int, features: int, seed: int) -> MiniBatchKMeans:
    """Mini-batch K-means as the paper starts it: centres N(0, 1e-3)."""
    start = np.sqrt(1e-3) * np.random.default_rng(seed).normal(size=(clusters, features))
    return MiniBatchKMeans(clusters, init=start, n_init=1, random_state=seed)


def one_pass(model: Any, data: datasets.Labelled, batch: int, seed: int) -> list[float]:
    """Scores of one order: first pass, second pass (accuracy, NMI, ARI), samples a second."""
    clusters = len(data.names)
    order = np.random.default_rng(seed).permutation(len(data.y))
    found = np.zeros(len(order), dtype=np.int64)
    begin = time.perf_counter()
    for low in range(0, len(order), batch):
        rows = order[low : low + batch]
        found[low : low + len(rows)] = model.partial_fit(data.X[rows]).labels_
    seconds = time.perf_counter() - begin
    second = model.predict(data.X)
    return [
        accuracy(found, data.y[order], clusters),
        accuracy(second, data.y, clusters),
        normalized_mutual_info_score(data.y, second),
        adjusted_rand_score(data.y, second),
        len(order) / seconds,
    ]


def peak_memory(model: Any, data: datasets.Labelled, batch: int, batches: int = 20) -> float:
    """Megabytes that partial_fit allocates at most, over the first batches."""
    tracemalloc.start()
    for low in range(0, batches * batch, batch):
        model.partial_fit(data.X[low : low + batch])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def compare(
    name: str,
    data: datasets.Labelled,
    batch: int,
    orders: int,
    models: dict[str, Callable[[int], Any]],
) -> None:
    """One table: a row a model, averages over the orders."""
    size = f"{data.X.shape[0]} samples of {data.X.shape[1]}"
    print(f"\n{name}: {size}, {batch} a batch, {orders} orders")
    header = ("first pass", "second", "worst", "NMI", "ARI", "samples/s", "peak MB")
    print(f"{'':34}" + "".join(f"{title:>11}" for title in header))
    for label, make in models.items():
        runs = np.array([one_pass(make(seed), data, batch, seed) for seed in range(orders)])
        mean = runs.mean(axis=0)
        shown = (mean[0], mean[1], runs[:, 1].min(), mean[2], mean[3])
        memory = peak_memory(make(0), data, batch)
        print(
            f"{label:34}"
            + "".join(f"{value:11.3f}" for value in shown)
            + f"{mean[4]:11.0f}{memory:11.1f}",
            flush=True,
        )
    offline = KMeans(len(data.names), n_init=3, random_state=0).fit_predict(data.X)
    scores = (
        accuracy(offline, data.y, len(data.names)),
        normalized_mutual_info_score(data.y, offline),
        adjusted_rand_score(data.y, offline),
    )
    label = "K-means, all data at once"
    print(f"{label:34}{'':11}{scores[0]:11.3f}{'':11}{scores[1]:11.3f}{scores[2]:11.3f}")


def rivals(clusters: int, features: int) -> dict[str, Callable[[int], Any]]:
    return {
        "MiniBatchKMeans, the paper's start": lambda seed: paper_start(clusters, features, seed),
        "MiniBatchKMeans, k-means++ x 3": lambda seed: MiniBatchKMeans(
            clusters, n_init=3, random_state=seed
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--only", default="", help="run only the tables whose name has this in it")
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    def wanted(name: str) -> bool:
        return options.only in name

    if wanted("MNIST 0, 1, 2"):
        data = datasets.load_mnist((0, 1, 2))
        ours = {"miniamp": lambda seed: MiniAMPClusterer(3, random_state=seed)}
        compare("MNIST 0, 1, 2", data, 39, options.orders, {**ours, **rivals(3, 784)})
        data = datasets.Labelled(np.sqrt(data.X), data.y, data.names)
        compare("MNIST 0, 1, 2, square roots", data, 39, options.orders, {**ours, **rivals(3, 784)})
    if wanted("MNIST, ten digits"):
        data = datasets.load_mnist(range(10), dtype=np.float32)
        ours = {"miniamp": lambda seed: MiniAMPClusterer(10, random_state=seed)}
        compare("MNIST, ten digits", data, 392, options.orders, {**ours, **rivals(10, 784)})
    if wanted("newsgroups, the paper's words"):
        for kept in (True, False):
            data = datasets.load_newsgroups(stop_words=kept)
            label = "newsgroups, the paper's words" + ("" if kept else ", no stop words")
            ours = {
                "miniamp": lambda seed: MiniAMPClusterer(3, n_init_batches=80, random_state=seed)
            }
            compare(label, data, 50, options.orders, {**ours, **rivals(3, 1000)})
    if wanted("newsgroups, the recipe"):
        data = datasets.load_newsgroups(words=10_000, stop_words=False, weighting="log")
        ours = {"miniamp": lambda seed: MiniAMPClusterer(3, n_init_batches=8, random_state=seed)}
        compare("newsgroups, the recipe", data, 500, options.orders, {**ours, **rivals(3, 10_000)})


if __name__ == "__main__":
    main()
