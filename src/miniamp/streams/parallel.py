"""Posteriors of several streams: merged, or of batches that workers absorb at the same time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from miniamp import channels, checks
from miniamp.absorb import Info, Stop, absorb
from miniamp.channels.base import Channel
from miniamp.designs.worker_pool import (
    LostWorkersError,
    current_client,
    first_done,
    living_workers,
    loading,
)
from miniamp.errors import ConflictError, InvalidTypeError, MiniampError
from miniamp.evidence import Batch, RobustBatch
from miniamp.learning import Solver
from miniamp.posterior import Posterior, Prior
from miniamp.tilt import Tilt

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

#: Gives the rows and observations (Phi, y) of a batch.
Source: TypeAlias = "Callable[[], tuple[object, object]] | Delayed"


class MergeWarning(UserWarning):
    """A merged posterior has a larger error than one that absorbed both streams in turn."""


def merge(a: Posterior, b: Posterior) -> Posterior:
    """Merge two posteriors of disjoint streams under the same prior: the sum of their tilts.

    The prior is counted once, and pseudo-observations that they remember are absorbed by the sum.
    Neither input changes.

    Parameters
    ----------
    a, b : Posterior
        Of the same size, with equal priors, each started from the prior. Rows that both have
        absorbed are counted twice, which cannot be detected.

    Warns
    -----
    MergeWarning
        Always, because the error is larger. One posterior absorbs a second stream under the belief
        that the first one gave; here each stream was absorbed under the prior alone, and their
        joint information on several coefficients is lost, except in remembered rows. For sums of
        mean-field posteriors errors 28 to 39 % above those of one pass were measured. For sums of
        these posteriors (N = 1000, two halves of eight batches of 150 or 300 rows) they were 18 to
        41 % above for Gaussian coefficients, and 1.7 to 2.1 times as large for sparse ones, where
        each half alone finds fewer of the zeros. Where the rows are at hand, stream them one after
        the other instead.

    Examples
    --------
    >>> import numpy as np, warnings
    >>> from miniamp import Posterior, Tilt, priors
    >>> start = Posterior(priors.Gaussian(), size=1)
    >>> a, b = (start.tilted(Tilt(np.array(1.0), np.array([s]))) for s in (2.0, 4.0))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", MergeWarning)
    ...     merge(a, b).mean
    array([2.])
    """
    for name, belief in (("a", a), ("b", b)):
        if not isinstance(belief, Posterior):
            raise InvalidTypeError(
                name, type(belief).__name__, "a Posterior", "pass the posterior_ of an estimator"
            )
    if a.size != b.size:
        raise checks.refuse(
            "b", f"{b.size} coefficients", f"{a.size} as in a", "merge posteriors of one model"
        )
    if type(a.prior) is not type(b.prior) or a.prior != b.prior:
        raise checks.refuse(
            "b",
            f"the prior {b.prior!r}",
            f"the same as in a, {a.prior!r}",
            "give both the same one by with_prior(...), or do not learn it in each stream",
        )
    warnings.warn(
        "merging loses the joint information of the two streams: expect a larger error (by a "
        "third, or twice as large with sparse coefficients) than from one posterior that absorbs "
        "both in turn",
        MergeWarning,
        stacklevel=2,
    )
    return together(a, b)


def together(a: Posterior, b: Posterior) -> Posterior:
    """The sum of both tilts, which then absorbs the remembered rows of both.

    The fields of remembered rows are not used: the rows are solved again.
    """
    tilt = a.tilt + b.tilt
    belief = Posterior(a.prior, a.size, tilt, memory=max(a.memory, b.memory))
    seen = [belief.remembered for belief in (a, b) if belief.remembered is not None]
    if not seen:
        return belief
    rows = RobustBatch(
        np.concatenate([one.rows for one in seen]),
        np.concatenate([one.targets for one in seen]),
        channels.Gaussian(var=1.0),
    )
    return absorb(belief, rows)[0]


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
    """Absorb batches on several workers at the same time, and add up their tilts.

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
        known = belief.prior, belief.size, total if latest else own[k % width]
        graph = hasattr(sources[k], "__dask_graph__")
        source = client.compute(sources[k]) if graph else sources[k]
        task = client.submit(_gained, k, source, known, channel, solver, stop, pure=False)
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
    if channel.shape:
        raise checks.refuse(
            "channel", f"one noise per row, {channel.shape}", "one for all rows", "share it"
        )


def _gained(
    k: int,
    source: Source,
    start: tuple[Prior, int, Tilt],
    channel: Channel,
    solver: Solver,
    stop: Stop | None,
) -> tuple[Tilt, Info]:
    """On the worker: the tilt of one batch."""
    with loading(k):
        Phi, y = source() if callable(source) else source
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
        received = f"workers that died one after the other while absorbing batch {k}"
        raise LostWorkersError.of(received, "give them more memory") from error
    return gained
