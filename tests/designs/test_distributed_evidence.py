"""Every kind of evidence gives the same on a distributed design as on the rows in memory."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import sparse

from miniamp import Posterior, Stop, absorb, channels, designs, evidence, priors
from miniamp.designs.worker_pool import Group
from miniamp.errors import InvalidInputError
from miniamp.learning import Learn, Model

pytest.importorskip("distributed", reason="needs miniamp[distributed]")

pytestmark = [
    # Dask's own threads, sockets and deprecations are not this project's to fix.
    pytest.mark.filterwarnings("ignore"),
    # Workers cost seconds to start: keep them in one process.
    pytest.mark.xdist_group("dask"),
]

STOP = Stop(max_iter=60, tol=1e-12)


def labels(y: np.ndarray) -> np.ndarray:
    return np.where(y > 0.0, 1.0, -1.0)


def assert_same(far: Posterior, near: Posterior, atol: float = 1e-10) -> None:
    np.testing.assert_allclose(far.mean, near.mean, rtol=0.0, atol=atol)
    np.testing.assert_allclose(far.var, near.var, rtol=0.0, atol=atol)


@pytest.mark.parametrize("averaged", [False, True], ids=["vector", "scalar"])
@pytest.mark.parametrize("channel", [channels.Gaussian(1e-4), channels.Logistic()], ids=str)
def test_batches(problem, design, channel, averaged) -> None:
    y = problem.y if isinstance(channel, channels.Gaussian) else labels(problem.y)
    pair = [designs.Dense(problem.Phi), design]
    start = Posterior(priors.GaussBernoulli(rho=0.2), problem.N)
    (near, here), (far, there) = (
        absorb(start, evidence.Batch(d.averaged() if averaged else d, y, channel), STOP)
        for d in pair
    )
    assert there.iterations == here.iterations
    assert_same(far, near)


@pytest.mark.parametrize("channel", [channels.Gaussian(1e-2), channels.Probit(0.1)], ids=str)
def test_rows_one_by_one(problem, design, channel) -> None:
    y = problem.y if isinstance(channel, channels.Gaussian) else labels(problem.y)
    start = Posterior(priors.GaussBernoulli(rho=0.2), problem.N)
    near, here = evidence.adf(start, problem.Phi, y, channel)
    far, there = evidence.adf(start, design, y, channel)
    assert_same(far, near)
    assert there.health == pytest.approx(here.health, rel=1e-10)


@pytest.mark.parametrize("learn_noise", [False, True])
def test_mean_field(problem, design, learn_noise) -> None:
    start = Posterior(priors.GaussBernoulli(rho=0.2), problem.N)
    near, far = (
        absorb(
            start,
            evidence.MeanFieldBatch(
                rows, problem.y, channels.Gaussian(1e-2), learn_noise=learn_noise
            ),
            STOP,
        )[0]
        for rows in (problem.Phi, design)
    )
    assert_same(far, near)


@pytest.mark.parametrize("memory", [0, 40])
@pytest.mark.parametrize("channel", [channels.Gaussian(1e-2), channels.Logistic()], ids=str)
def test_the_robust_solver_on_more_rows_than_columns(
    problem, design, channel, memory, monkeypatch
) -> None:
    y = problem.y if isinstance(channel, channels.Gaussian) else labels(problem.y)
    start = Posterior(priors.GaussBernoulli(rho=0.2), problem.N, memory=memory)
    near, _ = absorb(start, evidence.RobustBatch(problem.Phi, y, channel), STOP)
    monkeypatch.setattr(designs.Distributed, "toarray", None)  # no row comes here
    far, _ = absorb(start, evidence.RobustBatch(design, y, channel), STOP)
    assert_same(far, near, 1e-9)
    # A second batch meets a belief that remembers rows, and so do forecasts.
    again, _ = absorb(near, evidence.RobustBatch(problem.Phi, y, channel), STOP)
    twice, _ = absorb(far, evidence.RobustBatch(design, y, channel), STOP)
    assert_same(twice, again, 1e-8)
    for one, other in zip(
        evidence.forecast(near, design, channel),
        evidence.forecast(near, problem.Phi, channel),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_the_robust_solver_on_fewer_rows_than_columns(client, problem) -> None:
    few = designs.Distributed(problem.sources[:2], client)
    y = problem.y[: few.shape[0]]
    assert few.shape[0] <= few.shape[1]
    start = Posterior(priors.GaussBernoulli(rho=0.2), problem.N)
    rows = evidence.RobustBatch(problem.Phi[: len(y)], y, channels.Gaussian(1e-2))
    near, _ = absorb(start, rows, STOP)
    far, _ = absorb(start, evidence.RobustBatch(few, y, channels.Gaussian(1e-2)), STOP)
    assert_same(far, near)


def correlated(problem, k: int) -> np.ndarray:
    return problem.sources[k]()[0] + 0.3


def test_the_chosen_solver_and_learning(client, problem) -> None:
    """Solver, hyper-parameters and belief, for rows that AMP can take and for rows it cannot."""
    start = Model(Posterior(priors.GaussBernoulli(rho=0.5), problem.N), channels.Gaussian(1.0))
    shifted = [functools.partial(correlated, problem, k) for k in range(3)]
    for sources, solver in ((problem.sources, "amp"), (shifted, "robust")):
        design = designs.Distributed(sources, client)
        near, here = absorb(start, Learn(design.toarray(), problem.y), STOP)
        far, there = absorb(start, Learn(design, problem.y), STOP)
        assert here.solver == there.solver == solver
        assert_same(far.posterior, near.posterior, 1e-8)
        assert far.channel.var == pytest.approx(near.channel.var, rel=1e-8)


def samples(kind: str, k: int):
    """Samples of two clusters, a sample a row; counts where asked."""
    rng = np.random.default_rng(k)
    centres = np.random.default_rng(99).normal(size=(2, 80))
    signs = rng.integers(2, size=(40, 25)[k])
    rows = centres[signs] / np.sqrt(80) + 0.2 * rng.normal(size=(len(signs), 80))
    if kind == "counts":
        return sparse.csr_array(rng.poisson(np.exp(centres[signs] / 3.0 - 1.0)).astype(float))
    return rows


@pytest.mark.parametrize("start", ["noise", "spectral", "kmeans++"])
@pytest.mark.parametrize(
    ("kind", "channel"),
    [
        ("numbers", channels.Gaussian(var=0.04)),
        ("numbers", channels.Gaussian(var=np.linspace(0.03, 0.05, 80))),
        ("counts", channels.Poisson()),
    ],
    ids=["numbers", "one noise a feature", "sparse counts"],
)
def test_clusters(client, kind, channel, start) -> None:
    parts = [samples(kind, k) for k in range(2)]
    stacked = sparse.vstack(parts).T if kind == "counts" else np.vstack(parts).T
    design = designs.Distributed([functools.partial(samples, kind, k) for k in range(2)], client)
    belief = Posterior(priors.GaussianRows(2), 80)
    near, far = (
        evidence.FactorBatch(rows, channel, priors.OneHot(2), start=start, rng=0)
        for rows in (stacked, design)
    )
    assert far.rows == near.rows
    (one, here), (other, there) = (absorb(belief, rows, Stop(max_iter=30)) for rows in (near, far))
    assert there.iterations == here.iterations
    np.testing.assert_allclose(other.mean, one.mean, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(other.columns, one.columns, rtol=0.0, atol=1e-9)
    assert other.log_evidence == pytest.approx(one.log_evidence, rel=1e-9)


def test_rows_are_not_gathered_in_silence(client, problem, design, monkeypatch) -> None:
    few = designs.Distributed(problem.sources[:2], client)
    monkeypatch.setattr("miniamp.checks.FORMED_BYTES", 8 * 120 * 119)
    gaussian = channels.Gaussian(1e-2)
    refused = r"Phi: got a request for .* at the client, .* GB.*Batch"
    with pytest.raises(InvalidInputError, match=refused):
        design.toarray()
    start = Posterior(priors.Gaussian(), problem.N)
    with pytest.raises(InvalidInputError, match=refused):
        absorb(start, evidence.RobustBatch(few, problem.y[:120], gaussian))
    with pytest.raises(InvalidInputError, match=refused):
        absorb(start, evidence.RobustBatch(design, problem.y, gaussian))
    with pytest.raises(InvalidInputError, match=refused):
        absorb(start, evidence.MeanFieldBatch(design, problem.y, gaussian))
    absorb(start, evidence.Batch(design, problem.y, gaussian))  # needs none of it


def test_one_message_a_worker_and_nothing_said_twice(design, problem, monkeypatch) -> None:
    sent = []
    send = Group.send

    def counted(self, calls, only):
        sent.append([call.task.__name__ for call in calls])
        return send(self, calls, only)

    monkeypatch.setattr(Group, "send", counted)
    rows = evidence.Batch(design, problem.y, channels.Gaussian(1e-4))
    start = Posterior(priors.GaussBernoulli(rho=0.2), problem.N)
    step = rows.refine(start, *rows.start(start))
    assert sent == [["observe", "sandwich"]] * 2  # three blocks on two workers
    del sent[:]
    rows.refine(start, step.estimate, step.memory)
    assert sent == [["sandwich"]] * 2
