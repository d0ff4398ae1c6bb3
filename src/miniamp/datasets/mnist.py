"""MNIST handwritten digits, as the paper prepares them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from miniamp import checks
from miniamp.datasets.location import Labelled, file_in_folder, missing


def load_mnist(digits: Sequence[int] = (0, 1, 2), dtype: DTypeLike = np.float64) -> Labelled:
    """All images of some digits, training and test set together, pixels between 0 and 1.

    Looked for as mnist.npz in the folder that MINIAMP_DATA names, then in scikit-learn's cache of
    fetch_openml("mnist_784"), which fetches it where there is a network.

    Parameters
    ----------
    digits : sequence of int
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
    wanted = [checks.count("digits", digit, least=0) for digit in digits]
    if not wanted or max(wanted) > 9 or len(set(wanted)) < len(wanted):
        raise checks.refuse(
            "digits", digits, "different whole numbers from 0 to 9", "such as (0, 1, 2)"
        )
    images, labels = _from_folder() or _from_scikit_learn()
    place = np.full(10, -1)
    place[wanted] = np.arange(len(wanted))
    chosen = place[labels] >= 0
    X = images[chosen].reshape(-1, 784).astype(dtype) / np.asarray(255.0, dtype=dtype)
    return Labelled(X, place[labels[chosen]], tuple(str(digit) for digit in wanted))


def _from_folder() -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
    path = file_in_folder("mnist.npz")
    if path is None:
        return None
    with np.load(path) as arrays:
        images = np.concatenate([arrays["x_train"], arrays["x_test"]])
        labels = np.concatenate([arrays["y_train"], arrays["y_test"]])
    return images, labels.astype(np.int64)


def _from_scikit_learn() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    fetcher = "sklearn.datasets.fetch_openml('mnist_784', as_frame=False)"
    try:
        from sklearn.datasets import fetch_openml

        found = fetch_openml("mnist_784", version=1, as_frame=False, parser="liac-arff")
    except (ImportError, OSError) as error:
        raise missing("MNIST", "mnist.npz", fetcher) from error
    return found.data.astype(np.uint8), found.target.astype(np.int64)
