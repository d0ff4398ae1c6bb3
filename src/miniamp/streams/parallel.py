"""Parallel absorb: batches that workers absorb at the same time, an approximation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from miniamp import checks
from miniamp.absorb import Info, Stop, absorb
from miniamp.channels.base import Channel
from miniamp.designs.worker_pool import (
    LostWorkersError,
    cannot_load,
    current_client,
    first_done,
    living_workers,
)
from miniamp.errors import ConflictError, InvalidTypeError, MiniampError
from miniamp.evidence import Batch
from miniamp.learning import Solver
from miniamp.posterior import Posterior, Prior
from miniamp.streams.merge import MergeWarning
from miniamp.tilt import Tilt

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

#: Gives the rows and observations (Phi, y) of a batch.
Source: TypeAlias = "Callable[[], tuple[object, object]] | Delayed"
#: Makes evidence of (Phi, y, channel).


class Absorbed(NamedTuple):
    """One batch that a worker has absorbed."""

    batch: int  #: index of its source
    info: Info
    behind: int  #: batches of other workers that were added between its start and its end


def parallel_absorb(
    belief: Posterior,
    sources: Sequence[Source],
    channel: Channel,
    client: Client | None = None,
    *,
    at_once: int | None = None,
    latest: bool = True,
    solver: Solver = Batch,
    stop: Stop | None = None,
) -> tuple[Posterior, list[Absorbed]]:
    """The belief after batches that workers absorb at the same time, their tilts added up.

    Natural parameters add (`eq:eff-prior`), so workers that start from one belief may each absorb
    batches of their own and send back their tilt, twice N numbers, which is added as it arrives
    (SDA-Bayes). This is *not* the posterior of one stream: a batch is absorbed under the belief
    that its worker started from, without the batches that others absorb meanwhile, and its tilt is
    less accurate. `designs.Distributed` is exact, at the cost of two vectors per iteration instead
    of two per batch.

    Measured at N = 1000 (16 batches of 300 rows, `benchmarks/cluster.py`), the error over that of
    one stream: 1.00 to 1.03 with two at once and noise as large as the signal, 1.19 (sparse
    coefficients) and 1.37 (Gaussian) at a hundredth of that noise, and 2.8 and 7.5 with eight at
    once there. With latest=False 1.01 to 1.10, 1.37 and 3.3, 5.2 and 15.

    Parameters
    ----------
    belief : Posterior
        The belief so far, without remembered rows; it is not changed.
    sources : sequence of callables or dask.delayed objects
        Each gives the rows and observations (Phi, y) of one batch, on the worker that absorbs it.
    channel : Channel
        How the observations came about, the same for all rows.
    client : distributed.Client, optional
        The cluster; the current client by default.
    at_once : int, optional
        How many batches are absorbed at the same time: the number of workers by default. With 1 the
        stream is sequential, and the result exact.
    latest : bool, optional
        Each batch starts from the latest sum of all (SDA-Bayes's asynchronous form), which depends
        a little on the order in which batches arrive. False: each of the `at_once` streams starts
        from its own batches alone, as if they were merged at the end (`streams.merge`).
    solver : callable, optional
        Makes evidence of (Phi, y, channel): evidence.Batch by default.
    stop : Stop, optional
        When to stop iterating, for each batch.

    Returns
    -------
    belief : Posterior
    absorbed : list of Absorbed
        The batches in the order in which they arrived.

    Warns
    -----
    MergeWarning
        Unless at_once is 1, because the error is larger.

    Raises
    ------
    ConflictError
        A batch was refused; the belief is unchanged, and so for all that follow.
    LostWorkersError
        The cluster has lost all its workers, or its scheduler (`LostSchedulerError`). The batch of
        a worker that dies is absorbed by another one.

    Examples
    --------
    >>> import functools, warnings
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> from miniamp import Posterior, channels, priors
    >>> def batch(seed):
    ...     Phi = np.random.default_rng(seed).normal(size=(50, 20)) / np.sqrt(20)
    ...     return Phi, Phi @ np.linspace(-1, 1, 20)
    >>> with warnings.catch_warnings(), Client(processes=False, dashboard_address=":0") as client:
    ...     warnings.simplefilter("ignore")
    ...     belief, absorbed = parallel_absorb(
    ...         Posterior(priors.Gaussian(), 20),
    ...         [functools.partial(batch, seed) for seed in range(4)],
    ...         channels.Gaussian(var=1e-4), client, at_once=2)
    >>> bool(np.allclose(belief.mean, np.linspace(-1, 1, 20), atol=0.05)), len(absorbed)
    (True, 4)
    """
    client = current_client(client)
    _check(belief, sources, channel)
    width = at_once if at_once is not None else len(living_workers(client))
    width = min(checks.count("at_once", width), len(sources))
    if width > 1:
        warnings.warn(
            f"{width} batches are absorbed at the same time, each without the others: expect a "
            "larger error than from one stream; designs.Distributed is exact",
            MergeWarning,
            stacklevel=2,
        )
    own, total = [belief.tilt] * width, belief.tilt
    absorbed: list[Absorbed] = []
    running: dict[Future, tuple[int, int]] = {}

    def begin(k: int) -> None:
        start = total if latest else own[k % width]
        known = (belief.prior, belief.size, start)
        task = _submitted(client, k, sources[k], known, channel, solver, stop)
        running[task] = (k, len(absorbed))

    try:
        for k in range(width):
            begin(k)
        while running:
            for task in first_done(client, list(running)):
                k, known = running.pop(task)
                gained, info = _result(task, k)
                own[k % width], total = own[k % width] + gained, total + gained
                absorbed.append(Absorbed(k, info, len(absorbed) - known))
                if k + width < len(sources):
                    begin(k + width)
    finally:
        client.cancel(list(running))
    return Posterior(belief.prior, belief.size, total, memory=belief.memory), absorbed


def _check(belief: Posterior, sources: Sequence[Source], channel: Channel) -> None:
    if not isinstance(belief, Posterior):
        raise InvalidTypeError(
            "belief", type(belief).__name__, "a Posterior", "pass miniamp.Posterior(prior, size)"
        )
    if belief.remembered is not None:
        raise checks.refuse(
            "belief",
            "one that remembers rows",
            "one without: rows that several workers remember cannot be added up",
            "start with memory=0, or use streams.merge",
        )
    if not sources:
        raise checks.refuse("sources", "none", "at least one batch", "check the source")
    if channel.shape not in ((), (1,)):
        raise checks.refuse(
            "channel", f"one noise per row, {channel.shape}", "one for all rows", "share it"
        )


def _submitted(client: Client, k: int, source: Source, *arguments: object) -> Future:
    if hasattr(source, "__dask_graph__"):
        source = client.compute(source)
    return client.submit(_gained, k, source, *arguments, pure=False)


def _gained(
    k: int,
    source: Source,
    start: tuple[Prior, int, Tilt],
    channel: Channel,
    solver: Solver,
    stop: Stop | None,
) -> tuple[Tilt, Info]:
    """On the worker: the tilt of one batch."""
    try:
        Phi, y = source() if callable(source) else source
    except MiniampError:
        raise
    except Exception as error:  # whatever a loader may raise, its file being gone among it
        raise cannot_load(k, error) from error
    prior, size, tilt = start
    new, info = absorb(Posterior(prior, size, tilt), solver(Phi, y, channel), stop)
    return Tilt(new.tilt.A - tilt.A, new.tilt.B - tilt.B), info


def _result(task: Future, k: int) -> tuple[Tilt, Info]:
    from distributed import CancelledError, KilledWorker

    try:
        gained: tuple[Tilt, Info] = task.result()
    except MiniampError as error:
        named = error.relabelled(f"batch {k}: {error.argument}")
        if isinstance(named, ConflictError):
            named.batch = k
        raise named from error
    except (KilledWorker, CancelledError) as error:
        raise LostWorkersError(
            "client",
            f"workers that died one after the other while absorbing batch {k}",
            "one that lives",
            "give them more memory; the belief is unchanged",
        ) from error
    return gained
