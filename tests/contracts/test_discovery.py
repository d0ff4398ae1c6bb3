"""Every prior, channel, design, evidence and belief that the package exports, found by its exports.

A class that is exported and has no example here fails `test_everything_exported_has_an_example`;
the contracts below then run on it. Contracts of one kind alone are in the files beside this one.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import miniamp
from contracts.examples import CHANNELS, PRIORS
from miniamp import Posterior, Tilt, absorb, channels, designs, evidence, learning, priors, theory
from miniamp.errors import InvalidInputError
from miniamp.parametric import Parametric
from miniamp.theory import lowrank

#: Parts of the package that use the others and define nothing that can be absorbed.
USERS = ("cli", "compat", "experiments", "report", "datasets")
SIZE, ROWS, R = 12, 40, 2  # R as in the examples of priors of rows
CHANNEL = channels.Gaussian(var=0.1)


def exported() -> set[type]:
    """The concrete classes that any package of miniamp exports, or a module beside them defines."""
    found = []
    for module in pkgutil.iter_modules(miniamp.__path__):
        if module.name in USERS or module.name.startswith("_"):
            continue
        part = importlib.import_module(f"miniamp.{module.name}")
        found.append(part)
        if module.ispkg:
            inner = (i for i in pkgutil.iter_modules(part.__path__) if i.ispkg)
            found += [importlib.import_module(f"{part.__name__}.{i.name}") for i in inner]
    classes = set()
    for part in found:
        for name in getattr(part, "__all__", [n for n in vars(part) if not n.startswith("_")]):
            one = getattr(part, name)
            if not inspect.isclass(one) or inspect.isabstract(one):
                continue
            if not hasattr(part, "__all__") and one.__module__ != part.__name__:
                continue  # imported there, not defined
            if one.__module__.startswith("miniamp.") and not getattr(one, "_is_protocol", False):
                classes.add(one)
    return classes


def is_evidence(cls: type) -> bool:
    asked = ("start", "refine", "conclude", "remedies", "diagnosis")
    return all(callable(getattr(cls, name, None)) for name in asked)


def is_belief(cls: type) -> bool:
    """What forgets (`absorb(..., forget=)`) and knows how uncertain it is."""
    return hasattr(cls, "scaled") and (hasattr(cls, "mean") or hasattr(cls, "variance"))


def kind_of(cls: type) -> str | None:
    if issubclass(cls, (priors.BasePrior, channels.Channel, designs.Design)):
        return next(
            name
            for name, base in (
                ("prior", priors.BasePrior),
                ("channel", channels.Channel),
                ("design", designs.Design),
            )
            if issubclass(cls, base)
        )
    if is_evidence(cls):
        return "evidence"
    return "belief" if is_belief(cls) else None


def rows_and_targets(seed: int = 1):
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(ROWS, SIZE)) / np.sqrt(SIZE)
    return Phi, Phi @ rng.normal(size=SIZE) + np.sqrt(0.1) * rng.normal(size=ROWS)


def linear(make, prior=None):
    """A posterior, and rows for it."""
    return Posterior(prior or priors.GaussBernoulli(rho=0.5), SIZE), make(*rows_and_targets())


def low_rank():
    rng = np.random.default_rng(2)
    u, labels = rng.normal(size=(SIZE, R)), rng.integers(R, size=ROWS)
    Y = 3.0 * u[:, labels] / np.sqrt(SIZE) + 0.3 * rng.normal(size=(SIZE, ROWS))
    rows = evidence.FactorBatch(Y, channels.Gaussian(var=0.09), priors.OneHot(R))
    return Posterior(priors.GaussianRows(R), SIZE), rows


def matrix_law():
    sparse, plain = priors.SparseRows(R, rho=0.3), priors.GaussianRows(R)
    return lowrank.MatrixLaw.replicates(sparse, plain, 0.1, points=8)[0]


#: How each design is made of an array, and the plain design that must say the same.
DESIGNS = {
    designs.Dense: lambda Phi: (designs.Dense(Phi), designs.Dense(Phi)),
    designs.Fused: lambda Phi: (designs.Fused(Phi), designs.Dense(Phi)),
    designs.Framed: lambda Phi: (framed_of(Phi), designs.Dense(Phi)),
    designs.Sparse: lambda Phi: (sparse_of(Phi), designs.Dense(Phi)),
    designs.Averaged: lambda Phi: (designs.Averaged(sparse_of(Phi)), designs.Dense(Phi).averaged()),
    designs.Distributed: lambda Phi: (distributed_of(Phi), designs.Dense(Phi)),
}
#: A belief and a piece of evidence for it, made anew at every call.
EVIDENCE = {
    evidence.Batch: lambda: linear(lambda Phi, y: evidence.Batch(Phi, y, CHANNEL)),
    evidence.MeanFieldBatch: lambda: linear(
        lambda Phi, y: evidence.MeanFieldBatch(Phi, y, CHANNEL)
    ),
    evidence.ExactBatch: lambda: linear(
        lambda Phi, y: evidence.ExactBatch(Phi, y, CHANNEL), priors.Gaussian()
    ),
    evidence.RobustBatch: lambda: linear(lambda Phi, y: evidence.RobustBatch(Phi, y, CHANNEL)),
    evidence.AutoBatch: lambda: linear(
        lambda Phi, y: evidence.AutoBatch(Phi, y, CHANNEL),
        priors.WithIntercept(priors.Gaussian(), 9.0),
    ),
    evidence.FactorBatch: low_rank,
    evidence.SoftmaxBatch: lambda: (
        evidence.SoftmaxPosterior.start(priors.Gaussian(), 3, SIZE),
        evidence.SoftmaxBatch(rows_and_targets()[0], np.arange(ROWS) % 3),
    ),
    learning.Learn: lambda: (
        learning.Model(Posterior(priors.GaussBernoulli(), SIZE), channels.Gaussian()),
        learning.Learn(*rows_and_targets()),
    ),
    theory.TypicalBatch: lambda: (theory.Law(priors.Laplace()), theory.TypicalBatch(0.5, CHANNEL)),
    theory.ConvergedBatch: lambda: (
        theory.Law(priors.Gaussian()),
        theory.ConvergedBatch(0.5, CHANNEL),
    ),
    theory.OptimalBatch: lambda: (theory.Law(priors.Gaussian()), theory.OptimalBatch(0.5, CHANNEL)),
    lowrank.TypicalColumns: lambda: (matrix_law(), lowrank.TypicalColumns(0.7)),
    lowrank.ConvergedColumns: lambda: (matrix_law(), lowrank.ConvergedColumns(0.7)),
    lowrank.OptimalColumns: lambda: (
        lowrank.LabelLaw(R, 4.0),
        lowrank.OptimalColumns(0.7),
    ),
}


def beliefs() -> set[type]:
    """The types of belief that the evidence above is absorbed by, or makes."""
    found = set()
    for make in EVIDENCE.values():
        belief, rows = make()
        after = absorb(belief, rows)[0]
        found |= {type(belief), type(after), *map(type, getattr(after, "posteriors", ()))}
    return found


def test_everything_exported_has_an_example():
    here = {
        "prior": set(PRIORS),
        "channel": set(CHANNELS),
        "design": set(DESIGNS),
        "evidence": set(EVIDENCE),
        "belief": beliefs(),
    }
    kinds = {cls: kind_of(cls) for cls in exported()}
    for kind, examples in here.items():
        wanted = {cls for cls, found in kinds.items() if found == kind}
        assert wanted, f"nothing of the kind {kind} was found: the search is broken"
        assert {c.__name__ for c in wanted} == {c.__name__ for c in examples}, kind


def test_the_search_misses_nothing_that_derives_from_a_base(monkeypatch):
    """A class that is exported and nowhere listed is found."""

    class Forgotten(priors.Laplace):
        pass

    Forgotten.__module__ = "miniamp.priors.forgotten"
    monkeypatch.setattr(priors, "Forgotten", Forgotten, raising=False)
    monkeypatch.setattr(priors, "__all__", [*priors.__all__, "Forgotten"])
    assert Forgotten in exported()
    assert kind_of(Forgotten) == "prior"


# Priors.

every_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=lambda p: type(p).__name__)


def tilt_for(prior, rng, size=5):
    shape = (size, prior.dim) if isinstance(prior, priors.RowPrior) else size
    B = rng.normal(size=shape)
    return (0.4 * np.eye(prior.dim) if B.ndim == 2 else rng.random(size)), B


@every_prior
def test_moments_are_derivatives_of_the_log_partition(prior, rng):
    A, B = tilt_for(prior, rng)
    mean, step = prior.moments(A, B)[0], 1e-5
    for k in range(B.shape[-1]):
        shift = step * np.eye(B.shape[-1])[k]
        change = prior.log_partition(A, B + shift) - prior.log_partition(A, B - shift)
        slope = change if B.ndim == 2 else change[k]
        np.testing.assert_allclose(mean[..., k], slope / (2.0 * step), atol=1e-8)


@every_prior
def test_a_part_is_the_prior_of_its_coefficients(prior, rng):
    A, B = tilt_for(prior, rng)
    whole = prior.moments(A, B)[0]
    for where in (slice(1, 3), np.array([4, 0]), np.array([-1])):
        part = prior.at(where, len(B)).moments(A if B.ndim == 2 else A[where], B[where])[0]
        np.testing.assert_allclose(part, whole[where], rtol=1e-12)


@every_prior
def test_inclusion_is_the_share_of_draws_that_are_not_zero(prior, rng):
    """4,000 draws: five standard errors of a share, at most 0.04."""
    A, B = tilt_for(prior, rng)
    chance = prior.inclusion_probability(A, B)
    draws = prior.sample(rng, (4000, *B.shape), A, B)
    nonzero = draws.any(axis=-1) if B.ndim == 2 else draws != 0.0
    assert chance.shape == nonzero.shape[1:]
    np.testing.assert_allclose(chance, nonzero.mean(axis=0), atol=0.04)


@every_prior
def test_a_rescaled_prior_is_that_of_the_scaled_coefficient(prior, rng):
    """log E exp(-a (3x)^2/2 + b (3x)) is the tilt (9 a, 3 b) of x; an intercept is not scaled."""
    A, B = tilt_for(prior, rng)
    new = prior.rescaled(3.0)
    assert type(new) is type(prior)
    if not prior.free_widths():
        assert new == prior
        return
    here = slice(None, -1) if isinstance(prior, priors.WithIntercept) else slice(None)
    ours = new.log_partition(A, B)[here]
    np.testing.assert_allclose(ours, prior.log_partition(9.0 * A, 3.0 * B)[here], rtol=1e-10)
    assert prior.rescaled(3.0, fixed=(*prior.coefficients.names, "inner")) == prior
    assert new.typical_power(5) == pytest.approx(9.0 * prior.typical_power(5), rel=1e-9)


@every_prior
def test_an_em_step_keeps_what_is_fixed_and_never_hurts(prior, rng):
    A, B = tilt_for(prior, rng, 200)
    fitted = prior.fitted(A, 2.0 * B)
    before = prior.log_partition(A, 2.0 * B).sum()
    assert fitted.log_partition(A, 2.0 * B).sum() >= before - 1e-9 * abs(before)
    assert prior.fitted(A, B, fixed=prior.coefficients.names) == prior
    assert prior.change_from(prior) == 0.0


@pytest.mark.parametrize(
    "thing", [*PRIORS.values(), *CHANNELS.values()], ids=lambda p: type(p).__qualname__
)
def test_parameters_make_an_equal_object(thing):
    assert type(thing)(**thing.parameters()) == thing
    assert thing.replaced() == thing


@pytest.mark.parametrize(
    "table",
    [priors.by_name(), priors.by_name(priors.RowPrior), channels.by_name()],
    ids=["priors", "row priors", "channels"],
)
def test_names_stand_for_classes(table):
    for name, cls in table.items():
        assert name == name.lower()
        assert cls.name == name
        made = cls.default(R) if issubclass(cls, priors.RowPrior) else cls.default()
        assert type(made) is cls


def test_no_two_exports_share_a_name():
    for kind in (priors.ScalarPrior, priors.RowPrior, channels.Channel):
        names = [c.name for c in exported() if issubclass(c, kind) and c.name is not None]
        assert len(names) == len(set(names))


# Channels.

#: Channels whose likelihood to a power has no formula here; whole weights repeat the rows instead.
CANNOT_WEIGH = (channels.StudentT, channels.Poisson, channels.Interval, channels.Numerical)
every_channel = pytest.mark.parametrize("channel", CHANNELS.values(), ids=lambda c: str(c)[:20])


@every_channel
def test_probabilities_are_given_where_there_are_classes(channel):
    if not channel.predicts_probabilities:
        with pytest.raises(InvalidInputError):
            channel.predict_proba(0.3, 0.5)
        return
    chances = channel.predict_proba(np.array([0.3, -2.0]), 0.5)
    np.testing.assert_allclose(chances.sum(axis=-1), 1.0, rtol=1e-8)


@every_channel
def test_noise_is_set_where_there_is_some(channel, rng):
    if not channel.has_noise:
        with pytest.raises(InvalidInputError, match="noise"):
            channel.with_noise(0.3)
        return
    omega = rng.normal(size=400)
    y = channel.with_noise(0.3).sample(rng, omega)
    quiet, right = (channel.with_noise(v).log_partition(y, omega, 0.0).sum() for v in (1e-3, 0.3))
    assert right > quiet


@every_channel
def test_weights_are_powers_of_the_likelihood(channel, rng):
    """With z known, weight w multiplies the score by w.

    Of labels that may be wrong only the likelihood of right ones is to that power, which keeps it
    log-concave: a wrong label counts once, however often it was seen.
    """
    z = rng.normal(size=3)
    y = channel.sample(rng, z)
    weight = np.array([1.0, 0.5, 2.5])
    if isinstance(channel, CANNOT_WEIGH):
        with pytest.raises(InvalidInputError, match="sample_weight"):
            channel.weighted(weight)
        return
    weighted = channel.weighted(weight)
    if isinstance(channel, channels.Mislabelled):
        right = weight * channel.plain.log_partition(y, z, 0.0) + np.log1p(-channel.wrong)
        expected = np.logaddexp(right, np.log(0.5 * channel.wrong))
        np.testing.assert_allclose(weighted.log_partition(y, z, 0.0), expected, rtol=1e-10)
    else:
        ours, plain = weighted.output(y, z, 0.0)[0], channel.output(y, z, 0.0)[0]
        np.testing.assert_allclose(ours, weight * plain, rtol=1e-6)
    assert weighted.unweighted() == channel
    np.testing.assert_allclose(
        weighted.at(slice(1, 3)).output(y[1:], z[1:], 0.2)[0],
        weighted.output(y, z, 0.2)[0][1:],
        rtol=1e-10,
    )


# Designs.


def framed_of(Phi):
    centre, unit = np.arange(SIZE) - 5.0, np.linspace(0.5, 2.0, SIZE)
    return designs.Framed(Phi / unit + centre, centre, unit, intercept=False)


def sparse_of(Phi):
    sparse = pytest.importorskip("scipy.sparse")
    return designs.Sparse(sparse.csr_array(Phi))


def distributed_of(Phi):
    return designs.Distributed([block_of(Phi[:15]), block_of(Phi[15:])], distributed_of.client)


class block_of:
    """A source of rows that a worker can be given."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self):
        return self.rows


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="needs miniamp[distributed]")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as found,
    ):
        distributed_of.client = found
        yield found


@pytest.mark.parametrize("cls", DESIGNS, ids=lambda c: c.__name__)
def test_designs_say_what_the_plain_one_says(cls, rng, client):
    Phi, y = rows_and_targets()
    x, v = rng.normal(size=SIZE), rng.random(SIZE)
    ours, plain = DESIGNS[cls](Phi)
    assert type(ours) is cls
    assert ours.shape == plain.shape
    for one, other in zip(
        (*ours.forecast(x, v), ours.mean_square, ours.toarray(), ours.columns().power),
        (*plain.forecast(x, v), plain.mean_square, plain.toarray(), plain.columns().power),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    memory = memories = None
    for _ in range(3):
        one = ours.sandwich(x, v, y, CHANNEL, memory)
        other = plain.sandwich(x, v, y, CHANNEL, memories)
        memory, memories = one.memory, other.memory
        np.testing.assert_allclose(one.pull, other.pull, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(one.curvature, other.curvature, rtol=1e-9, atol=1e-11)


# Evidence and beliefs.

every_evidence = pytest.mark.parametrize("cls", EVIDENCE, ids=lambda c: c.__name__)


def numbers(thing) -> list[np.ndarray]:
    """All numbers that an object consists of, in a fixed order, without what is derived lazily."""
    if isinstance(thing, (bool, int, float, np.ndarray, np.generic)):
        return [np.asarray(thing, dtype=np.float64)]
    if isinstance(thing, Parametric):
        return [n for part in thing.parameters().values() for n in numbers(part)]
    if isinstance(thing, Posterior):
        return numbers(thing.mean) + numbers(thing.var) + numbers(thing.tilt)
    if dataclasses.is_dataclass(thing):
        parts = [getattr(thing, f.name) for f in dataclasses.fields(thing)]
        return [n for part in parts for n in numbers(part)]
    if isinstance(thing, (list, tuple)):
        return [n for part in thing for n in numbers(part)]
    return []


def assert_equal(one, other):
    ours, theirs = numbers(one), numbers(other)
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def different(one, other) -> bool:
    ours, theirs = numbers(one), numbers(other)
    pairs = zip(ours, theirs, strict=False)
    return len(ours) != len(theirs) or any(not np.array_equal(a, b) for a, b in pairs)


@every_evidence
def test_absorbing_leaves_the_belief_and_keeps_no_state(cls):
    belief, rows = EVIDENCE[cls]()
    fresh, _ = EVIDENCE[cls]()
    assert type(rows) is cls
    first, info = absorb(belief, rows)
    assert info.iterations >= 1
    assert_equal(belief, fresh)
    again, _ = absorb(belief, rows)
    assert_equal(again, first)
    assert different(first, belief)


@every_evidence
def test_forgetting_weakens_what_was_known(cls):
    belief, rows = EVIDENCE[cls]()
    known, _ = absorb(belief, rows)
    faded, _ = absorb(known, EVIDENCE[cls]()[1], forget=0.3)
    kept, _ = absorb(known, EVIDENCE[cls]()[1])
    assert is_belief(type(faded))
    assert different(faded, kept)
    assert all(np.isfinite(part).all() for part in numbers(faded))


@every_evidence
def test_evidence_offers_ways_out_and_words(cls):
    _, rows = EVIDENCE[cls]()
    assert rows.rows >= 1
    assert isinstance(rows.diagnosis(), str)
    for name, other in rows.remedies():
        assert isinstance(name, str)
        assert is_evidence(type(other))


@pytest.mark.parametrize("cls", EVIDENCE, ids=lambda c: c.__name__)
def test_beliefs_count_what_they_know(cls):
    """scaled(1) is the same belief, and scaled leaves it as it is."""
    known, _ = absorb(*EVIDENCE[cls]())
    before = [part.copy() for part in numbers(known)]
    known.scaled(0.5)
    for now, then in zip(numbers(known), before, strict=True):
        np.testing.assert_array_equal(now, then)
    same = known.scaled(1.0)
    if type(same) is type(known):  # a law of labels becomes a law of matrices
        for one, other in zip(numbers(same), before, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_tilts_add_and_scale(rng):
    one, other = (Tilt(rng.random(3), rng.normal(size=3)) for _ in range(2))
    both = (one + other).scaled(0.5)
    np.testing.assert_allclose(both.A, 0.5 * (one.A + other.A))
    np.testing.assert_allclose(both.B, 0.5 * (one.B + other.B))
