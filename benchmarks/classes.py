"""Several classes by one joint posterior, against one model per class: log loss and seconds.

    python -m benchmarks.classes [--out FOLDER]

Eight data sets in batches of 50 rows, 70 % of the rows for learning, two random
orders. A model per class against the others is what `solver="amp"` and priors that are not Gaussian
use; here it is asked for by switching the joint posterior off.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn import datasets as bundled
from sklearn.metrics import log_loss

from benchmarks.timing import write_csv
from miniamp.estimators import MiniAMPClassifier
from miniamp.estimators.settings import ModelSettings

#: Where the manual keeps its tables.
MANUAL = Path(__file__).parent.parent / "docs" / "benchmarks"
ORDERS = 2


def problems() -> Iterator[tuple[str, np.ndarray, np.ndarray, int]]:
    """Name, rows, labels and batch size of each data set."""
    for name in ("iris", "wine", "digits"):
        data = getattr(bundled, f"load_{name}")()
        yield name, data.data, data.target, 50
    for name, bins in (("diabetes in three bins", 3), ("diabetes in four bins", 4)):
        data = bundled.load_diabetes()
        edges = np.quantile(data.target, np.arange(1, bins) / bins)
        yield name, data.data, np.digitize(data.target, edges), 50
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(2000, 1))
    yield "uniform in four bins", x, np.digitize(x[:, 0], [0.25, 0.5, 0.75]), 50
    X = rng.normal(size=(3000, 20))
    scores = X @ rng.normal(size=(20, 5)) + rng.gumbel(size=(3000, 5))
    yield "softmax, five classes", X, scores.argmax(axis=1), 50
    X, y = bundled.make_classification(
        2000, 10, n_informative=4, n_classes=3, class_sep=0.7, random_state=0
    )
    yield "three classes of two clusters", X, y, 50


def measured(X: np.ndarray, y: np.ndarray, size: int, seed: int) -> tuple[float, float]:
    """Log loss on the rows that were not learned from, and CPU seconds of learning."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [int(0.7 * len(y))])
    model, classes = MiniAMPClassifier(), np.unique(y)
    begin = time.process_time()
    for k in range(0, len(train), size):
        part = train[k : k + size]
        model.partial_fit(X[part], y[part], classes=classes)
    seconds = time.process_time() - begin
    return log_loss(y[test], model.predict_proba(X[test]), labels=classes), seconds


def table() -> Iterator[dict[str, object]]:
    """One row per data set."""
    together = ModelSettings.joins
    for name, X, y, size in problems():
        row: dict[str, object] = {"data": name, "rows": len(y), "features": X.shape[1]}
        for kind, joins in (("joint", together), ("each", lambda *_: False)):
            ModelSettings.joins = joins
            found = np.mean([measured(X, y, size, seed) for seed in range(ORDERS)], axis=0)
            row |= {f"{kind}_log_loss": f"{found[0]:.4f}", f"{kind}_seconds": f"{found[1]:.2f}"}
        ModelSettings.joins = together
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classes", description=__doc__)
    parser.add_argument("--out", type=Path, default=MANUAL)
    warnings.simplefilter("ignore")
    rows = []
    for row in table():
        rows.append(row)
        print(row, flush=True)
    write_csv(parser.parse_args().out / "classes.csv", rows)


if __name__ == "__main__":
    main()
