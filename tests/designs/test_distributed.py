"""A distributed design is the dense one, survives a lost worker, and holds no rows itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from miniamp import Posterior, absorb, channels, designs, evidence, priors
from miniamp.errors import InvalidInputError

pytest.importorskip("distributed", reason="needs miniamp[distributed]")

pytestmark = [
    # Dask's own threads, sockets and deprecations are not this project's to fix.
    pytest.mark.filterwarnings("ignore"),
    # Workers cost seconds to start: keep them in one process.
    pytest.mark.xdist_group("dask"),
]

N = 120


def bad_block() -> np.ndarray:
    return np.full((3, N), np.nan)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("channel", [channels.Gaussian(var=1e-4), channels.Probit(var=0.1)])
def test_sweeps_equal_dense(problem, design, averaged, channel) -> None:
    Phi, y = problem.Phi, problem.y
    y = np.where(y > 0, 1.0, -1.0) if isinstance(channel, channels.Probit) else y
    rng = np.random.default_rng(0)
    pair = [designs.Dense(Phi), design]
    memories = [None, None]
    for _ in range(4):
        x, v = rng.normal(size=N), rng.random(N)
        sweeps = [
            (d.averaged() if averaged else d).sandwich(x, v, y, channel, m)
            for d, m in zip(pair, memories, strict=True)
        ]
        memories = [s.memory for s in sweeps]
        for name in ("pull", "curvature", "mean_square", "mean_curvature"):
            near, far = getattr(sweeps[0], name), getattr(sweeps[1], name)
            np.testing.assert_allclose(far, near, rtol=1e-10, atol=1e-10)


def test_posterior_equals_dense_and_g_stays_away(problem, design) -> None:
    Phi, y = problem.Phi, problem.y
    channel, belief = channels.Gaussian(var=1e-4), Posterior(priors.GaussBernoulli(rho=0.2), N)
    near, _ = absorb(belief, evidence.Batch(Phi, y, channel))
    far, info = absorb(belief, evidence.Batch(design, design.y, channel))
    assert info.converged
    np.testing.assert_allclose(design.y, y)
    np.testing.assert_allclose(far.mean, near.mean, atol=1e-10)
    sweep = design.sandwich(belief.mean, belief.var, y, channel, None)
    assert sweep.memory.size == 1


def test_a_sweep_can_be_repeated(problem, design) -> None:
    """The g that it starts from is kept, however often it is asked for."""
    channel, belief = channels.Gaussian(var=1e-4), Posterior(priors.GaussBernoulli(rho=0.2), N)
    first = design.sandwich(belief.mean, belief.var, problem.y, channel, None)
    pulls = [
        design.sandwich(belief.mean, belief.var, problem.y, channel, first.memory).pull
        for _ in range(6)
    ]
    np.testing.assert_allclose(pulls[-1], pulls[0], rtol=1e-12)
    assert np.abs(pulls[0] - first.pull).max() > 0.0


def test_per_row_noise_is_split_with_the_rows(problem, design) -> None:
    Phi, y = problem.Phi, problem.y
    noise = channels.Gaussian(var=np.linspace(1e-4, 1e-2, len(y)))
    x, v = np.ones(N), np.ones(N)
    near = designs.Dense(Phi).sandwich(x, v, y, noise, None)
    far = design.sandwich(x, v, y, noise, None)
    np.testing.assert_allclose(far.pull, near.pull, rtol=1e-10, atol=1e-10)


def test_dask_collections_and_files(client, problem, tmp_path) -> None:
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    Phi, y = problem.Phi, problem.y
    names = [f"x{i}" for i in range(N)]
    frame = pd.DataFrame(Phi, columns=names).assign(y=y)
    frame.iloc[:100].to_parquet(tmp_path / "part-0.parquet")
    frame.iloc[100:].to_parquet(tmp_path / "part-1.parquet")
    made = [
        designs.Distributed.from_array(
            da.from_array(Phi, chunks=(64, 50)), da.from_array(y, chunks=90), client
        ),
        designs.Distributed.from_array(da.from_array(Phi, chunks=(64, 50)).persist(), y, client),
        designs.Distributed.from_frame(dd.from_pandas(frame, npartitions=3), "y", client=client),
        designs.Distributed.from_parquet(str(tmp_path / "part-*.parquet"), "y", client=client),
    ]
    x, v = np.linspace(-1, 1, N), np.ones(N)
    expected = designs.Dense(Phi).forecast(x, v)
    for design in made:
        assert design.shape == Phi.shape
        np.testing.assert_allclose(design.y, y)
        for found, wanted in zip(design.forecast(x, v), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_bad_sources_are_refused(client, tmp_path) -> None:
    with pytest.raises(InvalidInputError, match=r"client: got an asynchronous one"):
        designs.Distributed([bad_block], SimpleNamespace(asynchronous=True))
    with pytest.raises(InvalidInputError, match=r"sources: got none"):
        designs.Distributed([], client)
    with pytest.raises(InvalidInputError, match=r"block 0: Phi: got nan"):
        designs.Distributed([bad_block], client)
    with pytest.raises(InvalidInputError, match=r"pattern: got .*one complete Parquet file"):
        designs.Distributed.from_parquet(str(tmp_path / "*.parquet"), "y", client=client)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InvalidInputError, match=r"cannot be read"):
        designs.Distributed.from_parquet(str(tmp_path / "*.parquet"), "y", client=client)
