"""What users call, measured: the cases of `benchmarks.goals`, and the peers of each."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.timing import best
from miniamp import Posterior, Stop, absorb, channels, datasets, designs, evidence, priors
from miniamp.estimators import MiniAMPClassifier, MiniAMPClusterer, MiniAMPRegressor
from miniamp.streams import open_stream

#: Learning rates of Vowpal Wabbit, of which the best one counts.
RATES = (0.05, 0.2, 0.5, 0.7, 1.0, 2.0, 3.0)
#: A case's rows: what was measured, and its goal.
Found = dict[str, object]


def log_loss(y, probability):
    chosen = np.where(y > 0, probability, 1.0 - probability)
    return float(-np.mean(np.log(np.clip(chosen, 1e-15, 1.0))))


def squared_error(y, predicted):
    return float(np.mean(np.square(y - predicted)))


def progressive(learn, predict, batches, loss):
    """CPU seconds of learning, and the loss of predictions made beforehand on the second half."""
    seconds, losses = 0.0, []
    for k, (X, y) in enumerate(batches):
        if k >= len(batches) // 2:
            losses.append(loss(y, predict(X)))
        begin = time.process_time()
        learn(X, y)
        seconds += time.process_time() - begin
    return seconds, float(np.mean(losses))


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def row(case, speed, unit, goal, met, accuracy, theirs=np.nan) -> Found:
    figures = {"ours": float(speed), "theirs": float(theirs), "figure": float(speed / theirs)}
    return {"case": case, **figures, "unit": unit, "target": goal, "met": met, "accuracy": accuracy}


def zipf_rows(p, rows, rng, filled=50):
    """Rows with `filled` ones at columns of probability about 1/rank."""
    columns = np.minimum(np.exp(rng.random((rows, filled)) * np.log(p)).astype(np.int64), p - 1)
    made = sparse.csr_array(
        (np.ones(rows * filled), columns.ravel(), filled * np.arange(rows + 1)), shape=(rows, p)
    )
    made.sum_duplicates()
    made.data[:] = 1.0
    return made


def sparse_stream(p: float, labels: bool) -> Iterator[Found]:
    """20,000 sparse rows in batches of 1000; coefficients of variance 0.14, so z has power 7."""
    p, rng, step = int(p), np.random.default_rng(0), 1000
    x = np.sqrt(0.14) * rng.standard_normal(p)
    X = zipf_rows(p, 20_000, rng)
    z = X @ x
    y = np.where(rng.random(len(z)) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)
    y = y if labels else z + rng.standard_normal(len(z))
    batches = [(X[k : k + step], y[k : k + step]) for k in range(0, len(y), step)]
    loss = log_loss if labels else squared_error
    if labels:
        model = MiniAMPClassifier()
        learn = partial(model.partial_fit, classes=[-1.0, 1.0])
        seconds, ours = progressive(learn, lambda X: model.predict_proba(X)[:, 1], batches, loss)
    else:
        model = MiniAMPRegressor()
        seconds, ours = progressive(model.partial_fit, model.predict, batches, loss)
    memory, rate = peak_megabytes(), len(y) / seconds
    theirs = {r: vowpal_wabbit(batches, labels, r, loss) for r in RATES}
    vw_rate, vw = min(theirs.values(), key=lambda found: found[1])
    null = log_loss(y, 0.5) if labels else squared_error(y, y.mean())
    kind = "classification, log loss" if labels else "regression, squared error"
    said = f"{ours:.3f} (Vowpal Wabbit's best {vw:.3f}, null {null:.3f})"
    case = f"sparse Zipf rows, p = {p:.0e}, {kind}"
    goal = ">= 5000 rows/s, loss below VW's"
    yield row(case, rate, "rows/s", goal, rate >= 5000 and ours < vw, said, vw_rate)
    yield row(f"{case}: peak memory", memory, "MB", "<= 1000 MB", memory <= 1000, "", 1000.0)


def vowpal_wabbit(batches, labels, rate, loss):
    """Rows per CPU second and the progressive loss; the rows are text before the clock starts."""
    from vowpalwabbit import Workspace

    kind = "--loss_function logistic --link logistic" if labels else "--loss_function squared"
    model = Workspace(f"--quiet {kind} -l {rate} -b 22")
    text = [
        [
            "| " + " ".join(map(str, X.indices[a:b]))
            for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
        ]
        for X, _ in batches
    ]

    def learn(lines, y):
        for value, line in zip(y.tolist(), lines, strict=True):
            model.learn(f"{value:g} {line}")

    def predict(lines):
        return np.array([model.predict(line) for line in lines])

    made = [(lines, y) for lines, (_, y) in zip(text, batches, strict=True)]
    seconds, found = progressive(learn, predict, made, loss)
    return sum(len(y) for _, y in batches) / seconds, found


def correlated_rows(rows, p, rng, rho=0.95):
    """Rows whose neighbouring entries are correlated by rho."""
    X = rng.standard_normal((rows, p))
    X[:, 1:] *= np.sqrt(1.0 - rho**2)
    for j in range(1, p):
        X[:, j] += rho * X[:, j - 1]
    return X


def correlated_regression(p: float, step: float, batches: float, goal: float) -> Iterator[Found]:
    """Gaussian coefficients, noise 1: the error of the coefficients over their power.

    Another model learns before the clock starts: once in a process scikit-learn looks for plug-ins
    and threadpoolctl for BLAS, 35 ms.
    """
    p, step, number = int(p), int(step), int(batches)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(p)
    data = []
    for _ in range(number):
        X = correlated_rows(step, p, rng)
        data.append((X, X @ x + rng.standard_normal(step)))
    MiniAMPRegressor().partial_fit(*data[0])
    model = MiniAMPRegressor()
    begin = time.process_time()
    for X, y in data:
        model.partial_fit(X, y)
    seconds = time.process_time() - begin
    information, pull = np.eye(p), np.zeros(p)
    begin = time.process_time()
    for X, y in data:
        information += X.T @ X
        pull += X.T @ y
        mean = np.linalg.solve(information, pull)
    exact = time.process_time() - begin
    errors = [squared_error(x, found) / np.mean(x**2) for found in (model.coef_, mean)]
    rate, theirs = (number * step / t for t in (seconds, exact))
    said = f"error {errors[0]:.3g} (exact with known hyper-parameters {errors[1]:.3g})"
    case = f"correlated rows, p = {p}, by {step}, regression, against exact N x N in NumPy"
    met = rate >= goal and errors[0] <= 1.05 * errors[1]
    yield row(case, rate, "rows/s", f">= {goal:g} rows/s", met, said, theirs)


def correlated_classification(p: float = 1000) -> Iterator[Found]:
    p, rng, step = int(p), np.random.default_rng(0), 1000
    x = rng.standard_normal(p) / np.sqrt(p)
    batches = []
    for _ in range(10):
        X = correlated_rows(step, p, rng)
        batches.append((X, np.sign(X @ x + 0.3 * rng.standard_normal(step))))
    model, classes = MiniAMPClassifier(), [-1.0, 1.0]
    learn = partial(model.partial_fit, classes=classes)
    seconds, ours = progressive(learn, lambda X: model.predict_proba(X)[:, 1], batches, log_loss)
    theirs, loss = min(
        (sgd_classifier(alpha, batches, classes) for alpha in (1e-3, 1e-2, 1e-1, 1.0)),
        key=lambda found: found[1],
    )
    rate = 10 * step / seconds
    said = f"log loss {ours:.3f} (SGDClassifier's best {loss:.3f})"
    case = f"correlated rows, p = {p}, by 1000, classification, against SGDClassifier"
    yield row(case, rate, "rows/s", ">= 3000 rows/s", rate >= 3000, said, 10 * step / theirs)


def sgd_classifier(alpha, batches, classes):
    from sklearn.linear_model import SGDClassifier

    sgd = SGDClassifier(loss="log_loss", alpha=alpha, average=True, random_state=0)
    learn = partial(sgd.partial_fit, classes=classes)
    return progressive(learn, lambda X: sgd.predict_proba(X)[:, 1], batches, log_loss)


def ten_classes() -> Iterator[Found]:
    from sklearn.linear_model import LogisticRegression

    data = datasets.load_mnist(range(10))
    order = np.random.default_rng(0).permutation(len(data.y))
    train, test = order[:10_000], order[10_000:12_000]
    model = MiniAMPClassifier()
    begin = time.process_time()
    for k in range(0, len(train), 500):
        part = train[k : k + 500]
        model.partial_fit(data.X[part], data.y[part], classes=np.unique(data.y))
    ours = time.process_time() - begin
    begin = time.process_time()
    offline = LogisticRegression(C=0.01, max_iter=100).fit(data.X[train], data.y[train])
    theirs = time.process_time() - begin
    losses = []
    for fitted in (model, offline):
        found = fitted.predict_proba(data.X[test])[np.arange(len(test)), data.y[test]]
        losses.append(float(-np.mean(np.log(np.maximum(found, 1e-15)))))
    said = f"log loss {losses[0]:.3f} (LogisticRegression on all rows at once {losses[1]:.3f})"
    met = ours < 15.0 and losses[0] < 0.43
    case = "MNIST, ten classes, 10,000 rows by 500"
    yield row(case, ours, "s of CPU", "< 15 s, log loss < .43", met, said, theirs)


def fixed_cost() -> Iterator[Found]:
    """Batches of 10 features: mean milliseconds per call, early and after 9,000 batches.

    Rows are learned from in groups of 32, so that batches of 32 rows each pay a whole update.
    """
    for rows in (10, 32):
        rng = np.random.default_rng(0)
        x = rng.standard_normal(10)
        model, times, errors = MiniAMPRegressor(), [], []
        for k in range(9000):
            X = rng.standard_normal((rows, 10))
            y = X @ x + rng.standard_normal(rows)
            begin = time.process_time()
            model.partial_fit(X, y)
            times.append(time.process_time() - begin)
            if k % 100 == 99:
                errors.append(squared_error(x, model.coef_))
        early, late = 1e3 * np.mean(times[100:1100]), 1e3 * np.mean(times[-1000:])
        said = f"error {errors[0]:.3g} after 100 batches, {errors[-1]:.3g} after 9000"
        met = late < 1.0 and late < 1.2 * early
        case = f"partial_fit of {rows} rows, p = 10, batches 8000 to 9000, against 100 to 1100"
        yield row(case, late, "ms", "< 1 ms, flat", met, said, early)


#: What `around_the_sweep` counts as the sweep and the prior.
INSIDE = {
    evidence.Batch: ("refine", "refine_all"),
    designs.Dense: ("sandwich", "forecast", "times", "transposed_times", "squares_times"),
    designs.Fused: ("sandwich", "forecast"),
    priors.WithIntercept: ("fitted", "moments", "log_partition", "scale_slope"),
}


def around_the_sweep() -> Iterator[Found]:
    """i.i.d. rows, p = 100, solver "amp": the share of time outside the sweeps and the prior.

    Inside are the iterations of AMP, each a sweep and an update by the prior; other products with
    the rows, for predictions and for learning the noise; and the steps of EM for the prior. Outside
    are checks, units, scores, history, and the channel's own vectors.
    """
    inside, depth = [0.0], [0]

    def timed(method):
        def wrapped(self, *arguments):
            depth[0] += 1
            begin = time.process_time()
            try:
                return method(self, *arguments)
            finally:
                depth[0] -= 1
                if not depth[0]:
                    inside[0] += time.process_time() - begin

        return wrapped

    for owner, names in INSIDE.items():
        for name in names:
            setattr(owner, name, timed(getattr(owner, name)))
    for rows, batches in ((1000, 200), (10_000, 40)):
        rng = np.random.default_rng(0)
        x = rng.standard_normal(100) * (rng.random(100) < 0.2)
        model, total = MiniAMPRegressor("sparse", solver="amp"), 0.0
        for k in range(batches):
            X = rng.standard_normal((rows, 100))
            y = X @ x + rng.standard_normal(rows)
            if k == batches // 10:
                inside[0] = total = 0.0
            begin = time.process_time()
            model.partial_fit(X, y)
            total += time.process_time() - begin
        share = 1.0 - inside[0] / total
        rate = (batches - batches // 10) * rows / total
        said = f"{rate:.0f} rows/s, error {squared_error(x, model.coef_):.2g}"
        case = f"p = 100 by {rows}, AMP: share of the time outside the sweeps and the prior"
        yield row(case, share, "", "<= 0.25", share <= 0.25, said, 1.0)


def converged_amp(threads: float = 1) -> Iterator[Found]:
    """N = 2000, M = 1200, noise 1e-8, against AMP in plain NumPy, each by its own rule."""
    from benchmarks.peers import numpy_amp
    from benchmarks.speed import PRIOR, problem

    noise = 1e-8
    Phi, x, y = problem(1200, 2000, noise)
    start, channel = Posterior(PRIOR, 2000), channels.Gaussian(noise)

    def ours():
        rows = evidence.Batch(designs.Averaged(Phi), y, channel)
        return absorb(start, rows, Stop(500, 1e-8, slack=0.1))

    def plain():
        return list(numpy_amp(Phi, y, noise, 1e-6))

    clock = time.process_time if threads == 1 else time.perf_counter
    mine, theirs = best(ours, plain, repeats=2, turns=12, clock=clock)
    errors = [squared_error(x, found) for found in (ours()[0].mean, plain()[-1])]
    said = f"errors {errors[0]:.2e} and {errors[1]:.2e}"
    case = f"AMP to convergence, 1200 x 2000, against NumPy, {threads:g} threads"
    ratio = theirs / mine
    found = row(case, 1e3 * mine, "ms", ">= 1.5 x faster", ratio >= 1.5, said, 1e3 * theirs)
    yield found | {"figure": ratio}


def narrow_rows() -> Iterator[Found]:
    """A GAMP iteration of 4000 x 10000 float32 rows against float64 rows."""
    from benchmarks.speed import iteration, problem

    Phi, _, y = problem(4000, 10000)
    works = [iteration(rows, y) for rows in (Phi.astype(np.float32), Phi)]
    ours, theirs = best(*works, repeats=2, turns=5, clock=time.process_time)
    narrow, wide = (work().estimate.mean for work in works)
    error = float(np.max(np.abs(narrow - wide)) / np.max(np.abs(wide)))
    met = ours < theirs and error < 1e-5
    case = "float32 rows, GAMP iteration 4000 x 10000, against float64"
    said = f"relative error {error:.1e}"
    found = row(case, 1e3 * ours, "ms", "faster, error < 1e-5", met, said, 1e3 * theirs)
    yield found | {"figure": theirs / ours}


def clusters() -> Iterator[Found]:
    """MNIST, ten digits by 392, against MiniBatchKMeans: the first five batches, and the rest."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import normalized_mutual_info_score as nmi

    data = datasets.load_mnist(range(10), dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(data.y))[: 40 * 392]
    rates, scores = [], []
    kmeans = MiniBatchKMeans(10, n_init=3, random_state=0)
    for model in (MiniAMPClusterer(10, random_state=0), kmeans):
        times = []
        for k in range(0, len(order), 392):
            begin = time.process_time()
            model.partial_fit(data.X[order[k : k + 392]])
            times.append(time.process_time() - begin)
        rates.append([392 * len(part) / sum(part) for part in (times[:5], times[5:])])
        scores.append(nmi(data.y[order], model.predict(data.X[order])))
    said = f"NMI {scores[0]:.3f} and {scores[1]:.3f}"
    cases = (("first five batches", 0.1), ("all others", 0.5))
    for (name, goal), ours, theirs in zip(cases, *rates, strict=True):
        case = f"MNIST, ten clusters by 392, against MiniBatchKMeans, {name}"
        met = ours >= goal * theirs
        yield row(case, ours, "rows/s", f">= {goal:g} x", met, said, theirs)


def files() -> Iterator[Found]:
    """A fit from a CSV file and from a Parquet file, 100 features: megabytes of the file."""
    import pandas as pd

    rng = np.random.default_rng(0)
    x = rng.standard_normal(100)
    X = rng.standard_normal((40_000, 100))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(100)])
    frame["y"] = X @ x + rng.standard_normal(len(X))
    with tempfile.TemporaryDirectory() as folder:
        for name, goal in (("csv", 50.0), ("parquet", 60.0)):
            path = Path(folder) / f"rows.{name}"
            if name == "csv":
                frame.to_csv(path, index=False)
            else:
                frame.to_parquet(path, index=False)
            size = path.stat().st_size / 1e6
            model, reading = MiniAMPRegressor(), time.process_time()
            for _ in open_stream(str(path), "y", 1000):
                pass
            reading, begin = time.process_time() - reading, time.process_time()
            for batch in open_stream(str(path), "y", 1000):
                model.partial_fit(batch.X, batch.y)
            seconds = time.process_time() - begin
            said = f"error {squared_error(x, model.coef_):.1e}; reading alone {size / reading:.0f}"
            case = f"fit of a {name} file, 40,000 rows of 100 features, against reading alone"
            met = size / seconds >= goal
            yield row(case, size / seconds, "MB/s", f">= {goal:g} MB/s", met, said, size / reading)


def distributed_rows() -> Iterator[Found]:
    """A GAMP iteration on two Dask workers of 2000 x 5000 rows, against one process."""
    from distributed import Client, LocalCluster

    from benchmarks import cluster

    Phi, y = (np.concatenate(part) for part in zip(*map(cluster.block, range(2)), strict=True))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers,
        Client(workers) as client,
    ):
        far = designs.Distributed([partial(cluster.block, k) for k in range(2)], client)
        works = [cluster.iteration(design, y) for design in (far, designs.as_design(Phi))]
        ours, theirs = best(*works, repeats=3, turns=10)
        moved, wanted = (work().estimate.mean for work in works)
    said = f"largest difference {np.max(np.abs(moved - wanted)):.0e}"
    case = "GAMP iteration on two Dask workers, 2000 x 5000 each, against one process"
    yield row(case, 1e3 * ours, "ms", "reported", None, said, 1e3 * theirs)
