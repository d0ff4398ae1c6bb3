"""The fit state of a streaming clustering: one frozen value per batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.utils.extmath import row_norms

from miniamp import channels, checks, priors
from miniamp.absorb import Info, Stop, absorb
from miniamp.arrays import Array, Given
from miniamp.errors import ConflictError, ConflictWarning
from miniamp.estimators.history import KEPT_BATCHES, ClusterEntry
from miniamp.estimators.rows import Matrix, entries, matrix_of, matrix_state, require_shape, stacked
from miniamp.estimators.saving import State
from miniamp.estimators.settings import ClusterSettings
from miniamp.evidence import FactorBatch, Factors
from miniamp.evidence.factor_scores import FactorScores, kmeans_start, noise_start
from miniamp.posterior import Posterior
from miniamp.priors import RowPrior

#: The noise is never below this share of the data's mean square: samples that coincide with
#: their centres would otherwise make every later sample infinitely unlikely.
NOISE_FLOOR = 1e-6
#: A feature's own unit, squared, is never below this share of its squared range: one that a single
#: sample changes would otherwise outweigh all others. A share of the average variance instead, as
#: before, left grams to decide alone: penguins, with bills in mm, agreed by .36 with their species.
FEATURE_FLOOR = 1e-2
#: Message passing is an expansion in 1/N; with fewer features than this its Onsager terms are no
#: longer small corrections, and batches are absorbed by variational mean field instead.
MANY_FEATURES = 64
#: A start whose smallest cluster has less than this share of an even one is used only if all have:
#: handfuls of near-duplicates (reposted documents) otherwise win by their tightness.
BALANCE = 0.25
#: Of more entries than this, starts are compared after so few iterations on a sample of so many
#: rows (or rows per cluster, where that is more), and the best one goes on with all rows. On MNIST,
#: ten clusters in 40 batches of 392, mutual information is .483 (four seeds), and .486 with all
#: starts brought to their end, in 30 times the time; on scikit-learn's 1797 digits, which are fewer
#: entries, it would fall by .01. Not of sparse rows: newsgroups need all of theirs (accuracy .39).
SMALL, SCREENING, SCREENED, SCREENED_EACH = 200_000, 4, 400, 20
#: Rows that are labelled at once.
CHUNK = 8192


@dataclass(frozen=True, eq=False)
class Clusters:
    """A posterior of the centres, the noise, and the samples of the first batches while kept.

    Everything inside is in units of `unit` (one per feature; None unless each has its own noise).
    """

    settings: ClusterSettings
    features: int
    seed: int
    belief: Factors | None = None
    level: float = np.nan  #: variance of the noise, in those units
    unit: Array | None = None
    kept: Matrix | None = None
    counts: Array = field(default_factory=lambda: np.zeros(0))
    assigned: Array = field(default_factory=lambda: np.zeros(0))  #: samples by most likely cluster
    batches: int = 0
    samples: int = 0
    history: tuple[ClusterEntry, ...] = ()
    last_labels: NDArray[np.int64] | None = None

    def with_settings(self, settings: ClusterSettings) -> Clusters:
        """The same state after parameters of the estimator were changed."""
        if settings.n_clusters != self.settings.n_clusters:
            raise checks.refuse(
                "n_clusters",
                settings.n_clusters,
                f"{self.settings.n_clusters}, as in the first batch",
                "call fit, or clone the estimator, to start over",
            )
        return replace(self, settings=settings)

    def absorbed(self, X: Matrix) -> Clusters:
        """The state after one more batch of rows."""
        self._check(X)
        if self.batches >= self.settings.n_init_batches:
            return self._continued(X)
        raw = X if self.kept is None else stacked(self.kept, X)
        after = self._started(X, raw) if self._restarts() else self._continued(X)
        last = self.batches + 1 == self.settings.n_init_batches
        return replace(after, kept=None if last else raw)

    def _restarts(self) -> bool:
        """Whether to start over with the next of the first batches.

        Whenever the samples have doubled, and with the last: all restarts together cost about as
        much as the last two.
        """
        k = self.batches + 1
        return k & (k - 1) == 0 or k == self.settings.n_init_batches

    def _started(self, X: Matrix, raw: Matrix) -> Clusters:
        if raw.shape[0] < self.settings.n_clusters:
            raise checks.refuse(
                "X",
                f"n_samples={raw.shape[0]}",
                f"at least n_clusters={self.settings.n_clusters} in the first batch",
                "give more samples at once, or choose fewer clusters",
            )
        unit = self._feature_scale(raw)
        rng = np.random.default_rng([self.seed, self.batches])
        rows, stop = raw.shape[0], self.settings.stop
        most = max(SCREENED, SCREENED_EACH * self.settings.n_clusters)
        large = not sp.issparse(raw) and rows * self.features > SMALL
        some = raw[rng.choice(rows, most, replace=False)] if large and rows > most else raw
        Y, part = scaled(raw, unit).T, scaled(some, unit).T
        square = mean_square(Y.T)
        starts = list(self._starts(some, part, rng))
        level = self._first_level(part, starts, square)
        belief = Posterior(self.settings.prior_of_centres(square), self.features)
        if large:
            few = replace(stop, max_iter=min(SCREENING, stop.max_iter))
            best, _ = self._tried(belief, part, level, starts, few)
            starts = [_labels(Y, best.mean, level)]
        after, info = self._tried(belief, Y, level, starts, stop)
        after = self._with_old_labels(after, unit)
        return self._after(X, after, info, square, restart=True, unit=unit)

    def _tried(
        self, belief: Posterior, Y: Matrix, level: float, starts: Sequence[Array], stop: Stop
    ) -> tuple[Factors, Info]:
        """The best result of the starts; one in conflict is dropped unless all are."""
        found, failure = [], None
        with warnings.catch_warnings():
            # A start is a trial: one that needed a second attempt is no reason for a warning.
            warnings.simplefilter("ignore", ConflictWarning)
            for start in starts:
                try:
                    after, info = absorb(belief, self._evidence(Y, level, start), stop)
                    assert isinstance(after, Factors)
                    found.append((after, info))
                except ConflictError as error:
                    failure = error
        if not found and failure is not None:
            raise failure
        return max(found, key=lambda pair: _rank(pair[0]))

    def _starts(self, raw: Matrix, Y: Matrix, rng: np.random.Generator) -> Iterator[Array]:
        """First guesses of the labels: the current ones, then k-means++ and small noise in turn."""
        columns = priors.OneHot(self.settings.n_clusters)
        scores = FactorScores(Y, channels.Gaussian(var=1.0), 1.0)
        if self.belief is not None:
            yield np.eye(self.settings.n_clusters)[self.labels(raw)]
        for k in range(self.settings.n_init):
            # Far-apart samples find small clusters and outliers, noise the bulk's own directions.
            start = kmeans_start if k % 2 == 0 else noise_start
            yield start(scores, columns, rng)

    def _with_old_labels(self, belief: Factors, unit: Array | None) -> Factors:
        """The same clusters, numbered as those before that they are nearest to."""
        if self.belief is None or belief.columns is None:
            return belief
        old, new = self.centres, _centres(belief, unit)
        far = np.square(new).sum(axis=1)[:, None] - 2.0 * new @ old.T + np.square(old).sum(axis=1)
        order = np.argsort(linear_sum_assignment(np.nan_to_num(far))[1])
        return belief.renamed(order)

    def _continued(self, X: Matrix) -> Clusters:
        assert self.belief is not None
        Y, faded = scaled(X, self.unit).T, self.belief.scaled(self._fade())
        evidence = self._evidence(Y, self.level, "belief")
        square = evidence.scores.square * self.level**2 / evidence.rows
        try:
            after, info = absorb(faded, evidence, self.settings.stop)
        except ConflictError:
            if not isinstance(self.settings.noise, str):
                raise
            # The noise was learned on other samples: learn it on these, as far as they are from
            # the centres, and look again.
            labels = np.eye(self.settings.n_clusters)[self.labels(X)]
            level = residual(Y, self.belief.mean, labels, square)
            after, info = absorb(faded, self._evidence(Y, level, "belief"), self.settings.stop)
        assert isinstance(after, Factors)
        return self._after(X, after, info, square)

    def _evidence(self, Y: Matrix, level: float, start: Given) -> FactorBatch:
        return FactorBatch(
            Y,
            channels.Gaussian(var=level),
            priors.OneHot(self.settings.n_clusters),
            scale=1.0,
            start=start,
            mean_field=self.features < MANY_FEATURES,
        )

    def _fade(self) -> float:
        """Factor on all that was seen, so that batch k of K weighs (k/K)^fading in the end."""
        k = self.batches + 1
        return float((1.0 - 1.0 / k) ** self.settings.fading)

    def _after(
        self,
        X: Matrix,
        belief: Factors,
        info: Info,
        square: float,
        restart: bool = False,
        unit: Array | None = None,
    ) -> Clusters:
        columns = belief.columns
        assert columns is not None
        old = np.zeros_like(columns[0]) if restart else self._fade() * self.counts
        likeliest = np.bincount(columns.argmax(axis=1), minlength=len(old)).astype(np.float64)
        level = self._learned_level(belief.residual, float(old.sum()), len(columns), square)
        report: ClusterEntry = {
            "samples": X.shape[0],
            "iterations": info.iterations,
            "converged": info.converged,
            "health": info.health,
            "noise": level,
        }
        return replace(
            self,
            belief=belief,
            level=level,
            counts=old + columns.sum(axis=0),
            assigned=likeliest if restart else self.assigned + likeliest,
            batches=self.batches + 1,
            samples=self.samples + X.shape[0],
            history=(*self.history[1 - KEPT_BATCHES :], report),
            last_labels=columns[-X.shape[0] :].argmax(axis=1),
            unit=unit if restart else self.unit,
        )

    def _learned_level(self, residual: float, seen: float, new: int, square: float) -> float:
        """The noise: given, or the mean squared residual over all samples, faded like the centres.

        *Departure* from the paper's rule, which takes the last batch alone: a last batch of a few
        samples would then set the noise of all.
        """
        if not isinstance(self.settings.noise, str):
            return self.settings.noise
        smallest = max(NOISE_FLOOR * square, float(np.finfo(np.float64).tiny))
        total = (seen * self.level if seen else 0.0) + new * residual
        return max(total / (seen + new), smallest)

    @property
    def centres(self) -> Array:
        """Means of the centres, (R, N)."""
        assert self.belief is not None
        return _centres(self.belief, self.unit)

    @property
    def centre_std(self) -> Array:
        """Standard deviations of the centres, (R, N)."""
        assert self.belief is not None
        prior = cast(RowPrior, self.belief.prior)
        std = np.sqrt(prior.variances(self.belief.tilt.A, self.belief.tilt.B)).T
        return np.asarray(std if self.unit is None else std * self.unit)

    @property
    def weights(self) -> Array:
        """Share of each cluster, (R,)."""
        return np.asarray(self.counts / self.counts.sum())

    @property
    def noise(self) -> float | Array:
        """Variance of the noise in the data's own units: one, or one per feature."""
        return self.level if self.unit is None else self.level * np.square(self.unit)

    def probabilities(self, X: Matrix) -> Array:
        """Probability of each cluster for each row of X with the centres held fixed, (M, R)."""
        assert self.belief is not None
        parts = [
            _labels(scaled(X[i : i + CHUNK], self.unit).T, self.belief.mean, self.level)
            for i in range(0, X.shape[0], CHUNK)
        ]
        return np.concatenate(parts)

    def labels(self, X: Matrix) -> NDArray[np.int64]:
        """The most likely cluster of each row of X, (M,)."""
        return np.asarray(self.probabilities(X).argmax(axis=1))

    def distances(self, X: Matrix) -> Array:
        """Distance of each row of X to each centre, (M, R)."""
        C = self.centres
        squares = row_norms(X, squared=True)[:, None] - 2.0 * np.asarray(X @ C.T)
        return np.asarray(np.sqrt(np.maximum(squares + np.square(C).sum(axis=1), 0.0)))

    def state(self) -> State:
        """This state in plain values and posteriors; settings are saved as parameters."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "settings"}
        kept = None if self.kept is None else matrix_state(self.kept)
        return {**values, "history": [dict(entry) for entry in self.history], "kept": kept}

    @classmethod
    def from_state(cls, state: State, settings: ClusterSettings) -> Self:
        """The way back from `state`."""
        kept = None if state["kept"] is None else matrix_of(state["kept"])
        if kept is not None:
            require_shape("kept", kept, None, state["features"])
        for name in ("seed", "batches", "samples"):
            checks.count(name, state[name], least=0)
        if state["belief"] is not None:
            require_shape("belief", state["belief"].tilt.B, state["features"], settings.n_clusters)
        return cls(settings, **{**state, "history": tuple(state["history"]), "kept": kept})

    def _check(self, X: Matrix) -> None:
        values = entries(X)
        if self.settings.prior == "nonnegative" and values.size and values.min() < 0.0:
            raise checks.refuse(
                "X",
                f"{values.min():g} (Negative values in data passed to MiniAMPClusterer)",
                "numbers >= 0 with prior='nonnegative'",
                "use {prior=gaussian}, or shift them",
            )

    def _feature_scale(self, X: Matrix) -> Array | None:
        if self.settings.noise != "per-feature":
            return None
        var = feature_variances(X)
        typical = float(var.mean())
        ends = X.min(axis=0), X.max(axis=0)
        low, high = (end.toarray().ravel() if sp.issparse(end) else end for end in ends)
        own = np.maximum(var, FEATURE_FLOOR * np.square(high - low))
        # A constant so far has no unit of its own; that of an average feature is as good as any.
        return np.sqrt(np.where(own > 0.0, own, typical)) if typical > 0.0 else None

    def _first_level(self, Y: Matrix, starts: Sequence[Array], square: float) -> float:
        """The noise to begin with: given, as last learned, or what the best start leaves over."""
        if not isinstance(self.settings.noise, str):
            return self.settings.noise
        if self.belief is not None:
            return self.level
        left = min(
            residual(Y, np.asarray(Y @ V) / np.maximum(V.sum(axis=0), 1e-9), V, square)
            for V in starts
        )
        return max(left, NOISE_FLOOR * square) or 1.0


def _rank(belief: Factors) -> tuple[bool, float]:
    """What makes one start better than another: no tiny cluster, then the evidence."""
    assert belief.columns is not None
    # Samples that are more likely in a cluster than not: components that coincide have none.
    share = (belief.columns > 0.5).mean(axis=0).min() * belief.columns.shape[1]
    return bool(share >= BALANCE), belief.log_evidence


def _labels(Y: Matrix, U: Array, level: float) -> Array:
    """Probabilities of the labels of the columns of Y with the centres U held fixed, (M, R)."""
    fields = np.asarray(Y.T @ U.astype(Y.dtype, copy=False), dtype=np.float64)
    return priors.OneHot(U.shape[1]).totals(U.T @ U / level, fields / level)[0]


def _centres(belief: Factors, unit: Array | None) -> Array:
    return np.asarray(belief.mean.T if unit is None else belief.mean.T * unit)


def scaled(X: Matrix, unit: Array | None) -> Matrix:
    """X with every feature divided by its unit, where there are units."""
    if unit is None:
        return X
    if not sp.issparse(X):
        return X / unit
    rows = sp.csr_array(X, copy=True)
    rows.data = rows.data / unit[rows.indices]
    return rows


def mean_square(Y: Matrix) -> float:
    """Mean square of an entry."""
    return float(row_norms(Y, squared=True).sum(dtype=np.float64) / (Y.shape[0] * Y.shape[1]))


def feature_variances(X: Matrix) -> Array:
    """Variance of each column, (N,)."""
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    squares = row_norms(X.T, squared=True).astype(np.float64) / X.shape[0]
    return np.asarray(np.maximum(squares - np.square(mean), 0.0))


def residual(Y: Matrix, U: Array, V: Array, square: float) -> float:
    """Mean square of Y - U V', without forming it (the paper's rule for the noise).

    `square` is the mean square of Y.
    """
    cross = float(np.vdot(np.asarray(Y @ V.astype(Y.dtype, copy=False)), U))
    other = float(np.vdot(U.T @ U, V.T @ V)) - 2.0 * cross
    return max(square + other / float(Y.shape[0] * Y.shape[1]), 0.0)
