"""Can a stream be trusted? Real data, one pass, defaults: nothing stops, error bars hold.

    python -m benchmarks.trust [--quick] [--rows 2000] [--splits 5] [--task regression]
                               [--only NAME] [--extra FOLDER] [--out FOLDER]

Every data set that ships with scikit-learn and river is streamed through `partial_fit` with default
parameters; `--extra` adds a folder of NPZ files with arrays X and y (regression where y has
fractions or more than 20 values). A quarter of the rows, drawn at random, is held out for testing;
with --splits that is repeated, since chance alone moves the coverage of 100 test rows by .03.

- batches of 1, 5, 20, n/20 and all rows, in random order;
- orders: by target, by the first feature, one class first (batches of n/20);
- dirt: 1 % outliers in y, in X, 5 % flipped labels, every batch twice, scales of 1e-12 and 1e12,
  an offset of 1e9, 200 columns of noise (batches of n/20);
- drift: the relation flips half-way, with forget 1 and .95, against river's logistic or linear
  regression and scikit-learn's SGD at its best rate in hindsight.

Columns: whether the stream stopped; error over that of offline ridge or logistic regression, both
cross-validated on the clean training rows; coverage of 90 % intervals on the test rows; log loss
over that of the class frequencies. trust_cells.csv has one line per cell and split, trust.csv and
the screen means and extremes over the data sets, each the mean of its splits.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from sklearn import datasets as known
from sklearn.linear_model import (
    LogisticRegressionCV,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.timing import write_csv
from miniamp import MiniAMPClassifier, MiniAMPRegressor
from miniamp.errors import MiniampError

#: Probabilities are cut here before their logarithm is taken, for all methods alike.
CUT = 1e-6
RATES = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
#: A target with more distinct values than this is a number, not a class.
MOST_CLASSES = 20


@dataclass(frozen=True)
class Problem:
    """Rows to learn and rows to test, in the order in which they arrive."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    labels: bool


@dataclass(frozen=True)
class Cell:
    """One line of the table; nan where a column has no meaning."""

    data: str
    task: str
    cell: str
    batch: int
    stopped: str
    error_over_offline: float
    coverage: float
    loss_over_frequencies: float
    seconds: float
    best_other: float = np.nan


def problems(rows: int, extra: Path | None, split: int = 0) -> Iterator[Problem]:
    """Every data set, split at random; `rows` limits the training rows."""
    for name, X, y in _tables(extra):
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        kept = np.isfinite(X).all(axis=1)
        X, y = X[kept], y[kept]
        labels = y.dtype.kind in "OUSb" or (
            len(np.unique(y)) <= MOST_CLASSES and np.all(np.mod(y, 1) == 0)
        )
        order = np.random.default_rng(7 + split).permutation(len(y))
        cut = 3 * len(y) // 4
        train, test = order[:cut][:rows], order[cut:][:rows]
        if labels:
            y = np.unique(y, return_inverse=True)[1]
            test = test[np.isin(y[test], y[train])]
        if len(train) >= 30 and len(np.unique(y[train])) > 1:
            yield Problem(name, X[train], y[train], X[test], y[test], bool(labels))


def _tables(extra: Path | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for name in ("diabetes", "breast_cancer", "digits", "iris", "wine"):
        X, y = getattr(known, f"load_{name}")(return_X_y=True)
        yield name, X, y
    body = known.load_linnerud()
    for j, name in enumerate(body.target_names):
        yield f"linnerud {name}", np.repeat(body.data, 3, axis=0), np.repeat(body.target[:, j], 3)
    yield from _river()
    for path in sorted(extra.glob("*.npz")) if extra else ():
        with np.load(path, allow_pickle=False) as file:
            yield path.stem, file["X"], file["y"]


def _river() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    try:
        from river import datasets
    except ImportError:
        print("river is not installed: its data sets are left out")
        return
    for name in (
        "AirlinePassengers",
        "Bananas",
        "ChickWeights",
        "ImageSegments",
        "Phishing",
        "TrumpApproval",
        "WaterFlow",
    ):
        features, target = [], []
        for x, y in getattr(datasets, name)():
            features.append([_number(value) for value in x.values()])
            target.append(y)
        yield f"river {name}", np.array(features), np.array(target)


def _number(value: object) -> float:
    stamp = getattr(value, "timestamp", None)
    return float(stamp()) if callable(stamp) else float(value)  # type: ignore[arg-type]


def stream(problem: Problem, batch: int, **settings: object):
    """The fitted estimator, and the error that stopped it, if one did."""
    make = MiniAMPClassifier if problem.labels else MiniAMPRegressor
    model = make(**settings)
    classes = {"classes": np.unique(problem.y)} if problem.labels else {}
    stopped = ""
    for start in range(0, len(problem.y), batch):
        rows = slice(start, start + batch)
        try:
            model.partial_fit(problem.X[rows], problem.y[rows], **classes)
            classes = {}
        except (MiniampError, ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            stopped = stopped or f"{type(error).__name__} at row {start}"
    return model, stopped


def offline_loss(problem: Problem) -> float:
    """Test loss of cross-validated ridge or logistic regression on all training rows."""
    if problem.labels:
        least = min(np.unique(problem.y, return_counts=True)[1])
        model = make_pipeline(
            StandardScaler(),
            LogisticRegressionCV(
                cv=int(np.clip(least, 2, 5)),
                max_iter=2000,
                scoring="neg_log_loss",
                Cs=8,
                l1_ratios=(0,),
                use_legacy_attributes=False,
            ),
        ).fit(problem.X, problem.y)
        return _log_loss(problem, model.predict_proba(problem.X_test))
    model = make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-4, 1e4, 17)))
    error = model.fit(problem.X, problem.y).predict(problem.X_test) - problem.y_test
    return float(np.mean(error**2))


def _log_loss(problem: Problem, chances: np.ndarray) -> float:
    chances = np.clip(chances, CUT, 1.0)
    chances /= chances.sum(axis=1, keepdims=True)
    return float(log_loss(problem.y_test, chances, labels=np.unique(problem.y)))


def frequencies_loss(problem: Problem) -> float:
    """Log loss of the class frequencies of the training rows."""
    shares = np.unique(problem.y, return_counts=True)[1] / len(problem.y)
    return _log_loss(problem, np.tile(shares, (len(problem.y_test), 1)))


def measured(problem: Problem, cell: str, batch: int, offline: float, nothing: float) -> Cell:
    """One stream, scored on its test rows."""
    begin = time.process_time()
    model, stopped = stream(problem, batch)
    seconds = time.process_time() - begin
    task = "classification" if problem.labels else "regression"
    made = Cell(problem.name, task, cell, batch, stopped, np.nan, np.nan, np.nan, seconds)
    try:
        if problem.labels:
            loss = _log_loss(problem, model.predict_proba(problem.X_test))
            return replace(
                made, error_over_offline=loss / offline, loss_over_frequencies=loss / nothing
            )
        error = float(np.mean((model.predict(problem.X_test) - problem.y_test) ** 2))
        low, high = model.predict_interval(problem.X_test, level=0.9)
        inside = (low <= problem.y_test) & (problem.y_test <= high)
        return replace(made, error_over_offline=error / offline, coverage=float(inside.mean()))
    except (MiniampError, ValueError, AttributeError) as error:
        return replace(made, stopped=stopped or f"predict: {type(error).__name__}")


def shuffles(problem: Problem) -> dict[str, Problem]:
    """The same rows in other orders."""
    by = {"sorted by target": problem.y, "sorted by feature": problem.X[:, 0]}
    if problem.labels:
        last = np.unique(problem.y)[-1]
        by = {
            "last class first": problem.y != last,
            "last class last": problem.y == last,
            "sorted by feature": problem.X[:, 0],
        }
    orders = {name: np.argsort(key, kind="stable") for name, key in by.items()}
    return {
        name: replace(problem, X=problem.X[order], y=problem.y[order])
        for name, order in orders.items()
    }


def dirty(problem: Problem) -> dict[str, Problem]:
    """The same rows with dirt in them, or in other units."""
    rng = np.random.default_rng(11)
    n, p = problem.X.shape
    few = rng.choice(n, max(1, n // 100), replace=False)
    X = problem.X.copy()
    X[few, rng.integers(p, size=len(few))] += 50.0 * problem.X.std(axis=0).max()
    noise = rng.normal(size=(n + len(problem.y_test), 200))
    made = {
        "outliers in X": replace(problem, X=X),
        "batches twice": _twice(problem),
        "X times 1e12": replace(problem, X=problem.X * 1e12, X_test=problem.X_test * 1e12),
        "X times 1e-12": replace(problem, X=problem.X * 1e-12, X_test=problem.X_test * 1e-12),
        "X plus 1e9": replace(problem, X=problem.X + 1e9, X_test=problem.X_test + 1e9),
        "200 noise columns": replace(
            problem,
            X=np.hstack([problem.X, noise[:n]]),
            X_test=np.hstack([problem.X_test, noise[n:]]),
        ),
    }
    if problem.labels:
        flipped = problem.y.copy()
        wrong = rng.choice(n, max(1, n // 20), replace=False)
        flipped[wrong] = rng.choice(np.unique(problem.y), size=len(wrong))
        return made | {"5 % labels flipped": replace(problem, y=flipped)}
    y = problem.y.astype(float)
    y[few] += 50.0 * y.std()
    return made | {
        "outliers in y": replace(problem, y=y),
        "y times 1e12": replace(problem, y=problem.y * 1e12, y_test=problem.y_test * 1e12),
        "y times 1e-12": replace(problem, y=problem.y * 1e-12, y_test=problem.y_test * 1e-12),
        "y plus 1e9": replace(problem, y=problem.y + 1e9, y_test=problem.y_test + 1e9),
    }


def _twice(problem: Problem) -> Problem:
    batch = max(1, len(problem.y) // 20)
    starts = range(0, len(problem.y), batch)
    order = np.concatenate([np.tile(np.arange(len(problem.y))[s : s + batch], 2) for s in starts])
    return replace(problem, X=problem.X[order], y=problem.y[order])


def drift_cells(problem: Problem) -> Iterator[Cell]:
    """Prequential loss from the flip on, forget 1 and .95, beside the best of river and SGD."""
    if problem.labels and len(np.unique(problem.y)) != 2:
        return
    n = len(problem.y)
    y = problem.y.astype(float)
    half = np.arange(n) >= n // 2
    y = np.where(half, 1.0 - y if problem.labels else 2.0 * y.mean() - y, y)
    flipped = replace(problem, y=y.astype(int) if problem.labels else y)
    batch = max(1, n // 20)
    other = min(
        _after_flip(flipped, batch, learner)
        for rate in RATES
        for learner in (_sgd(flipped, rate), _online(flipped, rate))
    )
    for forget in (1.0, 0.95):
        begin = time.process_time()
        learner = _Ours(flipped, forget)
        loss = _after_flip(flipped, batch, learner)
        yield Cell(
            problem.name,
            "classification" if problem.labels else "regression",
            f"flips half-way, forget {forget:g}",
            batch,
            learner.stopped,
            np.nan,
            np.nan,
            loss,
            time.process_time() - begin,
            other,
        )


def _after_flip(problem: Problem, batch: int, learner) -> float:
    """Mean loss of each batch predicted before it is learned, in the second half of the stream."""
    losses = []
    for start in range(0, len(problem.y), batch):
        X, y = problem.X[start : start + batch], problem.y[start : start + batch]
        if start >= len(problem.y) // 2:
            losses.append(_losses(problem, y, learner.predict(X)))
        learner.learn(X, y)
    return float(np.mean(np.concatenate(losses)))


def _losses(problem: Problem, y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    if problem.labels:
        return -np.log(np.clip(np.where(y == 1, predicted, 1.0 - predicted), CUT, 1.0))
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.square(y - predicted) / np.var(problem.y)
    return np.where(np.isfinite(error), error, 1e6)


class _Ours:
    """miniamp with defaults."""

    def __init__(self, problem: Problem, forget: float) -> None:
        self.labels, self.stopped = problem.labels, ""
        make = MiniAMPClassifier if problem.labels else MiniAMPRegressor
        self.model = make(forget=forget)
        self.fallback = 0.5 if problem.labels else float(np.mean(problem.y))

    def predict(self, X: np.ndarray) -> np.ndarray:
        try:
            return self.model.predict_proba(X)[:, 1] if self.labels else self.model.predict(X)
        except (MiniampError, ValueError, AttributeError):
            return np.full(len(X), self.fallback)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        extra = {"classes": [0, 1]} if self.labels and not hasattr(self.model, "classes_") else {}
        try:
            self.model.partial_fit(X, y, **extra)
        except (MiniampError, ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            self.stopped = self.stopped or type(error).__name__


class _sgd:
    """SGD on features standardised as they come."""

    def __init__(self, problem: Problem, rate: float) -> None:
        make: Callable = SGDClassifier if problem.labels else SGDRegressor
        settings = {"loss": "log_loss"} if problem.labels else {}
        self.inner = make(learning_rate="constant", eta0=rate, **settings)
        self.scaler, self.labels = StandardScaler(), problem.labels
        self.centre, self.scale = float(np.mean(problem.y)), float(np.std(problem.y))

    def predict(self, X: np.ndarray) -> np.ndarray:
        Z = self.scaler.transform(X)
        if self.labels:
            return self.inner.predict_proba(Z)[:, 1]
        return self.centre + self.scale * self.inner.predict(Z)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        Z = self.scaler.partial_fit(X).transform(X)
        if self.labels:
            self.inner.partial_fit(Z, y, classes=[0, 1])
        else:
            self.inner.partial_fit(Z, (y - self.centre) / self.scale)


class _online:
    """River's linear or logistic regression, row by row."""

    def __init__(self, problem: Problem, rate: float) -> None:
        from river import linear_model, optim, preprocessing

        make = linear_model.LogisticRegression if problem.labels else linear_model.LinearRegression
        self.inner = preprocessing.StandardScaler() | make(optimizer=optim.SGD(rate))
        self.labels = problem.labels
        self.centre, self.scale = float(np.mean(problem.y)), float(np.std(problem.y))

    def predict(self, X: np.ndarray) -> np.ndarray:
        rows = (dict(enumerate(x)) for x in X)
        if self.labels:
            chances = (self.inner.predict_proba_one(x) for x in rows)
            return np.array([p.get(True, 0.5) for p in chances])
        return self.centre + self.scale * np.array([self.inner.predict_one(x) for x in rows])

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        for x, value in zip(X, y, strict=True):
            target = bool(value) if self.labels else (value - self.centre) / self.scale
            self.inner.learn_one(dict(enumerate(x)), target)


def cells(problem: Problem, quick: bool) -> Iterator[Cell]:
    """All cells of one data set."""
    n = len(problem.y)
    offline = offline_loss(problem)
    nothing = frequencies_loss(problem) if problem.labels else np.nan
    for batch in sorted({1, 5, 20, max(1, n // 20), n}):
        if not (quick and batch == 1 and n > 500):
            label = "all rows" if batch == n else f"batches of {batch}"
            yield measured(problem, f"clean, {label}", batch, offline, nothing)
    batch = max(1, n // 20)
    for name, other in (shuffles(problem) | dirty(problem)).items():
        reached = offline
        if name == "200 noise columns":  # offline methods have them too
            reached = offline_loss(other)
        elif name.startswith("y times"):
            reached = offline * float(name.removeprefix("y times ")) ** 2
        yield measured(other, name, batch, reached, nothing)
    yield from drift_cells(problem)


def summary(found: list[Cell]) -> list[dict[str, str]]:
    """Means and extremes over the data sets, one line per kind of cell."""
    lines = []
    for task, kind in dict.fromkeys((cell.task, _kind(cell)) for cell in found):
        here = [cell for cell in found if (cell.task, _kind(cell)) == (task, kind)]
        flips = kind.startswith("flips")
        loss = _spread(here, "loss_over_frequencies")
        lines.append(
            {
                "task": task,
                "cell": kind,
                "streams": str(len({cell.data for cell in here})),
                "stopped": str(sum(bool(cell.stopped) for cell in here)),
                "error over offline": _spread(here, "error_over_offline"),
                "coverage": _spread(here, "coverage"),
                "loss over frequencies": "" if flips else loss,
                "loss after the flip": loss if flips else "",
                "best other": _spread(here, "best_other"),
            }
        )
    return lines


def _kind(cell: Cell) -> str:
    if cell.cell.startswith("clean, batches") and cell.batch not in (1, 5, 20):
        return "clean, batches of n/20"
    return cell.cell


def _spread(found: list[Cell], column: str) -> str:
    """Mean over the data sets, with the least and the largest of them."""
    splits: dict[str, list[float]] = {}
    for cell in found:
        if np.isfinite(getattr(cell, column)):
            splits.setdefault(cell.data, []).append(getattr(cell, column))
    finite = np.array([np.mean(values) for values in splits.values()])
    return f"{finite.mean():.3f} ({finite.min():.2f} to {finite.max():.2f})" if len(finite) else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no single rows on long streams")
    parser.add_argument("--rows", type=int, default=2000, help="training rows at most")
    parser.add_argument("--splits", type=int, default=1, help="times that test rows are drawn")
    parser.add_argument("--task", choices=["regression", "classification"])
    parser.add_argument("--extra", type=Path, help="a folder of NPZ files with X and y")
    parser.add_argument("--only", help="data sets whose name contains this")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found: list[Cell] = []
    every = (problems(given.rows, given.extra, split) for split in range(given.splits))
    for problem in itertools.chain(*every):
        if given.only and given.only not in problem.name:
            continue
        if given.task and problem.labels != (given.task == "classification"):
            continue
        for cell in cells(problem, given.quick):
            found.append(cell)
            print(
                f"{cell.data:24s} {cell.cell:32s} {cell.stopped or 'ok':28s} "
                f"error/offline {cell.error_over_offline:8.3f}  coverage {cell.coverage:.3f}  "
                f"loss/freq {cell.loss_over_frequencies:.3f}  {cell.seconds:.2f} s",
                flush=True,
            )
    write_csv(given.out / "trust_cells.csv", [asdict(cell) for cell in found])
    write_csv(given.out / "trust.csv", summary(found))
    for line in summary(found):
        print("  ".join(f"{name} {value}" for name, value in line.items() if value))


if __name__ == "__main__":
    main()
