"""Threads that share the sweeps of a loop give the result of one, whoever does what and when."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from scipy import sparse

from miniamp import Posterior, Stop, absorb, channels, designs, evidence, priors
from miniamp.designs import shared_kernels, swept, threads

M, N = 2100, 200
PRIOR = priors.GaussBernoulli(rho=0.2)
DESIGNS = {
    "vector": designs.Fused,
    "scalar": lambda Phi: designs.Averaged(designs.Fused(Phi)),
    "framed": lambda Phi: designs.Framed(Phi + 1.0, np.ones(N), np.ones(N), intercept=False),
    "sparse": lambda Phi: designs.Sparse(sparse.csr_array(Phi)),
    "float32": lambda Phi: designs.Fused(Phi.astype(np.float32)),
}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    pool = ThreadPoolExecutor(8)  # more than cores: some of them come late
    monkeypatch.setattr(threads, "_pool", lambda: pool)
    yield
    pool.shutdown()


def problem(seed=0):
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(M, N)) / np.sqrt(N)
    return Phi, Phi @ PRIOR.sample(rng, N) + 0.1 * rng.normal(size=M)


def absorbed(design, y, number, channel=None):
    rows = evidence.Batch(design, y, channel or channels.Gaussian(1e-2))
    with threads.limit(number):
        assert rows.design.loop_rows().threads == number
        belief, info = absorb(Posterior(PRIOR, N), rows, Stop(40, 1e-10))
    return belief.mean, belief.var, info.trace


def assert_close(ours, wanted):
    assert len(ours[2]) == len(wanted[2])
    for one, other in zip(ours[:2], wanted[:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_any_number_of_threads_gives_the_same_to_rounding(design):
    Phi, y = problem()
    alone = absorbed(design(Phi), y, 1)
    for number in (2, 3, 7):
        assert_close(absorbed(design(Phi), y, number), alone)


def test_one_noise_per_row():
    Phi, y = problem()
    channel = channels.Gaussian(np.linspace(0.01, 0.1, M))
    alone, shared = (absorbed(designs.Fused(Phi), y, n, channel) for n in (1, 3))
    assert_close(shared, alone)


def test_the_same_bits_in_every_run_and_without_helpers(monkeypatch):
    Phi, y = problem()
    found = [absorbed(designs.Fused(Phi), y, 4) for _ in range(10)]

    @contextmanager
    def nobody(_work, _number):
        yield

    monkeypatch.setattr(threads, "beside", nobody)
    found.append(absorbed(designs.Fused(Phi), y, 4))
    for one in found[1:]:
        for ours, first in zip(one, found[0], strict=True):
            np.testing.assert_array_equal(ours, first)


def test_a_loop_that_gives_its_helpers_up_at_once_gives_the_same_bits(monkeypatch):
    Phi, y = problem()
    wanted, real = absorbed(designs.Fused(Phi), y, 4), shared_kernels.Team
    monkeypatch.setattr(shared_kernels, "Team", lambda *all: real(*all)._replace(patience=0))
    for _ in range(10):
        for ours, first in zip(absorbed(designs.Fused(Phi), y, 4), wanted, strict=True):
            np.testing.assert_array_equal(ours, first)


def test_many_callers_at_once():
    problems = [problem(seed) for seed in range(4)]
    wanted = [absorbed(designs.Fused(Phi), y, 2) for Phi, y in problems]
    with ThreadPoolExecutor(4) as callers:
        works = [callers.submit(absorbed, designs.Fused(Phi), y, 2) for Phi, y in problems * 5]
    for k, work in enumerate(works):
        for ours, first in zip(work.result(), wanted[k % 4], strict=True):
            np.testing.assert_array_equal(ours, first)


def test_a_late_result_is_refused():
    """A helper that took its ticket in the first iteration comes back in the second."""
    Phi, y = problem()
    with threads.limit(2):
        loop = designs.Fused(Phi).loop_rows()
    kernel = channels.Gaussian(1e-2).kernel()
    x, v, g = np.zeros((2, N)), np.ones((2, N)), np.zeros((2, M))
    given = (loop.rows, y, kernel.parameters, kernel.address, True, x, v, g)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "beside", lambda *_: contextmanager(lambda: iter([None]))())
        with shared_kernels.assisted(loop, given) as team:
            states = team.board[16:]
            shared_kernels.take(0, 0, 0, given, team)
            assert states[0] // (1 << 20) == 1
            before = team.board.copy()
            team.pull[1] = np.nan
            shared_kernels.take(0, 0, 1, given, team)
            np.testing.assert_array_equal(team.board, before)
            assert np.isnan(team.pull[1]).all()


def test_threads_are_used_only_for_rows_that_are_worth_one(monkeypatch):
    monkeypatch.undo()
    assert threads.WORTH_A_THREAD * 2 > 8 * 100 * 100
    with threads.limit(2):
        assert designs.Fused(np.ones((100, 100))).loop_rows().threads == 1
        big = designs.Fused(np.ones((1200, 1000))).loop_rows()
    assert (big.threads, big.parts) == (2, min(2 * swept.PARTS, 1200 // swept.PART_BYTES))
