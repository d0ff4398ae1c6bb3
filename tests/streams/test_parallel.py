"""Parallel absorb: exact one at a time, warned of when not, and safe from dying workers."""

from __future__ import annotations

import functools
import os
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest

from miniamp import Posterior, channels, evidence, priors, stream
from miniamp.errors import ConflictError, InvalidInputError, InvalidTypeError
from miniamp.streams import MergeWarning, merge, parallel_absorb

distributed = pytest.importorskip("distributed", reason="needs miniamp[distributed]")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of a cluster that comes and goes
    pytest.mark.xdist_group("dask"),
]

N, BATCHES = 100, 6
PRIOR, CHANNEL = priors.GaussBernoulli(rho=0.2), channels.Gaussian(var=1e-2)
START = Posterior(PRIOR, N)


def truth() -> np.ndarray:
    return PRIOR.sample(np.random.default_rng(7), N)


def batch(k: int, died: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """One batch; its worker dies on the first attempt where a place to note that is given."""
    if died is not None and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    rng = np.random.default_rng(k)
    Phi = rng.normal(size=(40, N)) / np.sqrt(N)
    return Phi, Phi @ truth() + 0.1 * rng.normal(size=40)


SOURCES = [functools.partial(batch, k) for k in range(BATCHES)]


def one_stream(numbers) -> Posterior:
    pieces = (evidence.Batch(*batch(k), CHANNEL) for k in numbers)
    *_, (belief, _) = stream(START, pieces)
    return belief


@pytest.fixture(scope="module")
def client():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        distributed.LocalCluster(dashboard_address=":0", **settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("latest", [True, False])
def test_one_at_a_time_is_the_stream(client, latest) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", MergeWarning)
        found, absorbed = parallel_absorb(START, SOURCES, CHANNEL, client, at_once=1, latest=latest)
    assert [one.batch for one in absorbed] == list(range(BATCHES))
    assert all(one.behind == 0 for one in absorbed)
    assert not START.tilt.B.any()
    np.testing.assert_allclose(found.mean, one_stream(range(BATCHES)).mean, rtol=0.0, atol=1e-10)


def test_streams_of_their_own_are_merged(client) -> None:
    """Two streams that know only what they saw themselves: the sum of their tilts."""
    with pytest.warns(MergeWarning, match="each without the others"):
        found, _ = parallel_absorb(START, SOURCES, CHANNEL, client, at_once=2, latest=False)
    expected = merge(one_stream(range(0, BATCHES, 2)), one_stream(range(1, BATCHES, 2)))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(found.var, expected.var, rtol=0.0, atol=1e-10)


def gaussian_batch(k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(k)
    Phi = rng.normal(size=(40, N)) / np.sqrt(N)
    return Phi, Phi @ np.random.default_rng(7).normal(size=N) + 0.1 * rng.normal(size=40)


def test_the_latest_sum_is_better_than_streams_of_their_own(client) -> None:
    """And one stream is best; N = 100, 240 rows, one seed: the three differ by factors."""
    start, x = Posterior(priors.Gaussian(), N), np.random.default_rng(7).normal(size=N)
    sources = [functools.partial(gaussian_batch, k) for k in range(BATCHES)]
    errors = []
    for latest in (True, False):
        belief, absorbed = parallel_absorb(
            start, sources, CHANNEL, client, at_once=3, latest=latest
        )
        assert sum(one.behind for one in absorbed) >= 2
        errors.append(np.mean(np.square(belief.mean - x)))
    *_, (alone, _) = stream(start, (evidence.Batch(*load(), CHANNEL) for load in sources))
    assert 1.2 * np.mean(np.square(alone.mean - x)) < errors[0] < errors[1] / 1.2


def test_a_dead_worker_is_survived(client, tmp_path) -> None:
    sources = [functools.partial(batch, k, tmp_path / "died" if k == 3 else None) for k in range(6)]
    found, absorbed = parallel_absorb(START, sources, CHANNEL, client, at_once=1)
    assert (tmp_path / "died").exists()
    assert len(absorbed) == BATCHES
    np.testing.assert_allclose(found.mean, one_stream(range(BATCHES)).mean, rtol=0.0, atol=1e-10)


def gone(path: Path):
    return np.load(path)


def unsound() -> tuple[np.ndarray, np.ndarray]:
    Phi, y = batch(0)
    return Phi, 1e3 * y


def test_failures_are_named(client, tmp_path) -> None:
    import dask

    missing = functools.partial(gone, tmp_path / "rows.npy")
    with pytest.raises(
        InvalidInputError, match=r"batch 1: .*block 1, which cannot be loaded \(FileNotFoundError"
    ):
        parallel_absorb(START, [SOURCES[0], missing], CHANNEL, client, at_once=1)
    with pytest.raises(ConflictError, match="batch 1: evidence") as caught:
        parallel_absorb(START, [dask.delayed(batch)(0), unsound], CHANNEL, client, at_once=1)
    assert caught.value.batch == 1
    with pytest.raises(InvalidInputError, match="sources: got none"):
        parallel_absorb(START, [], CHANNEL, client)
    with pytest.raises(InvalidTypeError, match="belief: got int"):
        parallel_absorb(3, SOURCES, CHANNEL, client)
    with pytest.raises(InvalidInputError, match="channel: got one noise per row"):
        parallel_absorb(START, SOURCES, channels.Gaussian(var=np.ones(40)), client)
    remembering = Posterior(PRIOR, N, memory=5)
    rows = evidence.RobustBatch(*batch(0), CHANNEL)
    *_, (remembering, _) = stream(remembering, [rows])
    with pytest.raises(InvalidInputError, match="belief: got one that remembers rows"):
        parallel_absorb(remembering, SOURCES, CHANNEL, client)
