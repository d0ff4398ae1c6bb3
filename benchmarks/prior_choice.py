"""prior="auto" on real data: its error beside that of each prior and of cross-validated peers.

    python -m benchmarks.prior_choice [--splits 3] [--folder DIR] [--only NAME] [--out DIR]

Half of the rows (1,000 at most) are streamed in ten batches, the others (2,000 at most) are
predicted. The error is the squared one over the variance of y, or the log loss over that of class
frequencies. Data sets come with scikit-learn, as they are and with 100 columns of noise; `--folder`
adds files of arrays X and y (.npz; names that begin with "r" are regressions). Writes
prior_choice.csv.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from benchmarks.timing import write_csv
from miniamp import MiniAMPClassifier, MiniAMPRegressor

PRIORS = ("gaussian", "laplace", "sparse", "auto")
MOST, BATCHES, NOISE = 1000, 10, 100


def data_sets(folder):
    """Name, X, y and whether y are labels."""
    rng = np.random.default_rng(0)
    X, y = load_diabetes(return_X_y=True)
    found = [("diabetes", X, y, False)]
    found.append(("diabetes, products", PolynomialFeatures(2).fit_transform(X)[:, 1:], y, False))
    for name, load in (("breast cancer", load_breast_cancer), ("wine", load_wine)):
        found.append((name, *load(return_X_y=True), True))
    digits, label = load_digits(return_X_y=True)
    found += [("digits", digits, label, True), ("digits, even", digits, label % 2, True)]
    found += [
        (f"{name} + noise", np.hstack([X, rng.normal(size=(len(X), NOISE))]), y, labels)
        for name, X, y, labels in found
        if name in ("diabetes", "breast cancer", "wine")
    ]
    for path in sorted(folder.glob("*.npz")) if folder else ():
        data = np.load(path, allow_pickle=True)
        found.append((path.stem, data["X"], data["y"], not path.stem.startswith("r")))
    return found


def streamed(model, X, y, labels):
    more = {"classes": np.unique(y)} if labels else {}
    for part in np.array_split(np.arange(len(y)), min(BATCHES, max(1, len(y) // 32))):
        model.partial_fit(X[part], y[part], **more)
        more = {}
    return model


def peers(labels):
    if labels:
        usual = {"Cs": 6, "scoring": "neg_log_loss", "use_legacy_attributes": False}
        found = {"l2, CV": LogisticRegressionCV(max_iter=500, l1_ratios=(0,), **usual)}
        if labels == 2:  # of more classes it takes minutes
            l1 = LogisticRegressionCV(l1_ratios=(1,), solver="liblinear", **usual)
            found["l1, CV"] = l1
    else:
        found = {"l2, CV": RidgeCV(np.logspace(-3, 5, 17)), "l1, CV": LassoCV(cv=5, random_state=0)}
    return {name: make_pipeline(StandardScaler(), peer) for name, peer in found.items()}


def error(model, X, y, base):
    """Squared error over the variance of y, or log loss over that of class frequencies."""
    if base is None:
        return float(np.mean(np.square(model.predict(X) - y)) / np.var(y))
    chance = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return float(np.mean(np.log(np.maximum(chance, 1e-15)))) / base


def measure(X, y, labels, seed):
    """Errors and CPU seconds of each method, and the prior that was chosen."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    half = min(len(y) // 2, MOST)
    train, test = order[:half], order[half : half + 2 * MOST]
    base = None
    if labels:
        test = test[np.isin(y[test], y[train])]
        _, counts = np.unique(y[test], return_counts=True)
        base = float(np.sum(counts * np.log(counts / counts.sum())) / counts.sum())
    errors, cpu, chosen = {}, {}, ""
    for prior in PRIORS:
        model = (MiniAMPClassifier if labels else MiniAMPRegressor)(prior)
        start = time.process_time()
        streamed(model, X[train], y[train], labels)
        cpu[prior] = time.process_time() - start
        errors[prior] = error(model, X[test], y[test], base)
        if prior == "auto":
            chosen = model.history_[-1]["prior"]
    for name, peer in peers(len(np.unique(y)) if labels else 0).items():
        errors[name] = error(peer.fit(X[train], y[train]), X[test], y[test], base)
    return errors, cpu, chosen


def row(name, X, y, labels, splits):
    found = [measure(X, y, labels, seed) for seed in range(splits)]
    methods = (*PRIORS, "l2, CV", "l1, CV")
    errors = {key: float(np.mean([each[0].get(key, np.nan) for each in found])) for key in methods}
    cpu = {key: sum(each[1][key] for each in found) for key in PRIORS}
    chosen = [each[2] for each in found]
    best = min(errors[prior] for prior in PRIORS[:-1])
    return {
        "data": name, "rows": len(y), "features": X.shape[1],
        **{key: round(value, 4) for key, value in errors.items()},
        "chosen": max(chosen, key=chosen.count),
        "over best prior": round(errors["auto"] / best, 3),
        "over best peer": round(errors["auto"] / np.nanmin([errors[p] for p in methods[4:]]), 3),
        "cpu over slowest": round(cpu["auto"] / max(cpu[p] for p in PRIORS[:-1]), 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", nargs="*", help="data sets whose names contain one of these")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = []
    for name, X, y, labels in data_sets(options.folder):
        if options.only is None or any(part in name for part in options.only):
            table.append(row(name, X, y, labels, options.splits))
            print(*table[-1].values(), sep="  ", flush=True)
    write_csv(options.out / "prior_choice.csv", table)


if __name__ == "__main__":
    main()
