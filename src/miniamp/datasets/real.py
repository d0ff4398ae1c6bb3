"""Real data sets, as the paper prepares them: MNIST digits, and 20 newsgroups (Usenet of 1993)."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError

#: Environment variable that names the folder with the data files.
VARIABLE = "MINIAMP_DATA"
T = TypeVar("T")
#: A scipy CSR array (documents, words).
Counts: TypeAlias = sp.csr_array


class MissingDataError(InvalidInputError, FileNotFoundError):
    """A data set is not on this machine; the message says how to get it."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Samples with a known class each."""

    X: Array  #: (M, N) array or scipy.sparse matrix, one row per sample
    y: Array  #: (M,) array of int: the classes, by their index in `names`
    names: tuple[str, ...]  #: of the classes
    features: tuple[str, ...] = ()  #: names of the features; empty where they have none

    def __repr__(self) -> str:
        return f"<{self.X.shape[0]} samples of {self.X.shape[1]} features, classes {self.names}>"


def file_in_folder(name: str) -> Path | None:
    """The path of a data file in the folder that MINIAMP_DATA names, if it is there."""
    named = os.environ.get(VARIABLE, "")
    return Path(named) / name if named and (Path(named) / name).is_file() else None


def _found(
    name: str, what: str, read: Callable[[Path], T], fetcher: str, fetch: Callable[[], T]
) -> T:
    """A data set from its file in that folder, else from scikit-learn's cache."""
    path = file_in_folder(name)
    if path is not None:
        return read(path)
    try:
        return fetch()
    except (ImportError, OSError) as error:
        raise MissingDataError(
            what,
            "no such data on this machine",
            f"{name} in the folder that the environment variable {VARIABLE} names, or a copy in "
            "scikit-learn's cache",
            f"on a machine with a network run once sklearn.datasets.{fetcher}, or set {VARIABLE} "
            f"to a folder that has {name}",
        ) from error


def load_mnist(digits: int | Sequence[int] = (0, 1, 2), dtype: DTypeLike = np.float64) -> Labelled:
    """All images of some digits, training and test set together, pixels between 0 and 1.

    Looked for as mnist.npz in the folder that MINIAMP_DATA names, then in scikit-learn's cache of
    fetch_openml("mnist_784"), which fetches it where there is a network.

    Parameters
    ----------
    digits : sequence of int, or one
        Which digits, each of 0 to 9.
    dtype : dtype
        Type of the pixels; float32 takes half the memory.

    Returns
    -------
    Labelled
        X is (M, 784); y the index into `digits` of each image.

    Examples
    --------
    >>> data = load_mnist(digits=(0, 1, 2))                     # doctest: +SKIP
    >>> data.X.shape                                            # doctest: +SKIP
    (21770, 784)
    """
    wanted = [checks.count("digits", digit, least=0) for digit in np.ravel(digits).tolist()]
    if not wanted or max(wanted) > 9 or len(set(wanted)) < len(wanted):
        raise checks.refuse(
            "digits", digits, "different whole numbers from 0 to 9", "such as (0, 1, 2)"
        )
    fetcher = "fetch_openml('mnist_784', as_frame=False)"
    images, labels = _found("mnist.npz", "MNIST", _read_mnist, fetcher, _fetch_mnist)
    place = np.full(10, -1)
    place[wanted] = np.arange(len(wanted))
    chosen = place[labels] >= 0
    X = images[chosen].reshape(-1, 784).astype(dtype) / np.asarray(255.0, dtype=dtype)
    return Labelled(X, place[labels[chosen]], tuple(str(digit) for digit in wanted))


def _read_mnist(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    with np.load(path) as arrays:
        images = np.concatenate([arrays["x_train"], arrays["x_test"]])
        labels = np.concatenate([arrays["y_train"], arrays["y_test"]])
    return images, labels.astype(np.int64)


def _fetch_mnist() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from sklearn.datasets import fetch_openml

    found = fetch_openml("mnist_784", version=1, as_frame=False, parser="liac-arff")
    return found.data.astype(np.uint8), found.target.astype(np.int64)


def load_newsgroups(
    hierarchies: Sequence[str] = ("comp", "rec", "sci"),
    words: int = 1000,
    *,
    stop_words: bool = True,
    weighting: str = "tf-idf",
) -> Labelled:
    """All posts of some hierarchies, training and test set together, as sparse word features.

    By default as in the paper's appendix. Looked for as 20newsgroups.jsonl.gz in the folder that
    MINIAMP_DATA names, then in scikit-learn's cache of fetch_20newsgroups.

    Parameters
    ----------
    hierarchies : sequence of str
        Top levels of the groups' names: they are the classes.
    words : int
        How many words.
    stop_words : bool
        Whether the commonest English words ("the", "and"), by scikit-learn's list, are kept.
    weighting : "tf-idf", "log" or "counts"
        "tf-idf": the paper's, every document rescaled to maximum 1. "log": (1 + log count) times
        log inverse frequency, every document of length 1; the recipe that clusters best. "counts".

    Returns
    -------
    Labelled
        X is a CSR matrix (documents, words); y the index into `hierarchies` of each document.

    Examples
    --------
    >>> data = load_newsgroups(("comp", "rec", "sci"))          # doctest: +SKIP
    >>> data.X.shape                                            # doctest: +SKIP
    (12822, 1000)
    """
    words = checks.count("words", words)
    if weighting not in WEIGHTINGS:
        raise checks.refuse(
            "weighting", repr(weighting), f"one of {tuple(WEIGHTINGS)}", "choose one of them"
        )
    name, fetcher = "20newsgroups.jsonl.gz", "fetch_20newsgroups(subset='all')"
    texts, groups = _found(name, "20 newsgroups", _read_posts, fetcher, _fetch_posts)
    tops = np.array([group.split(".")[0] for group in groups])
    unknown = [name for name in hierarchies if name not in tops]
    if unknown or not len(hierarchies):
        raise checks.refuse(
            "hierarchies", hierarchies, f"some of {sorted(set(tops))}", "take top-level names"
        )
    chosen = np.flatnonzero(np.isin(tops, list(hierarchies)))
    y = np.array([list(hierarchies).index(tops[i]) for i in chosen])
    X, features = count_words((texts[i] for i in chosen), words, stop_words)
    return Labelled(WEIGHTINGS[weighting](X), y, tuple(hierarchies), features)


def count_words(
    texts: Iterable[str], words: int, stop_words: bool = True
) -> tuple[Counts, tuple[str, ...]]:
    """Counts (documents, words) of the most frequent words, as CSR, and those words.

    Words have two or more letters, digits or underscores, and are in lower case.

    Examples
    --------
    >>> X, features = count_words(["red red green", "green blue green"], words=2)
    >>> X.toarray(), features
    (array([[1., 2.],
           [2., 0.]]), ('green', 'red'))
    """
    text = checks.needed("sklearn.feature_extraction.text", "counting words")
    counter = text.CountVectorizer(stop_words=None if stop_words else "english", dtype=np.float64)
    counts = counter.fit_transform(texts)
    # Of words that are equally frequent the first in the alphabet.
    often = np.sort(np.argsort(-np.ravel(counts.sum(axis=0)), kind="stable")[:words])
    found = sp.csr_array(counts[:, often]).sorted_indices()
    return found, tuple(counter.get_feature_names_out()[often])


def tf_idf(counts: Counts) -> Counts:
    """Term frequency times inverse document frequency, every document rescaled to maximum 1.

    The inverse frequency is smoothed, log((1 + M)/(1 + df)) + 1. A document without any of the
    words stays zero.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> tf_idf(sp.csr_array([[2.0, 1.0], [0.0, 1.0]])).toarray().round(3)
    array([[1.   , 0.356],
           [0.   , 1.   ]])
    """
    text = checks.needed("sklearn.feature_extraction.text", "tf-idf")
    scale = checks.needed("sklearn.preprocessing", "tf-idf").normalize
    return sp.csr_array(scale(text.TfidfTransformer(norm=None).fit_transform(counts), norm="max"))


def log_idf(counts: Counts) -> Counts:
    """(1 + log count) log(M / df), every document brought to Euclidean length 1.

    A word that comes twice counts little more than one that comes once, and a long document no more
    than a short one.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> log_idf(sp.csr_array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 5.0]])).toarray()
    array([[1., 0., 0.],
           [0., 0., 0.],
           [0., 0., 1.]])
    """
    X = sp.csr_array(counts, dtype=np.float64, copy=True)
    frequency = np.maximum(np.bincount(X.indices, minlength=X.shape[1]), 1)
    X.data = (1.0 + np.log(X.data)) * np.log(X.shape[0] / frequency)[X.indices]
    length = np.sqrt(X.power(2).sum(axis=1))
    X.data /= np.repeat(np.where(length > 0.0, length, 1.0), np.diff(X.indptr))
    return X


#: How counts become features, by name.
WEIGHTINGS: dict[str, Callable[[Counts], Counts]] = {
    "tf-idf": tf_idf,
    "log": log_idf,
    "counts": lambda counts: counts,
}


def _read_posts(path: Path) -> tuple[list[str], list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        posts = [json.loads(line) for line in lines]
    return [post["text"] for post in posts], [post["target"] for post in posts]


def _fetch_posts() -> tuple[list[str], list[str]]:
    from sklearn.datasets import fetch_20newsgroups

    found = fetch_20newsgroups(subset="all", shuffle=False)
    return list(found.data), [found.target_names[i] for i in found.target]
