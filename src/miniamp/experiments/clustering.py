"""Streams to cluster: a synthetic mixture with its theory, digits and newsgroups."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

import miniamp
from miniamp import channels, priors
from miniamp.absorb import Stop, absorb
from miniamp.arrays import Array
from miniamp.datasets import Labelled, load_mnist, load_newsgroups
from miniamp.datasets.real import file_in_folder
from miniamp.evidence import FactorBatch
from miniamp.experiments.streaming import MINI_AMP, THEORY, seeded
from miniamp.experiments.tables import Row, rows_of
from miniamp.posterior import Posterior
from miniamp.theory import lowrank
from miniamp.tilt import Tilt

# The synthetic mixture.
R, NOISE = 5, 0.1
#: Below this batch size state evolution learns nothing of the labels.
ALPHA_C = R**2 * NOISE**2
SIZES = (0.1, 0.2, 0.3, 0.5, 1.0)
ALPHA_MAX = 4.0
#: Overlap by chance that a finite problem starts with; it grows, so a factor shifts the escape by a
#: batch or two (errata L14).
SEED = 1e-4
SEEDED = f"{THEORY}, seeded"

#: How far a batch below the threshold is iterated decides how fast it leaves the symmetric point.
STOP = Stop(max_iter=200, tol=1e-7)

#: Batches in which a small overlap is watched, each iterated until only that overlap is left.
GROWING, EXACT = 5, Stop(max_iter=300, tol=1e-13)

# Digits and newsgroups.
CLUSTERS, BATCH = 3, 0.05
KMEANS, KMEANS_PP = "mini-batch K-means", "mini-batch K-means, k-means++ x 3"
METHODS = (MINI_AMP, KMEANS, KMEANS_PP)
#: Variance of the paper's random centres.
START_VARIANCE = 1e-3
#: Points of a cumulative curve that are kept.
POINTS = 40

DATA = ("mnist", "newsgroups", "newsgroups-stop")


def predicted(alpha_b: float, seed: float) -> list[Row]:
    """State evolution from the symmetric point, or from a small overlap."""
    curve = lowrank.learning_curve(
        priors.GaussianRows(R), priors.OneHot(R), NOISE, alpha_b, alpha_max=ALPHA_MAX, seed=seed
    )
    return rows_of(
        kind=SEEDED if seed else THEORY, alpha_b=alpha_b, batch=np.arange(1, len(curve.alpha) + 1),
        alpha=curve.alpha, mse=curve.mse, loss=curve.label_error,
    )  # fmt: skip


def drawn(
    rng: np.random.Generator, U: Array, alpha_b: float, batches: int
) -> Iterator[tuple[NDArray[np.int64], FactorBatch]]:
    """Batches of the mixture with centres U: true labels, and the columns."""
    size, channel = len(U), channels.Gaussian(var=NOISE)
    columns = round(alpha_b * size)
    for _ in range(batches):
        labels = rng.integers(R, size=columns)
        Y = U[:, labels] / np.sqrt(size) + np.sqrt(NOISE) * rng.normal(size=(size, columns))
        yield labels, FactorBatch(Y, channel, priors.OneHot(R), rng=rng)


def simulated(alpha_b: float, seed: int, size: int) -> list[Row]:
    """One instance: error of U and 0-1 loss of each batch's labels."""
    rng = seeded(alpha_b, seed, 3)
    U = rng.normal(size=(size, R))
    belief: Posterior = Posterior(priors.GaussianRows(R), size)
    found = []
    for labels, batch in drawn(rng, U, alpha_b, int(ALPHA_MAX / alpha_b + 1e-9)):
        belief, info = absorb(belief, batch, STOP)
        order = matched(U, belief.mean)
        guess = belief.columns[:, order].argmax(axis=1)  # type: ignore[attr-defined]
        error = float(np.mean(np.square(U - belief.mean[:, order])))
        found.append((error, float(np.mean(guess != labels)), info.iterations))
    (mse, loss, iterations), k = zip(*found, strict=True), np.arange(1, len(found) + 1)
    return rows_of(
        kind=MINI_AMP, alpha_b=alpha_b, seed=seed, batch=k, alpha=k * round(alpha_b * size) / size,
        mse=mse, loss=loss, iterations=iterations,
    )  # fmt: skip


def grown(alpha_b: float, seed: int, size: int) -> list[Row]:
    """How a small overlap with the true labels grows per batch below the threshold (errata L14).

    It is put into the linear part of the belief after the first batch, and measured there.
    """
    rng = seeded(alpha_b, seed, 5)
    U = rng.normal(size=(size, R))
    telling = U - U.mean(axis=1, keepdims=True)  # what distinguishes the labels
    belief: Posterior = Posterior(priors.GaussianRows(R), size)
    overlaps = []
    for k, (_, batch) in enumerate(drawn(rng, U, alpha_b, GROWING + 1)):
        belief, _ = absorb(belief, batch, EXACT)
        if k == 0:
            belief = belief.tilted(Tilt(np.zeros((R, R)), SEED * U))
        overlaps.append(float(np.vdot(belief.tilt.B, telling) / np.vdot(telling, telling)))
    growth = np.divide(overlaps[1:], overlaps[:-1])
    return rows_of(alpha_b=alpha_b, seed=seed, batch=np.arange(2, GROWING + 2), growth=growth)


def matched(truth: Array, estimate: Array) -> Array:
    """For each true component, which estimated one stands for it: labels have no names."""
    return np.asarray(linear_sum_assignment(-truth.T @ estimate)[1])


class _Clusterer(Protocol):
    def partial_fit(self, X: Array) -> _Clusterer: ...
    def predict(self, X: Array) -> NDArray[np.int64]: ...

    labels_: NDArray[np.int64]


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
    batch = round(BATCH * X.shape[1])
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
        who: Row = {"method": method, "seed": seed, "pass": number}
        seen = np.unique(np.geomspace(batch, len(y), POINTS).astype(int))
        scores = [accuracy(y[:m], labels[:m]) for m in seen]
        rows += rows_of(**who, kind="cumulative", samples=seen, accuracy=scores)
        mutual, rand = normalized_mutual_info_score(y, labels), adjusted_rand_score(y, labels)
        last = {"samples": len(y), "accuracy": accuracy(y, labels), "nmi": mutual, "ari": rand}
        rows.append({**who, "kind": "final", **last})
    return rows


def accuracy(y: NDArray[np.generic], labels: NDArray[np.int64]) -> float:
    """Share of samples in the right cluster when clusters are matched with classes at best.

    Examples
    --------
    >>> import numpy as np
    >>> accuracy(np.array([0, 0, 1, 2]), np.array([2, 2, 0, 0]))
    0.75
    """
    table = np.zeros((CLUSTERS, CLUSTERS))
    np.add.at(table, (y.astype(np.int64), labels), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(y))


def _model(method: str, seed: int, features: int) -> _Clusterer:
    if method == MINI_AMP:
        return miniamp.MiniAMPClusterer(
            CLUSTERS, prior="nonnegative", prior_var=0.1, random_state=seed
        )
    from sklearn.cluster import MiniBatchKMeans

    if method == KMEANS_PP:
        plus: _Clusterer = MiniBatchKMeans(CLUSTERS, init="k-means++", n_init=3, random_state=seed)
        return plus
    rng = np.random.default_rng([seed, 1])
    centres = np.sqrt(START_VARIANCE) * rng.normal(size=(CLUSTERS, features))
    random: _Clusterer = MiniBatchKMeans(CLUSTERS, init=centres, n_init=1, random_state=seed)
    return random
