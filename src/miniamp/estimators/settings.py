"""The parameters of the estimators, checked once, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import channels, checks, priors, theory
from miniamp.absorb import POLICIES, Stop
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design, as_design
from miniamp.errors import InvalidTypeError, MiniampError
from miniamp.estimators.candidates import NAMED, PRIORS
from miniamp.estimators.rows import Matrix, with_centres
from miniamp.estimators.scoring import Scorer
from miniamp.evidence import Frame
from miniamp.evidence.auto import choose
from miniamp.evidence.frame import CONSTANT
from miniamp.posterior import Posterior, Prior
from miniamp.priors import RowPrior, ScalarPrior

#: Names of the parameters that make the settings.
CHECKED = (
    *("prior", "noise", "memory", "forget", "solver", "on_conflict"),
    *("max_iter", "tol", "fit_intercept", "standardize"),
)
#: Default channel of a classifier: probit with unit noise, which sets the scale.
LABELS = channels.Probit(var=1.0)
#: Default channel of a regressor; its noise is learned unless given.
NUMBERS = channels.Gaussian(var=1.0)
#: memory="auto": one row per feature, but at most so many rows, and bytes in all; where fewer than
#: the third number would fit, none. Remembered rows are dense.
REMEMBERED_ROWS, REMEMBERED_BYTES, LEAST_REMEMBERED = 512, 32_000_000, 32
#: Sparse rows of more features are not stacked on dense ones: at 20,000 features and 1000 rows of
#: 50 entries that takes 160 MB instead of 10, and 40 times as long.
SPARSE_REMEMBERED = 4096
#: With three classes or more, sparse rows of more features are neither stacked nor learned by joint
#: matrices: each class is learned against the others from the rows' M x M products. 1500 rows of 20
#: entries, 2500 and 3500 features, 4 classes: log loss .986 and 1.117 in 62 MB and 6 s, joint
#: .987 and 1.112 in 1.6 and 2.9 GB and 8 and 13 s. With 1200 features .882 and .861 (340 MB).
SPARSE_CLASSES = 2048
#: Numbers in the information matrices of all classes, where they are learned together: 400 MB.
MOST_NUMBERS = 50_000_000
#: Rows per batch of several classes that are learned together, at least, and per coefficient: an
#: update costs as much for one row as for N, and more rows at once are solved better.
LEAST_TOGETHER, TOGETHER = 1024, 2
#: Prior variance of an intercept, in units of the targets' mean square.
WIDE = 100.0
#: Entries of a matrix that AMP absorbs as one batch: 64 MB.
AT_ONCE = 8_000_000
#: Multiplications that the robust solver may spend on an iteration of a batch: rows with Gaussian
#: noise are decomposed once, others again in every iteration.
WORK, WORK_AGAIN = 2e8, 4e6
#: Multiplications for all rows at once where they are fewer than the features, with Gaussian noise:
#: pieces of such rows cannot tell which coefficients are zero. 400 rows of 2000 features, of which
#: twelve matter: mean squared error 2.6e-5 in one batch (3.2 s) and 1.9e-3 in four (2.0 s).
WORK_WIDE = 4e9
#: Rows per batch where sparse ones are solved by their M x M products: 30 ms of CPU per iteration.
SPARSE_ROWS = 1000
#: No batch is chosen smaller than this.
LEAST_ROWS = 128
#: Starts at most: more is a slip or a damaged file, and would run for days.
MOST_STARTS = 10_000
#: Rows that are looked at to tell whether AMP suits the design.
SAMPLED = 512


@dataclass(frozen=True, eq=False)
class ModelSettings:
    """The checked parameters of a regressor or classifier; see `MiniAMPRegressor`."""

    prior: ScalarPrior
    prior_name: str  #: "" of a prior object
    auto_prior: bool
    learn_prior: bool
    channel: Channel
    learn_noise: bool
    memory: int | None
    forget: float
    auto_forget: bool
    solver: str
    on_conflict: str
    stop: Stop
    intercept: bool
    scaling: bool
    target_scaling: bool
    score: Scorer
    given: Mapping[str, Given]  #: what was checked

    @classmethod
    def checked(cls, given: Mapping[str, Given], *, channel: Channel, score: Scorer) -> Self:
        """The settings of parameters by name (`CHECKED`), or an error that names the parameter.

        `channel` is the default one, which is used where `noise` is a number or "learn".
        """
        for name in ("fit_intercept", "standardize"):
            if not isinstance(given[name], (bool, np.bool_)):
                raise InvalidTypeError(name, f"{given[name]!r:.60}", "True or False", "choose one")
        auto_prior, auto_forget = _is_auto(given["prior"]), _is_auto(given["forget"])
        prior, name = _prior(PRIORS[0] if auto_prior else given["prior"])
        learn_prior, forget = bool(name), 1.0 if auto_forget else given["forget"]
        channel, learn_noise = _channel(given["noise"], channel)
        solver, on_conflict, memory = (given[n] for n in ("solver", "on_conflict", "memory"))
        max_iter, tol = checks.count("max_iter", given["max_iter"]), given["tol"]
        if not isinstance(solver, str) or solver not in ("auto", "amp", "robust"):
            raise checks.refuse(
                "solver", repr(solver), "'auto', 'amp' or 'robust'", "'auto' suits any rows"
            )
        if not isinstance(on_conflict, str) or on_conflict not in POLICIES:
            raise checks.refuse(
                "on_conflict", repr(on_conflict), "'adapt', 'skip' or 'raise'", "choose one"
            )
        return cls(
            prior=prior,
            prior_name=name,
            auto_prior=auto_prior,
            learn_prior=learn_prior,
            channel=channel,
            learn_noise=learn_noise,
            memory=None if _is_auto(memory) else checks.count("memory", memory, least=0),
            forget=checks.number("forget", forget, above=0.0, most=1.0),
            auto_forget=auto_forget,
            solver=solver,
            on_conflict=on_conflict,
            stop=Stop(max_iter, checks.number("tol", tol, least=0.0)),
            intercept=bool(given["fit_intercept"]),
            # A prior object describes coefficients in the user's own units.
            scaling=bool(given["standardize"]) and learn_prior,
            target_scaling=learn_prior and not isinstance(given["noise"], Channel),
            score=score,
            given=dict(given),
        )

    def choosing(self, prior: str, forget: float) -> Self:
        """The settings with the prior of this name ("": as it is) and this forgetting factor."""
        if (prior, forget) == (self.prior_name, self.forget):
            return self
        return replace(self, prior=_prior(prior or self.prior)[0], prior_name=prior, forget=forget)

    def memory_for(self, features: int, sparse: bool, targets: int = 1) -> int:
        """How many rows a posterior of so many features remembers, for sparse or dense rows."""
        if self.memory is not None:
            return self.memory
        room = min(REMEMBERED_ROWS, REMEMBERED_BYTES // (8 * features))
        most = SPARSE_CLASSES if targets > 2 else SPARSE_REMEMBERED
        if room < LEAST_REMEMBERED or (sparse and features > most):
            return 0
        return min(features + self.intercept, room)

    def joins(self, features: int, targets: int, wide: bool = False) -> bool:
        """Whether so many classes are learned by one joint posterior.

        That needs a Gaussian prior and room for an N x N matrix per class. Other priors, a smaller
        `memory`, solver="amp", a channel of its own and sparse rows of many features in batches of
        fewer rows (`wide`) have one model per class against the others.
        """
        size = features + self.intercept
        room = self.memory is None or self.memory >= size
        parts = self.prior.components() if self.prior.shape == () else None
        gaussian = parts is not None and len(parts.weights) == 1 and bool(parts.variances[0] > 0.0)
        usual = self.channel in (LABELS, channels.Logistic())
        dense = not wide or features <= SPARSE_CLASSES
        fits = dense and targets * size**2 <= MOST_NUMBERS
        return targets > 2 and room and gaussian and usual and fits and self.solver != "amp"

    def first_belief(self, features: int, sparse: bool, targets: int, y: Array) -> Posterior:
        """The posterior of so many features before any row, for targets like y."""
        checks.fits("prior", self.prior.shape, features)
        size, prior = features + self.intercept, cast(Prior, self.prior)
        if self.intercept:
            power = 1.0 if self.channel.predicts_probabilities else float(np.mean(np.square(y)))
            prior = priors.WithIntercept(self.prior, WIDE * (power or 1.0))
        return Posterior(prior, size, memory=self.memory_for(features, sparse, targets))

    def target_units(self, Y: Array, weights: Array | None = None) -> tuple[Array, Array]:
        """Zero and unit of each target (K,), from the first rows: 0 and 1 where they have none.

        Only targets that are z plus noise have units of their own; and a prior or a channel given
        as an object is in the user's units.
        """
        if not self.channel.shift_invariant:
            return np.zeros(1), np.ones(1)
        nothing = np.zeros(Y.shape[1])
        centre = np.average(Y, axis=0, weights=weights) if self.intercept else nothing
        if not self.target_scaling:
            return centre, nothing + 1.0
        scale = np.sqrt(np.average(np.square(Y - centre), axis=0, weights=weights))
        constant = np.where(centre == 0.0, 1.0, np.abs(centre))
        return centre, np.where(scale > CONSTANT * np.abs(centre), scale, constant)

    def first_frame(self, X: Matrix) -> Frame:
        """Centre and scale of each feature, from the first rows."""
        frame = Frame.none(X.shape[1]).following(X)
        if not self.intercept:
            # Without an intercept features cannot be centred.
            spread = np.hypot(frame.scale, frame.centre)
            frame = replace(frame, centre=np.zeros_like(frame.centre), scale=spread)
        if not self.scaling:
            frame = replace(frame, scale=np.ones_like(frame.scale))
        return frame


def batch_rows(batch_size: Given) -> int | None:
    """The number of rows per batch that a user chose, None for "auto"."""
    return None if _is_auto(batch_size) else checks.count("batch_size", batch_size)


def _is_auto(value: Given) -> bool:
    return isinstance(value, str) and value == "auto"


def _prior(given: Given) -> tuple[ScalarPrior, str]:
    """The prior, and its name where its hyper-parameters are to be learned, else ""."""
    if isinstance(given, str):
        if given not in NAMED:
            names = ", ".join(repr(name) for name in ("auto", *NAMED))
            raise checks.refuse("prior", repr(given), f"{names} or a prior", "choose one")
        return NAMED[given].default(), given
    if not isinstance(given, ScalarPrior):
        raise InvalidTypeError(
            "prior",
            f"{given!r:.60}",
            "a name such as 'sparse' or a prior such as priors.GaussBernoulli(rho=0.1)",
            "see miniamp.priors",
        )
    return given, ""


def _channel(noise: Given, channel: Channel) -> tuple[Channel, bool]:
    """The channel, and whether its noise is to be learned."""
    if isinstance(noise, Channel):
        if noise.shape not in ((), (1,)):
            raise checks.refuse(
                "noise", f"{noise!r}", "one noise for all rows", "weigh the rows by sample_weight"
            )
        return noise, False
    if isinstance(noise, str):
        if noise != "learn":
            raise checks.refuse(
                "noise", repr(noise), "'learn', a variance or a channel", "choose one"
            )
        return channel, channel.has_noise
    return channel.with_noise(checks.number("noise", noise, least=0.0)), False


def cut(
    batch_size: Given,
    settings: ModelSettings,
    X: Matrix,
    rng: np.random.RandomState,
    targets: int = 1,
) -> Iterator[NDArray[np.int64]]:
    """The rows of each batch, in random order where there is more than one."""
    rows = X.shape[0]
    if batch_rows(batch_size) is None:
        sizes = auto_sizes(settings, X, targets)
        order = np.arange(rows) if len(sizes) == 1 else rng.permutation(rows)
        yield from np.split(order, np.cumsum(sizes)[:-1])
        return
    size = batch_rows(batch_size) or rows
    pieces = -(-rows // size)
    order = np.arange(rows) if pieces == 1 else rng.permutation(rows)
    # A last batch of less than half the size joins the one before.
    last = max(1, pieces - (0 < rows % size < size / 2))
    for k in range(last):
        yield order[k * size : (k + 1) * size if k + 1 < last else rows]


def auto_rows(settings: ModelSettings, X: Matrix, targets: int = 1) -> int:
    """Rows of the largest batch: as many as the solver handles well, or as theory recommends."""
    return max(auto_sizes(settings, X, targets))


def auto_sizes(settings: ModelSettings, X: Matrix, targets: int = 1) -> list[int]:
    """Rows of each batch: equal ones, unless theory recommends others (`theory.schedule`)."""
    rows, features = (int(n) for n in X.shape)
    sparse = sp.issparse(with_centres(X[:SAMPLED]))
    if settings.joins(features, targets, sparse):
        pieces = -(-rows // max(LEAST_TOGETHER, TOGETHER * features))
        return [len(part) for part in np.array_split(np.arange(rows), pieces)]
    shifted = settings.channel.shift_invariant
    if shifted and rows <= features and rows**2 * features <= WORK_WIDE:
        return [rows]
    if takes_amp(settings, X):
        return [rows] if rows * features <= AT_ONCE else _planned(settings, X)
    work = WORK if shifted else WORK_AGAIN
    memory = settings.memory_for(features, sparse, targets)
    if sparse and (memory == 0 or rows <= SPARSE_ROWS):
        return _equal(rows, SPARSE_ROWS)
    sizes = np.unique(np.geomspace(1, rows, 200).astype(int))
    stack = sizes + memory
    affordable = sizes[stack * features * np.minimum(stack, float(features)) <= work]
    return _equal(rows, max(int(affordable[-1]) if len(affordable) else 1, min(LEAST_ROWS, rows)))


def _equal(rows: int, size: int) -> list[int]:
    return [len(part) for part in np.array_split(np.arange(rows), -(-rows // size))]


def takes_amp(settings: ModelSettings, X: Matrix) -> bool:
    """Whether AMP suits these rows."""
    return choose(_sample(settings, X), solver=settings.solver).solver == "amp"


def _sample(settings: ModelSettings, X: Matrix) -> Design:
    """Some of these rows, standardised."""
    sample = with_centres(X[:: max(1, X.shape[0] // SAMPLED)])
    return as_design(settings.first_frame(sample).rows(sample, intercept=settings.intercept))


def _planned(settings: ModelSettings, X: Matrix) -> list[int]:
    """Rows of each batch as `theory.plan` chooses them, within 64 MB."""
    (rows, features), channel = (int(n) for n in X.shape), settings.channel
    if not settings.learn_prior and channel.names == ("var",):
        # The theory is of rows of norm 1: larger ones are as good as less noise.
        power = features * _sample(settings, X).mean_square
        channel = channel.with_noise(float(channel.parameters()["var"]) / power)
    try:
        found = theory.plan(
            settings.prior, channel, features, budget_rows=rows, max_memory=8.0 * AT_ONCE
        )
    except (MiniampError, NotImplementedError, ArithmeticError):  # a model without a theory
        return _equal(rows, max(AT_ONCE // features, LEAST_ROWS))
    if found.unequal is None or min(found.unequal.sizes) * features < LEAST_ROWS:
        return _equal(rows, min(max(found.pick.batch_rows, LEAST_ROWS), rows))
    ends = np.round(np.cumsum(found.unequal.sizes) * features).astype(int)
    return [int(size) for size in np.diff([0, *ends[:-1].tolist(), rows])]


@dataclass(frozen=True)
class ClusterSettings:
    """The checked parameters of a clustering; see `MiniAMPClusterer`."""

    n_clusters: int
    prior: str
    prior_var: float | None
    noise: str | float
    n_init_batches: int
    n_init: int
    fading: float
    stop: Stop

    @classmethod
    def checked(
        cls,
        *,
        n_clusters: Given,
        prior: Given,
        prior_var: Given,
        noise: Given,
        n_init_batches: Given,
        n_init: Given,
        fading: Given,
        max_iter: Given,
        tol: Given,
    ) -> Self:
        """The settings, or an error that names the parameter."""
        if prior not in ("gaussian", "nonnegative"):
            raise checks.refuse("prior", repr(prior), "'gaussian' or 'nonnegative'", "choose one")
        if not isinstance(noise, str):
            noise = checks.number("noise", noise, above=0.0)
        elif noise not in ("learn", "per-feature"):
            known = "'learn', 'per-feature' or a variance"
            raise checks.refuse("noise", repr(noise), known, "choose one")
        if prior_var is not None:
            prior_var = checks.number("prior_var", prior_var, above=0.0)
        return cls(
            n_clusters=checks.count("n_clusters", n_clusters),
            prior=prior,
            prior_var=prior_var,
            noise=noise,
            n_init_batches=checks.count("n_init_batches", n_init_batches),
            n_init=checks.count("n_init", n_init, most=MOST_STARTS),
            fading=checks.number("fading", fading, least=0.0),
            stop=Stop(checks.count("max_iter", max_iter), checks.number("tol", tol, least=0.0)),
        )

    def prior_of_centres(self, mean_square: float) -> RowPrior:
        """The prior of U, its variance from the data where it is not given."""
        var = self.prior_var if self.prior_var is not None else (mean_square or 1.0)
        if self.prior == "nonnegative":
            return priors.NonNegativeRows(self.n_clusters, var=var)
        return priors.GaussianRows(self.n_clusters, cov=var)
