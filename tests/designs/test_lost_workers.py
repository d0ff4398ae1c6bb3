"""Workers die, at any moment, and the posterior is what it would have been."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from miniamp import Posterior, Stop, absorb, channels, designs, evidence, priors
from miniamp.designs.worker_pool import Call, LostSchedulerError, LostWorkersError
from miniamp.errors import InvalidInputError

distributed = pytest.importorskip("distributed", reason="needs miniamp[distributed]")

pytestmark = [
    # Dask's own threads, sockets and deprecations are not this project's to fix.
    pytest.mark.filterwarnings("ignore"),
    # Workers cost seconds to start: keep them in one process.
    pytest.mark.xdist_group("dask"),
]

WORKERS = 3  # two may die before any is back: no test waits for the cluster's own repairs
PRIOR, CHANNEL = priors.GaussBernoulli(rho=0.2), channels.Gaussian(var=1e-4)


@pytest.fixture(scope="module")
def own_client():
    import dask

    with (
        # A local cluster gives up a place whose worker is missing 15 s after any death there, also
        # when it has been filled meanwhile and is empty by a second death: not while we kill.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def client(own_client):
    """A cluster with all its workers; on a busy machine a nanny may fail to bring one back."""
    try:
        own_client.wait_for_workers(WORKERS, timeout=30)
    except TimeoutError:
        own_client.cluster.scale(0)
        own_client.cluster.scale(WORKERS)
        own_client.wait_for_workers(WORKERS, timeout=60)
    return own_client


def die_once(marker: Path) -> None:
    """End this very process as an out-of-memory killer would, but not a second time."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Fatal(designs.Dense):
    """Rows whose worker dies in the midst of their n-th sweep, once for each n."""

    def __init__(self, Phi, moments: tuple[int, ...], where: Path) -> None:
        super().__init__(Phi)
        self.moments, self.where, self.sweeps = moments, where, 0

    def _count(self) -> None:
        self.sweeps += 1
        if self.sweeps in self.moments:
            die_once(self.where / f"died-{len(self.Phi)}-{self.sweeps}")

    def sandwich(self, *arguments):
        self._count()
        return super().sandwich(*arguments)

    def forecast(self, x, v):
        self._count()
        return super().forecast(x, v)

    def online(self, *arguments):
        self._count()
        return super().online(*arguments)


def fatal(source, moments: tuple[int, ...], where: Path):
    Phi, y = source()
    return Fatal(Phi, moments, where), y


def fatal_design(client, problem, moments, where):
    sources = [
        functools.partial(fatal, source, times, where)
        for source, times in zip(problem.sources, moments, strict=True)
    ]
    return designs.Distributed(sources, client)


@pytest.mark.parametrize(
    "moments",
    [((1,), (), ()), ((2, 6), (), ()), ((3,), (), (7,)), ((), (5,), (5,))],
    ids=["at once", "one block twice", "two workers in turn", "two workers together"],
)
def test_kills_during_a_run_change_nothing(client, problem, tmp_path, moments) -> None:
    """Even where the run is cut short of its fixed point: lost sweeps are made up for exactly."""
    design = fatal_design(client, problem, moments, tmp_path)
    start, stop = Posterior(PRIOR, problem.N), Stop(max_iter=9, tol=0.0)
    near, _ = absorb(start, evidence.Batch(problem.Phi, problem.y, CHANNEL), stop)
    far, _ = absorb(start, evidence.Batch(design, problem.y, CHANNEL), stop)
    assert len(list(tmp_path.iterdir())) >= 1
    assert design.recovered >= 1
    np.testing.assert_allclose(far.mean, near.mean, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(far.var, near.var, rtol=0.0, atol=1e-10)


def test_the_fixed_point_does_not_need_the_past(client, problem, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("miniamp.designs.distributed.REMEMBERED_BYTES", 0)
    design = fatal_design(client, problem, ((), (6,), ()), tmp_path)
    start, stop = Posterior(PRIOR, problem.N), Stop(max_iter=400, tol=1e-14)
    near, _ = absorb(start, evidence.Batch(problem.Phi, problem.y, CHANNEL), stop)
    far, _ = absorb(start, evidence.Batch(design, problem.y, CHANNEL), stop)
    assert design.recovered >= 1
    np.testing.assert_allclose(far.mean, near.mean, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("moment", [1, 2])
def test_kills_during_other_evidence(client, problem, tmp_path, moment) -> None:
    """A forecast, rows one by one, and a robust solver whose rows are decomposed elsewhere."""
    start = Posterior(PRIOR, problem.N)
    design = fatal_design(client, problem, ((), (), (moment,)), tmp_path)
    mean, var = design.forecast(problem.truth, np.ones(problem.N))
    np.testing.assert_allclose(mean, problem.Phi @ problem.truth, atol=1e-12)
    np.testing.assert_allclose(var, np.square(problem.Phi).sum(axis=1), atol=1e-12)
    far, _ = evidence.adf(start, design, problem.y, CHANNEL)
    near, _ = evidence.adf(start, problem.Phi, problem.y, CHANNEL)
    np.testing.assert_allclose(far.mean, near.mean, rtol=0.0, atol=1e-10)
    assert design.recovered >= 1


def test_kills_between_sweeps(client, problem) -> None:
    """The next question finds nobody, and is put to another worker at once."""
    design = designs.Distributed(problem.sources, client)
    start = Posterior(PRIOR, problem.N)
    near, far = (evidence.Batch(d, problem.y, CHANNEL) for d in (problem.Phi, design))
    here = there = (start.moments, None)
    for sweep in range(4):
        one, other = near.refine(start, *here), far.refine(start, *there)
        here, there = (one.estimate, one.memory), (other.estimate, other.memory)
        if sweep == 1:
            # Of the workers, one that has rows: the cluster may give another one none of them.
            os.kill(design._pool.run(Call(lambda block: os.getpid()))[0], signal.SIGKILL)
    assert design.recovered >= 1
    np.testing.assert_allclose(other.estimate.mean, one.estimate.mean, rtol=0.0, atol=1e-10)


def dies_while_loading(source, marker: Path):
    die_once(marker)
    return source()


def test_kills_while_loading(client, problem, tmp_path) -> None:
    sources = [
        functools.partial(dies_while_loading, source, tmp_path / f"died-{k}")
        for k, source in enumerate(problem.sources[:2])
    ]
    design = designs.Distributed([*sources, problem.sources[2]], client)
    assert len(list(tmp_path.iterdir())) == 2
    np.testing.assert_allclose(design.y, problem.y)
    np.testing.assert_allclose(design.toarray(), problem.Phi)


def dies_always(source):
    os.kill(os.getpid(), signal.SIGKILL)
    return source()


def test_a_block_that_kills_every_worker_is_named(client, problem) -> None:
    """As one that is larger than the memory of any of them."""
    sources = [functools.partial(dies_always, problem.sources[0]), *problem.sources[1:]]
    with pytest.raises(LostWorkersError, match=r"died one after the other while loading blocks"):
        designs.Distributed(sources, client)


def from_file(path: Path, moments: tuple[int, ...], where: Path):
    with np.load(path) as kept:
        return Fatal(kept["Phi"], moments, where), kept["y"]


def test_a_source_that_is_gone_is_named(client, problem, tmp_path) -> None:
    """The belief is as it was, and once the file is back the same design goes on."""
    path, where = tmp_path / "rows.npz", tmp_path / "deaths"
    where.mkdir()
    with pytest.raises(
        InvalidInputError, match=r"block 0, which cannot be loaded \(FileNotFoundError"
    ):
        designs.Distributed([functools.partial(from_file, path, (3,), where)], client)
    np.savez(path, Phi=problem.Phi, y=problem.y)
    design = designs.Distributed([functools.partial(from_file, path, (3,), where)], client)
    away = path.rename(tmp_path / "away.npz")
    start = Posterior(PRIOR, problem.N)
    with pytest.raises(
        InvalidInputError, match=r"block 0, which cannot be loaded .*the belief is unchanged"
    ):
        absorb(start, evidence.Batch(design, problem.y, CHANNEL))
    assert not start.tilt.B.any()
    away.rename(path)
    far, _ = absorb(start, evidence.Batch(design, problem.y, CHANNEL))
    near, _ = absorb(start, evidence.Batch(problem.Phi, problem.y, CHANNEL))
    np.testing.assert_allclose(far.mean, near.mean, rtol=0.0, atol=1e-10)


def test_a_delayed_source_that_fails_is_named(client, tmp_path) -> None:
    import dask

    gone = dask.delayed(np.load)(tmp_path / "rows.npy")
    with pytest.raises(
        InvalidInputError, match=r"block 0, which cannot be loaded \(FileNotFoundError"
    ):
        designs.Distributed([gone], client)


def test_a_cluster_without_workers_is_named(problem, monkeypatch) -> None:
    monkeypatch.setattr("miniamp.designs.worker_pool.REVIVAL", 1.0)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        design = designs.Distributed(problem.sources, client)
        start, rows = Posterior(PRIOR, problem.N), evidence.Batch(design, problem.y, CHANNEL)
        cluster.scale(0)
        cluster.sync(cluster._correct_state)
        with pytest.raises(LostWorkersError, match=r"without workers .* the belief is unchanged"):
            absorb(start, rows)
        assert not start.tilt.B.any()
        with pytest.raises(LostWorkersError, match="start a worker"):
            designs.Distributed(problem.sources, client)
        cluster.scale(1)
        client.wait_for_workers(1)
        far, _ = absorb(start, rows)
    near, _ = absorb(start, evidence.Batch(problem.Phi, problem.y, CHANNEL))
    np.testing.assert_allclose(far.mean, near.mean, rtol=0.0, atol=1e-10)


def refine_often(rows, start, step) -> None:
    """Workers continue until the client has noticed that the scheduler is gone."""
    for _ in range(50):
        step = rows.refine(start, step.estimate, step.memory)
        time.sleep(0.1)


def test_a_dead_scheduler_is_named(problem, tmp_path, monkeypatch) -> None:
    """Scheduler and worker as processes of their own; the scheduler is killed between sweeps."""
    monkeypatch.setattr("miniamp.designs.worker_pool.REVIVAL", 1.0)
    address = tmp_path / "scheduler.json"
    run = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    ports = ["--port", "0", "--dashboard-address", ":0", "--no-dashboard"]
    processes = [
        subprocess.Popen([*run, "scheduler", *ports, "--scheduler-file", str(address)], **quiet),
        subprocess.Popen(
            [*run, "worker", "--scheduler-file", str(address), "--no-nanny", "--no-dashboard",
             "--nthreads", "1", "--death-timeout", "20"],
            **quiet,
        ),
    ]  # fmt: skip
    try:
        with distributed.Client(scheduler_file=str(address), timeout=30) as client:
            design = designs.Distributed(problem.sources, client)
            start = Posterior(PRIOR, problem.N)
            rows = evidence.Batch(design, problem.y, CHANNEL)
            step = rows.refine(start, *rows.start(start))
            processes[0].kill()
            processes[0].wait()
            with pytest.raises(LostSchedulerError, match="the belief is unchanged"):
                refine_often(rows, start, step)
            assert not start.tilt.B.any()
    finally:
        for process in processes:
            process.kill()
            process.wait()
