"""Beliefs, priors and channels come back as they were, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import Posterior, Tilt, absorb, channels, evidence, priors
from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.parametric import Parametric
from miniamp.streams import decode_belief, encode_belief, register
from miniamp.streams.container import packed, unpacked
from miniamp.tilt import Remembered


def back(thing):
    """There and back through the bytes of a file."""
    return decode_belief(unpacked(packed(encode_belief(thing))))


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def arguments(cls, rng):
    """Odd hyper-parameters, none of them round, for any class of the package."""
    third = float(rng.dirichlet([1.0, 2.0])[0])
    known = {
        "Discrete": {"points": rng.normal(size=5), "weights": rng.dirichlet(np.ones(5))},
        "GaussianMixture": {
            "weights": rng.dirichlet(np.ones(3)),
            "means": rng.normal(size=3),
            "vars": rng.gamma(2.0, size=3),
        },
        "OneHot": {"dim": 3, "weights": rng.dirichlet(np.ones(3))},
        "GaussianRows": {"dim": 2, "mean": rng.normal(size=2), "cov": np.diag(rng.gamma(1, 1, 2))},
        "SparseRows": {"dim": 2, "rho": third, "mean": rng.normal(size=2)},
        "NonNegativeRows": {"dim": 2, "var": third},
        "MeanFieldRows": {"prior": priors.GaussBernoulli(third), "dim": 2},
        "WithIntercept": {"inner": priors.Laplace(third), "intercept_var": 7.0 * third},
        "Mislabelled": {"plain": channels.Probit(third), "told": rng.normal(size=7)},
        "Poisson": {"link": "softplus", "exposure": third},
        "Interval": {"thresholds": np.sort(rng.normal(size=3)), "var": third},
        "GaussBernoulli": {"rho": third, "mean": rng.normal(), "var": rng.gamma(1.0)},
    }
    return known.get(cls.__name__, {})


def exported(package):
    classes = (getattr(package, name) for name in package.__all__)
    return [
        cls
        for cls in classes
        if isinstance(cls, type)
        and issubclass(cls, Parametric)
        and not getattr(cls, "__abstractmethods__", None)
        and cls.__name__ != "Numerical"
    ]


@pytest.mark.parametrize("cls", exported(priors) + exported(channels), ids=lambda c: c.__qualname__)
@pytest.mark.parametrize("seed", range(5))
def test_every_prior_and_channel_comes_back(cls, seed):
    thing = cls(**arguments(cls, np.random.default_rng(seed)))
    copy = back(thing)
    assert type(copy) is type(thing)
    assert copy == thing
    for name, value in thing.parameters().items():
        if isinstance(value, np.ndarray):
            same_bits(getattr(copy, name), value)


@pytest.mark.parametrize("cls", exported(priors), ids=lambda c: c.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_a_posterior_comes_back_with_its_moments(cls, seed):
    rng = np.random.default_rng(seed)
    prior = cls(**arguments(cls, rng))
    start = Posterior(prior, 20)
    shape = start.tilt.B.shape
    A = np.array(2.3) if len(shape) == 1 else np.eye(shape[1]) * 2.3
    belief = start.tilted(Tilt(A, rng.normal(size=shape)))
    copy = back(belief)
    assert copy.prior == prior
    same_bits(copy.tilt.A, belief.tilt.A)
    same_bits(copy.tilt.B, belief.tilt.B)
    same_bits(copy.mean, belief.mean)
    same_bits(copy.var, belief.var)


def test_learned_hyper_parameters_one_a_coefficient(rng):
    prior = priors.GaussBernoulli(rho=rng.random(6), mean=rng.normal(size=6), var=0.3)
    copy = back(Posterior(prior, 6))
    same_bits(copy.prior.rho, prior.rho)


def test_a_belief_that_remembers_rows(rng):
    remembered = Remembered(
        rng.normal(size=(2, 5)), rng.normal(size=2), Tilt(rng.random(5), rng.normal(size=5))
    )
    belief = Posterior(priors.Laplace(0.7), 5, memory=3).remembering(remembered)
    copy = back(belief)
    assert copy.memory == 3
    same_bits(copy.remembered.rows, remembered.rows)
    same_bits(copy.remembered.targets, remembered.targets)
    same_bits(copy.mean, belief.mean)


def test_streaming_goes_on_bit_for_bit_after_a_round_trip(rng):
    """N = 60, batches of 20 rows: the saved belief absorbs the next batch as the original does."""
    x = rng.normal(size=60) * (rng.random(60) < 0.3)

    def batch():
        Phi = rng.normal(size=(20, 60)) / np.sqrt(60)
        return evidence.Batch(Phi, Phi @ x, channels.Gaussian(var=1e-3))

    belief, _ = absorb(Posterior(priors.GaussBernoulli(rho=0.3), 60), batch())
    for _ in range(3):
        rows = batch()
        copy, belief = absorb(back(belief), rows)[0], absorb(belief, rows)[0]
        same_bits(copy.tilt.B, belief.tilt.B)
        same_bits(copy.mean, belief.mean)


def test_low_rank_beliefs_come_back(rng):
    Y = rng.normal(size=(30, 40))
    columns = evidence.FactorBatch(Y, channels.Gaussian(var=1.0), priors.OneHot(2), rng=0)
    belief, _ = absorb(Posterior(priors.GaussianRows(2), 30), columns)
    copy = back(belief)
    assert type(copy) is type(belief)
    same_bits(copy.columns, belief.columns)
    same_bits(copy.mean, belief.mean)
    assert copy.log_evidence == belief.log_evidence


def test_a_prior_with_a_function_cannot_be_saved():
    prior = priors.Numerical(lambda x: -(x**2))
    with pytest.raises(InvalidInputError, match=r"priors\.Numerical\.log_density: got a function"):
        encode_belief(Posterior(prior, 2))


def test_strange_classes_are_refused_by_name():
    class Strange(priors.Laplace):
        pass

    with pytest.raises(InvalidTypeError, match=r"Strange.*register"):
        encode_belief(Strange())
    with pytest.raises(InvalidInputError, match=r"'Nobody'.*known here"):
        decode_belief({"@": "Nobody"})
    with pytest.raises(InvalidInputError, match="a 'Tilt' of the fields C"):
        decode_belief({"@": "Tilt", "C": 1})
    with pytest.raises(InvalidTypeError, match="derived from Parametric"):
        register(dict)


def test_a_name_stands_for_one_class():
    with pytest.raises(InvalidInputError, match="'Posterior', which stands for Posterior"):
        register(priors.Laplace, "Posterior")
