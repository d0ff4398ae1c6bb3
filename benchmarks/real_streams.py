"""Real streams in one pass, against river, scikit-learn's SGD and Vowpal Wabbit.

    MINIAMP_DATA=folder python benchmarks/real_streams.py [--rows 6000] [--out benchmarks/results]

Every stream is shuffled (small ones five times, and averaged); the first four fifths are learned in
order, each row once, the rest is the test set. Scored are the forecasts made before a row is
learned (prequential; the first batch is left out for all) and those on the test set at the end:
log-loss and share of errors for labels, mean squared error over the variance of y for regression.

miniamp runs with one setting for all streams: four models side by side
(`model_average.ModelAverage`), with a
Gaussian or a Laplace prior, with or without a memory of min(N, 100) rows, weighted by how well each
has forecast so far; width, noise and scale learned, an intercept, units that follow the rows
(`evidence.Frame`). Where the scale of labels begins (`model.LABEL_POWER`) was chosen with the
newsgroups and MNIST streams in sight, before it was learned. It forecasts a batch before learning
it, as SGD does; river and Vowpal Wabbit go row by row. River and SGD have running standardisation,
and the best of five rates chosen in hindsight for each figure separately; Vowpal Wabbit the best of
three. `pip install 'miniamp[peers]'` brings what is compared with.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np

from miniamp import Posterior, channels, datasets, evidence, learning, priors
from miniamp.errors import MiniampError
from miniamp.model_average import ModelAverage

RATES = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
VW_RATES = (0.05, 0.5, 2.0)
#: Probabilities are cut here before their logarithm is taken, for all alike.
CUT = 1e-6
#: Rows that the models with memory remember.
MEMORY = 100
#: Streams of fewer rows are shuffled five times and averaged: a fifth of them is a small test.
SMALL = 2000


def streams(rows):
    from sklearn import datasets as known

    cancer, digits, diabetes = (
        known.load_breast_cancer(),
        known.load_digits(),
        known.load_diabetes(),
    )
    yield "diabetes", diabetes.data, diabetes.target, False
    yield "breast cancer", cancer.data, np.where(cancer.target == 1, 1.0, -1.0), True
    yield "digits, 0-4 or 5-9", digits.data, np.where(digits.target > 4, 1.0, -1.0), True
    for name, load in (
        ("newsgroups comp or sci", lambda: datasets.load_newsgroups(("comp", "sci"), 1000)),
        ("MNIST 3 or 8", lambda: datasets.load_mnist((3, 8))),
    ):
        try:
            data = load()
        except MiniampError as error:
            print(f"{name}: skipped, {error}")
            continue
        labels = np.unique(data.y)
        X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
        kept = np.random.default_rng(1).permutation(len(X))[:rows]
        yield (
            name,
            X[kept].reshape(len(kept), -1),
            np.where(data.y[kept] == labels[1], 1.0, -1.0),
            True,
        )


def loss(labels, y, forecast):
    """Log-loss of the probability of +1, or the squared error."""
    if not labels:
        return np.square(y - forecast)
    p = np.clip(np.where(y > 0.0, forecast, 1.0 - forecast), CUT, 1.0 - CUT)
    return -np.log(p)


class Miniamp:
    """Four models that differ in prior and memory, weighted by how well they have forecast."""

    def __init__(self, labels):
        self.labels, self.frame, self.average = labels, None, None

    def forecast(self, X):
        mean, _ = self.average.forecast(self.frame.rows(X))
        return (1.0 + mean) / 2.0 if self.labels else mean

    def learn(self, X, y):
        if self.average is None:
            self.frame, self.average = evidence.Frame.none(X.shape[1]), self._none(X.shape[1] + 1)
        frame = self.frame.following(X)
        average = self.average.stretched(self.frame.stretch(frame))
        self.frame, self.average = frame, average.learned(frame.rows(X), y, fixed=("mean",))

    def _none(self, N):
        channel = channels.Logistic() if self.labels else channels.Gaussian()
        return ModelAverage(
            [
                learning.Model(
                    Posterior(priors.WithIntercept(prior), N, memory=min(N, memory)), channel
                )
                for prior in (priors.Gaussian(), priors.Laplace())
                for memory in (0, MEMORY)
            ]
        )


class SGD:
    def __init__(self, labels, rate):
        from sklearn.linear_model import SGDClassifier, SGDRegressor
        from sklearn.preprocessing import StandardScaler

        make = SGDClassifier if labels else SGDRegressor
        settings = {"loss": "log_loss"} if labels else {}
        self.inner = make(learning_rate="constant", eta0=rate, **settings)
        self.labels, self.scaler = labels, StandardScaler()

    def forecast(self, X):
        Z = self.scaler.transform(X)
        return self.inner.predict_proba(Z)[:, 1] if self.labels else self.inner.predict(Z)

    def learn(self, X, y):
        Z = self.scaler.partial_fit(X).transform(X)
        self.inner.partial_fit(Z, y, **({"classes": [-1.0, 1.0]} if self.labels else {}))


class RowByRow:
    """Forecasts each row just before it is learned."""

    def learn(self, X, y):
        self.seen = np.array([self.one(x, value) for x, value in zip(X, y, strict=True)])


class River(RowByRow):
    def __init__(self, labels, rate):
        from river import linear_model, optim, preprocessing

        make = linear_model.LogisticRegression if labels else linear_model.LinearRegression
        self.inner = preprocessing.StandardScaler() | make(optimizer=optim.SGD(rate))
        self.labels = labels

    def _forecast(self, row):
        if self.labels:
            return self.inner.predict_proba_one(row).get(True, 0.5)
        return self.inner.predict_one(row)

    def one(self, x, value):
        row = dict(enumerate(x.tolist()))
        forecast = self._forecast(row)
        self.inner.learn_one(row, bool(value > 0.0) if self.labels else value)
        return forecast

    def forecast(self, X):
        return np.array([self._forecast(dict(enumerate(x.tolist()))) for x in X])


class VowpalWabbit(RowByRow):
    def __init__(self, labels, rate):
        from vowpalwabbit import Workspace

        kind = "--loss_function logistic --link logistic" if labels else "--loss_function squared"
        self.inner = Workspace(f"--quiet {kind} -l {rate}")

    @staticmethod
    def _row(x):
        kept = np.flatnonzero(x)
        return "| " + " ".join(f"f{j}:{x[j]:.6g}" for j in kept)

    def one(self, x, value):
        row = self._row(x)
        forecast = self.inner.predict(row)
        self.inner.learn(f"{value:g} {row}")
        return forecast

    def forecast(self, X):
        return np.array([self.inner.predict(self._row(x)) for x in X])


def run(make, X, y, labels, batch, shuffles):
    """The figures of a method, averaged over shuffles of the stream."""
    figures = []
    for seed in range(shuffles):
        order = np.random.default_rng(seed).permutation(len(X))
        figures.append(one_pass(make(), X[order], y[order], labels, batch))
    return {name: float(np.mean([f[name] for f in figures])) for name in figures[0]}


def one_pass(method, X, y, labels, batch):
    cut = int(0.8 * len(X))
    start, scores = time.process_time(), []
    for k in range(0, cut, batch):
        part = slice(k, min(k + batch, cut))
        before = method.forecast(X[part]) if k and not isinstance(method, RowByRow) else None
        method.learn(X[part], y[part])
        if k:
            before = method.seen if before is None else before
            scores.append(loss(labels, y[part], before))
    final = method.forecast(X[cut:])
    test = loss(labels, y[cut:], final)
    wrong = (final > 0.5) != (y[cut:] > 0.0) if labels else np.full(1, np.nan)
    scale = 1.0 if labels else np.var(y)
    return {
        "prequential": float(np.mean(np.concatenate(scores))) / scale,
        "test": float(np.mean(test)) / scale,
        "test errors": float(np.mean(wrong)),
        "seconds": time.process_time() - start,
    }


def contest(rows, only):
    table = []
    for name, X, y, labels in streams(rows):
        if only and only not in name:
            continue
        X, shuffles = X.astype(np.float64), (5 if len(X) < SMALL else 1)
        batch = int(np.clip(len(X) // 40, 10, 100))
        contestants = {
            "miniamp": [lambda labels=labels: Miniamp(labels)],
            "SGD": [lambda r=r, labels=labels: SGD(labels, r) for r in RATES],
            "river": [lambda r=r, labels=labels: River(labels, r) for r in RATES],
            "Vowpal Wabbit": [lambda r=r, labels=labels: VowpalWabbit(labels, r) for r in VW_RATES],
        }
        for who, makers in contestants.items():
            runs = []
            for make in makers:
                try:
                    with warnings.catch_warnings(), np.errstate(all="ignore"):
                        warnings.simplefilter("ignore")
                        runs.append(run(make, X, y, labels, batch, shuffles))
                except ImportError as error:
                    print(f"{name}: {who} is not here ({error}); pip install 'miniamp[peers]'")
                    break
                except (OverflowError, ValueError) as error:
                    print(f"{name}: {who} failed: {error}")
            if not runs:
                continue
            best = {
                f: float(np.nanmin([r[f] for r in runs]))
                for f in runs[0]
                if labels or f != "test errors"
            }
            table.append(
                {"stream": name, "rows": len(X), "features": X.shape[1], "method": who, **best}
            )
            shown = "  ".join(f"{f} {v:.4g}" for f, v in best.items())
            print(f"{name:24s} {who:14s} {shown}", flush=True)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=6000, help="at most so many rows of a stream")
    parser.add_argument("--only", default="", help="streams whose name has this")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    table = contest(given.rows, given.only)
    given.out.mkdir(parents=True, exist_ok=True)
    with (given.out / "real_streams.csv").open("w", newline="") as file:
        fields = list(dict.fromkeys(f for row in table for f in row))
        writer = csv.DictWriter(file, fieldnames=fields)
        writer.writeheader()
        writer.writerows(
            {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in table
        )


if __name__ == "__main__":
    main()
