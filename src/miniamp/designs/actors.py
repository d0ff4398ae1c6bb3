"""Calls of actors on the workers of a Dask cluster: straight to the worker, and aware of its death.

Dask's own calls of an actor pass through the scheduler unless the client was told otherwise, which
carries every vector over the network twice (measured: 3.6 ms for a call of two workers that takes
2.4 ms straight), and they may wait half a minute for a worker that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from miniamp import checks
from miniamp.errors import MiniampError, MissingExtraError

#: While an answer is awaited, its worker's life is looked at so often, in seconds.
WATCH = 0.5
#: A cluster without any worker is given so many seconds to bring one back: a nanny needs about one,
#: on a busy machine ten.
REVIVAL = 30.0


class LostWorkers(MiniampError, RuntimeError):
    """No worker is left that could hold a block of rows; the belief is unchanged."""


class WorkerLost(Exception):
    """The worker that held an actor is gone; what it held can be loaded again elsewhere."""


class Remote:
    """An object on a worker, under construction or ready.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    worker : str
        Address of the worker that is to hold it, and no other: Dask would let a task wait for ever
        whose preferred worker died with all others, also when new ones have come.
    cls : type
        Its class, constructed there.
    *arguments
        For its constructor; futures among them arrive as what they stand for.
    """

    def __init__(self, client: Any, worker: str, cls: type, *arguments: Any) -> None:
        self._client = client
        self._future = client.submit(
            cls, *arguments, actor=True, pure=False, workers=[worker], allow_other_workers=False
        )
        self.address = worker

    def ready(self) -> None:
        """Wait until it is constructed; whatever its constructor raised is raised here."""
        from distributed import CancelledError, KilledWorker

        while not self._future.done():
            first_done(self._client, [self._future])
            if not self._future.done() and self.address not in living_workers(self._client):
                raise WorkerLost(f"the worker at {self.address} is gone")
        try:
            with self._client.as_current():  # an actor binds itself to the current client
                self._future.result()
        except (KilledWorker, CancelledError) as error:
            raise WorkerLost(str(error)) from error

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """The pending answer of a method; `WorkerLost` from its result() if the worker dies."""
        answer = self._execute(method, arguments)
        return asyncio.run_coroutine_threadsafe(answer, self._client.loop.asyncio_loop)

    async def _execute(self, method: str, arguments: tuple[Any, ...]) -> Any:
        call = asyncio.ensure_future(self._sent(method, arguments))
        while not call.done():
            if self._future.status != "finished":
                call.cancel()
                raise WorkerLost(f"the worker at {self.address} is gone")
            await asyncio.wait([call], timeout=WATCH)
        try:
            answer = call.result()
        except (OSError, asyncio.CancelledError) as error:
            raise WorkerLost(f"the worker at {self.address} does not answer") from error
        if answer["status"] == "OK":
            return answer["result"]
        raise answer["exception"]

    async def _sent(self, method: str, arguments: tuple[Any, ...]) -> Any:
        from distributed.protocol.serialize import to_serialize

        try:
            return await self._client.rpc(self.address).actor_execute(
                function=method,
                actor=self._future.key,
                args=[to_serialize(one) for one in arguments],  # type: ignore[no-untyped-call]
                kwargs={},
            )
        except KeyError as error:  # a worker that was started anew at the address of the old one
            raise ConnectionError(f"no actor {error}") from error


def current_client(client: Any = None) -> Any:
    """`client`, or the one that is current in this process."""
    try:
        from distributed import get_client
    except ImportError:
        raise MissingExtraError(
            "designs.Distributed needs Dask, which is not installed; "
            "pip install 'miniamp[distributed]'"
        ) from None
    if getattr(client, "asynchronous", False):
        raise checks.refuse(
            "client", "an asynchronous one", "one that waits", "pass distributed.Client(address)"
        )
    if client is not None:
        return client
    try:
        return get_client()
    except ValueError:
        raise checks.refuse(
            "client", "none", "a running Dask cluster", "pass client=distributed.Client()"
        ) from None


def living_workers(client: Any) -> list[str]:
    """Addresses of the workers there are, in a fixed order; waits if there are none just now."""
    end = time.monotonic() + REVIVAL
    while not (workers := sorted(client.nthreads())):
        if time.monotonic() > end:
            raise LostWorkers(
                f"client: got a cluster without workers for {REVIVAL:g} s, expected one that can "
                "hold the rows; start a worker and call again, the belief is unchanged"
            )
        time.sleep(WATCH)
    return workers


def first_done(client: Any, futures: Sequence[Any]) -> list[Any]:
    """Those that are done, as soon as one is; none after a while, if there still are workers."""
    from distributed import wait

    first: Any = wait  # it has no types of its own
    with contextlib.suppress(TimeoutError):
        first(list(futures), timeout=WATCH, return_when="FIRST_COMPLETED")
    done = [future for future in futures if future.done()]
    if not done:
        living_workers(client)
    return done
