"""All iterations in one compiled call are those of `refine`, one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from miniamp import Posterior, Stop, absorb, channels, designs, evidence, priors

M, N = 250, 200
STOP = Stop(max_iter=60, tol=1e-10)
DESIGNS = {
    "vector": designs.Fused,
    "scalar": lambda Phi: designs.Averaged(designs.Fused(Phi)),
    "framed": lambda Phi: designs.Framed(Phi + 1.0, np.ones(N), np.ones(N), intercept=False),
    "sparse": lambda Phi: designs.Sparse(sparse.csr_array(Phi)),
    "sparse, scalar": lambda Phi: designs.Averaged(sparse.csr_array(Phi)),
    "float32": lambda Phi: designs.Fused(Phi.astype(np.float32)),
}
MODELS = {
    "spike and slab": (priors.GaussBernoulli(rho=0.2), channels.Gaussian(1e-2)),
    "one noise per row": (priors.Gaussian(), channels.Gaussian(np.linspace(0.01, 0.1, M))),
    "labels": (priors.Gaussian(), channels.Probit(0.1)),
    "one prior per coefficient": (
        priors.Gaussian(var=np.linspace(0.5, 2.0, N)),
        channels.Gaussian(1e-2),
    ),
}


def problem(prior, channel, seed=0):
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(M, N)) / np.sqrt(N)
    return Phi, channel.sample(rng, Phi @ prior.sample(rng, N))


def both(belief, rows, stop, monkeypatch):
    """The batch absorbed in one call and iteration by iteration, and how often each was called."""
    counts = {"iterate": 0, "refine": 0}
    iterate, refine = evidence.Batch.refine_all, evidence.Batch.refine

    def counted_all(self, *arguments):
        trace, step = iterate(self, *arguments)
        counts["iterate"] += len(trace)
        return trace, step

    def counted(self, *arguments):
        counts["refine"] += 1
        return refine(self, *arguments)

    monkeypatch.setattr(evidence.Batch, "refine_all", counted_all)
    monkeypatch.setattr(evidence.Batch, "refine", counted)
    at_once = absorb(belief, rows, stop)
    monkeypatch.setattr(evidence.Batch, "refine", refine)
    monkeypatch.setattr(evidence.Batch, "refine_all", lambda *_: ([], None))
    return at_once, absorb(belief, rows, stop), counts


def assert_same(at_once, one_by_one, tolerance=1e-12):
    (ours, info), (plain, wanted) = at_once, one_by_one
    assert (info.iterations, info.converged) == (wanted.iterations, wanted.converged)
    np.testing.assert_allclose(ours.mean, plain.mean, rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(ours.var, plain.var, rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(info.trace, wanted.trace, rtol=1e-6, atol=1e-14)
    assert info.health == pytest.approx(wanted.health, rel=1e-9)


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
@pytest.mark.parametrize(("prior", "channel"), MODELS.values(), ids=MODELS)
def test_same_iterates(design, prior, channel, monkeypatch):
    """A second batch starts from a belief with a tilt; float32 rounds both ways alike."""
    Phi, y = problem(prior, channel)
    belief = Posterior(prior, N)
    for _ in range(2):
        rows = evidence.Batch(design(Phi), y, channel)
        at_once, one_by_one, counts = both(belief, rows, STOP, monkeypatch)
        assert_same(at_once, one_by_one)
        assert counts == {"iterate": at_once[1].iterations, "refine": 0}
        belief = one_by_one[0]
        monkeypatch.undo()


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize(
    "stop", [Stop(1), Stop(7, 0.0), Stop(200, 1e-9, slack=0.1), Stop(200, 1e-3)], ids=str
)
def test_same_end(damping, stop, monkeypatch):
    prior, channel = MODELS["spike and slab"]
    Phi, y = problem(prior, channel)
    rows = evidence.Batch(designs.Fused(Phi), y, channel, damping=damping)
    at_once, one_by_one, _ = both(Posterior(prior, N), rows, stop, monkeypatch)
    assert_same(at_once, one_by_one)


@pytest.mark.parametrize("channel", [channels.Gaussian(0.0), channels.Probit(0.0)], ids=str)
def test_rows_without_noise_are_left_to_refine_at_the_end(channel, monkeypatch):
    """What may be solved or silent is looked at by `refine`: the last iterations are its own."""
    prior = priors.Rademacher()
    rng = np.random.default_rng(0)
    x = prior.sample(rng, N)
    Phi = rng.normal(size=(3 * N, N)) / np.sqrt(N)
    rows = evidence.Batch(designs.Fused(Phi), channel.sample(rng, Phi @ x), channel)
    at_once, one_by_one, counts = both(Posterior(prior, N), rows, STOP, monkeypatch)
    assert_same(at_once, one_by_one)
    assert counts["iterate"] > 0
    assert counts["refine"] > 0
    np.testing.assert_array_equal(np.sign(at_once[0].mean), x)


def test_a_run_that_diverges_ends_in_the_same_way(monkeypatch):
    """Columns with a common mean, far from what AMP assumes: the same changes up to the end."""
    prior, channel = MODELS["spike and slab"]
    Phi, y = problem(prior, channel)
    rows = evidence.Batch(designs.Fused(Phi + 0.3), y, channel)
    trace, step = rows.refine_all(Posterior(prior, N), *rows.start(Posterior(prior, N)), Stop(30))
    estimate, memory = rows.start(Posterior(prior, N))
    with np.errstate(over="ignore", invalid="ignore"):
        for change in trace:
            plain = rows.refine(Posterior(prior, N), estimate, memory)
            estimate, memory = plain.estimate, plain.memory
            np.testing.assert_allclose(change, plain.change, rtol=1e-6)
    assert step.health == pytest.approx(plain.health, rel=1e-6, nan_ok=True)


def test_a_few_long_rows_are_left_to_threads(monkeypatch):
    from miniamp.designs import threads

    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    for rows, several in ((300, False), (3000, True)):
        design = designs.Fused(np.ones((rows, 200)))
        monkeypatch.setattr(threads, "cores", lambda: 2)
        assert (design.loop_rows() is not None) == several
        assert (design.averaged().loop_rows() is not None) == several
        monkeypatch.setattr(threads, "cores", lambda: 1)
        assert design.loop_rows().threads == 1
