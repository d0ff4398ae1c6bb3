"""The right of figure 3: digits and newsgroups in random order, Mini-AMP and mini-batch K-means."""

from __future__ import annotations

import warnings
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from miniamp.datasets import Labelled, load_mnist, load_newsgroups
from miniamp.datasets.location import file_in_folder
from miniamp.experiments.streaming import MINI_AMP
from miniamp.experiments.tables import Row

CLUSTERS, ALPHA_B = 3, 0.05
KMEANS, KMEANS_PP = "mini-batch K-means", "mini-batch K-means, k-means++ x 3"
METHODS = (MINI_AMP, KMEANS, KMEANS_PP)
#: Variance of the paper's random centres.
START_VARIANCE = 1e-3
#: Points of a cumulative curve that are kept.
POINTS = 40

DATA = ("mnist", "newsgroups", "newsgroups-stop")


@lru_cache(maxsize=2)
def load(data: str) -> Labelled:
    """A data set, once in each process."""
    if data == "mnist":
        return load_mnist((0, 1, 2))
    return load_newsgroups(("comp", "rec", "sci"), words=1000, stop_words=data == "newsgroups")


def available(data: str) -> bool:
    """Whether the files are there; nothing is read, and nothing fetched from a network."""
    name = "mnist.npz" if data == "mnist" else "20newsgroups.jsonl.gz"
    if file_in_folder(name) is not None:
        return True
    try:
        from sklearn.datasets import get_data_home
    except ImportError:
        return False
    home = Path(get_data_home())
    if data != "mnist":
        return (home / "20news-bydate_py3.pkz").exists()
    # A fetch that failed leaves folders and short descriptions; the images are some 15 MB.
    files = (home / "openml").rglob("*.gz")
    return any(file.stat().st_size > 10_000_000 for file in files)


def presented(data: str, method: str, seed: int, samples: int | None) -> list[Row]:
    """One order of presentation: cumulative accuracy of both passes, and the final scores."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    given = load(data)
    order = np.random.default_rng(seed).permutation(len(given.y))[:samples]
    X, y = given.X[order], given.y[order]
    batch = round(ALPHA_B * X.shape[1])
    model = _model(method, seed, X.shape[1])
    first = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # early batches may leave a cluster empty
        # A remainder too small to be a batch goes to the one before.
        edges = [*range(0, len(y) - batch + 1, batch), len(y)]
        for low, high in pairwise(edges):
            if high > low:
                first.append(np.asarray(model.partial_fit(X[low:high]).labels_))
    rows: list[Row] = []
    for number, labels in enumerate((np.concatenate(first), model.predict(X)), start=1):
        who = {"method": method, "seed": seed, "pass": number}
        seen = np.unique(np.geomspace(batch, len(y), POINTS).astype(int))
        rows += [
            {
                **who,
                "kind": "cumulative",
                "samples": int(m),
                "accuracy": accuracy(y[:m], labels[:m]),
            }
            for m in seen
        ]
        rows.append(
            {
                **who,
                "kind": "final",
                "samples": len(y),
                "accuracy": accuracy(y, labels),
                "nmi": float(normalized_mutual_info_score(y, labels)),
                "ari": float(adjusted_rand_score(y, labels)),
            }
        )
    return rows


def accuracy(y: Any, labels: Any) -> float:
    """Share of samples in the right cluster when clusters are matched with classes at best.

    Examples
    --------
    >>> import numpy as np
    >>> accuracy(np.array([0, 0, 1, 2]), np.array([2, 2, 0, 0]))
    0.75
    """
    table = np.zeros((CLUSTERS, CLUSTERS))
    np.add.at(table, (y, labels), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(y))


def _model(method: str, seed: int, features: int) -> Any:
    if method == MINI_AMP:
        from miniamp.estimators import MiniAMPClusterer

        return MiniAMPClusterer(CLUSTERS, prior="nonnegative", prior_var=0.1, random_state=seed)
    from sklearn.cluster import MiniBatchKMeans

    if method == KMEANS_PP:
        return MiniBatchKMeans(CLUSTERS, init="k-means++", n_init=3, random_state=seed)
    rng = np.random.default_rng([seed, 1])
    centres = np.sqrt(START_VARIANCE) * rng.normal(size=(CLUSTERS, features))
    return MiniBatchKMeans(CLUSTERS, init=centres, n_init=1, random_state=seed)
