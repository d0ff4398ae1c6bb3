"""What the tests of distributed designs share: a problem in three blocks, and a small cluster."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np
import pytest

from miniamp import designs, priors

N, ROWS = 120, (70, 50, 60)


def truth() -> np.ndarray:
    return priors.GaussBernoulli(rho=0.2).sample(np.random.default_rng(7), N)


def block(index: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and observations of one block, made on the worker that is to hold it."""
    rng = np.random.default_rng(index)
    Phi = rng.normal(size=(ROWS[index], N)) / np.sqrt(N)
    return Phi, Phi @ truth() + 1e-2 * rng.normal(size=ROWS[index])


@pytest.fixture(scope="session")
def problem() -> SimpleNamespace:
    """N, the sources of the blocks, and all rows and observations in one piece."""
    parts = [block(k) for k in range(len(ROWS))]
    return SimpleNamespace(
        N=N,
        truth=truth(),
        sources=[functools.partial(block, k) for k in range(len(ROWS))],
        Phi=np.vstack([rows for rows, _ in parts]),
        y=np.concatenate([y for _, y in parts]),
    )


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="needs miniamp[distributed]")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def design(client, problem):
    return designs.Distributed(problem.sources, client)
