"""A design whose rows live on the workers of a Dask cluster.

x and v go out, two vectors of length N come back; the rows and their g never leave a worker.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.channels.gaussian import Gaussian
from miniamp.designs import row_sources
from miniamp.designs.actors import LostWorkers, current_client
from miniamp.designs.base import Design, Sweep
from miniamp.designs.crew import Crew, Group
from miniamp.designs.row_block import Answer, Asked, Facts, sum_of, triangle
from miniamp.designs.sequential import Columns, Responses, Running
from miniamp.posterior import Prior

__all__ = ["Distributed", "LostWorkers", "current_client"]

#: At most so many bytes of rows, or of what is made of them, are brought to the client.
GATHERED = 1 << 30
#: At most so many bytes of past estimates are kept to catch up with after a loss.
REMEMBERED = 256 << 20


class _Past(NamedTuple):
    """A sweep as it was asked, to be repeated by blocks that were loaded again."""

    x: Array
    v: Array
    memory: int | None
    observed: Any  #: the pair (y, channel) of its time


class Made:
    """Something that was made of every block of rows, where it is: see `Distributed.made`."""

    def __init__(
        self, crew: Crew, rows: list[slice], key: int, make: Callable[[Design], Any]
    ) -> None:
        self._crew, self._rows, self._shared = crew, rows, (key, make)

    def each(self, name: str, *shared: Any) -> list[Any]:
        """The answers of all blocks to one of its methods."""
        return self._crew.each("of_made", *self._shared, name, *shared)

    def one(self, row: int, name: str, *arguments: Any) -> Any:
        """The answer of the block that has a row; `arguments` follow the row's place in it."""
        k = next(k for k, rows in enumerate(self._rows) if row < rows.stop)
        place = row - self._rows[k].start
        return self._crew.one(k, "of_made", *self._shared, name, place, *arguments)

    def sum(self, name: str, split: Array) -> Any:
        """The sum of the answers, each block given its own part of an array (M, ...)."""
        return self._crew.sum("of_made", *self._shared, name, own=lambda k: (split[self._rows[k]],))


class Distributed(Design):
    """Row blocks on Dask workers, swept where they are.

    Any evidence works on it. Batches by message passing and rows one by one never bring a row to
    the client. Mean field and the robust solver need N x N numbers there, and the robust solver on
    fewer rows than columns needs the rows: each up to `GATHERED` bytes, and refused beyond.

    Parameters
    ----------
    sources : sequence of callables or dask.delayed objects
        Each gives the rows of one block: an array, a sparse matrix, or a pair (rows, observations).
        Callables are called on the worker that is to hold the block, delayed objects computed by
        the cluster; both again if that worker dies.
    client : distributed.Client, optional
        The cluster; the current client by default.

    Attributes
    ----------
    y : (M,) array
        The observations that the blocks brought along, fetched once: M numbers, not M x N.
    recovered : int
        How many blocks had to be loaded again because their worker was lost. Such a block first
        makes the sweeps of its batch again, on its own, and then has the g that died with the
        worker: the posterior is the same as without the loss. (Where the estimates of a batch take
        more than `REMEMBERED` bytes, it begins from the latest of them, and the fixed point is the
        same.)

    Examples
    --------
    >>> import functools
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> blocks = [functools.partial(np.full, (2, 3), value) for value in (1.0, 2.0)]
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     Distributed(blocks, client).forecast(np.ones(3), np.ones(3))
    (array([3., 3., 6., 6.]), array([ 3.,  3., 12., 12.]))
    """

    def __init__(self, sources: Sequence[Any], client: Any = None) -> None:
        client = current_client(client)
        if not sources:
            raise checks.refuse("sources", "none", "at least one block of rows", "check the source")
        self._crew = Crew(sources, client)
        facts: list[Facts] = self._crew.each("facts")
        widths = {f.columns for f in facts}
        if len(widths) > 1:
            raise checks.refuse(
                "sources",
                f"blocks of {sorted(widths)} columns",
                "the same number of columns in every block",
                "select the same columns in every file",
            )
        edges = np.cumsum([0, *(f.rows for f in facts)])
        self._rows = [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]
        self.shape = (int(edges[-1]), widths.pop())
        sizes = [f.rows for f in facts]
        self._mean_square = float(np.average([f.mean_square for f in facts], weights=sizes))
        self._tokens = itertools.count(1)
        self._past: dict[int, _Past] = {}
        self._observed: tuple[Array, Channel] | None = None
        self._target: Array | None = None

    @classmethod
    def of(cls, Phi: object) -> Design | None:
        if not hasattr(type(Phi), "__dask_graph__"):  # of the type: a delayed object has any
            return None
        if hasattr(type(Phi), "chunks"):
            return cls.from_array(Phi)
        if hasattr(type(Phi), "npartitions") and hasattr(type(Phi), "columns"):
            return cls.from_frame(Phi)
        raise checks.refuse(
            "Phi",
            f"the Dask collection {type(Phi).__name__}",
            "a dask.array or a dask.dataframe",
            "give its parts to designs.Distributed as delayed objects or functions",
        )

    @property
    def client(self) -> Any:
        """The cluster."""
        return self._crew.client

    @property
    def recovered(self) -> int:
        """How many blocks had to be loaded again because their worker was lost."""
        return self._crew.recovered

    def sandwich(self, x: Array, v: Array, y: Array, channel: Channel, memory: Any) -> Sweep:
        if self._observed is None or self._observed[0] is not y or self._observed[1] is not channel:
            self._observed = (y, channel)
        if memory is None:
            self._past.clear()
        before = None if memory is None else int(memory)
        token, past = next(self._tokens), self._since(before)

        def asked(group: Group) -> tuple[Asked]:
            made_up = past if group.fresh else []
            return (Asked(x, v, token, before, self._news(group), made_up),)

        answers: list[Answer] = []
        for group, answer in self._crew.ask("sandwich", asked):
            group.fresh = False
            answers.append(answer)
        self._past[token] = _Past(x, v, before, self._observed)
        self._forget()
        rows = self.shape[0]
        return Sweep(
            pull=sum_of([a.pull for a in answers]),
            curvature=sum_of([a.curvature for a in answers]),
            memory=np.array(float(token)),  # g stays with its rows; this is the number of the sweep
            mean_square=sum(a.square for a in answers) / rows,
            mean_curvature=sum(a.answer for a in answers) / rows,
        )

    def _news(self, group: Group) -> list[tuple[Array | None, Channel]] | None:
        """Observations and channel of a group's blocks, said once and not at every iteration."""
        if group.told is self._observed:
            return None
        assert self._observed is not None
        y, channel = self._observed
        known = group.told is not None and group.told[0] is y
        group.told = self._observed
        where = [self._rows[k] for k in group.blocks]
        return [(None if known else y[rows], channel.at(rows)) for rows in where]

    def _since(self, memory: Any) -> list[tuple[Array, Array, int]]:
        """The sweeps that led to a memory, the first one first."""
        chain = []
        while memory in self._past and self._past[memory].observed is self._observed:
            x, v, before, _ = self._past[memory]
            chain.append((x, v, memory))
            memory = before
        return chain[::-1]

    def _forget(self) -> None:
        size = 8 * 2 * self.shape[1]
        while len(self._past) > max(2, REMEMBERED // size):
            del self._past[min(self._past)]

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        means, variances = zip(*self._crew.each("forecast", x, v), strict=True)
        return np.concatenate(means), np.concatenate(variances)

    @property
    def mean_square(self) -> float:
        return self._mean_square

    @property
    def y(self) -> Array:
        """The observations that the blocks brought along."""
        if self._target is None:
            parts = self._crew.each("own_target")
            if any(part is None for part in parts):
                raise checks.refuse(
                    "y",
                    "blocks without observations",
                    "sources that give (rows, y)",
                    "name the target column, or pass y yourself",
                )
            self._target = np.concatenate(parts)
        return self._target

    def diagnosis(self) -> str:
        found = [text for text in self._crew.each("diagnosis") if text]
        return found[0] if found else ""

    def online(
        self, running: Running, y: Array, channel: Channel, prior: Prior, answers: Responses
    ) -> None:
        """Rows one after the other: the belief goes from block to block, 4 N numbers at a time."""
        for k, rows in enumerate(self._rows):
            new, said = self._crew.one(k, "online", running, prior, y[rows], channel.at(rows))
            for mine, theirs in zip((*running, *answers), (*new, *said), strict=True):
                mine[rows if len(mine) == len(y) else slice(None)] = theirs

    def toarray(self) -> Array:
        """All entries, brought to the client: refused beyond `GATHERED` bytes."""
        M, N = self.shape
        self._check_room(M * N, f"{M} x {N} rows", "use evidence.Batch, which leaves them there")
        return np.concatenate(self._crew.each("entries"))

    def columns(self) -> Columns:
        """What coordinate updates need of the columns: their products, N x N numbers."""
        N = self.shape[1]
        self._check_room(N * N, f"{N} x {N} products of columns", "use evidence.Batch")
        return GramColumns(self, self._crew.sum("gram"))

    def weighted(self, weights: Array, targets: Array) -> tuple[Array, Array]:
        M, N = self.shape
        if M <= N:
            return super().weighted(weights, targets)
        self._check_room(
            N * N * (1 + len(self._crew.groups)),
            f"triangles of {N} x {N} from {len(self._crew.groups)} workers",
            "use evidence.Batch, which needs vectors only",
        )
        parts = self._crew.ask(
            "triangle", lambda g: ([(weights[r], targets[r]) for r in self._of(g)],)
        )
        rows, values = zip(*(answer for _, answer in parts), strict=True)
        return triangle(np.concatenate(rows), np.concatenate(values))

    def times(self, x: Array) -> Array:
        return self.forecast(x, np.zeros(self.shape[1]))[0]

    def row_variances(self, root: Array | None, D: Array) -> Array:
        return np.concatenate(self._crew.each("row_variances", root, D))

    def held(self) -> Design:
        """This design where it has more rows than columns, which each worker can decompose itself.

        Fewer rows than columns tie workers together in pairs: such a batch comes to the client.
        """
        return self if self.shape[0] > self.shape[1] else super().held()

    def made(self, make: Callable[[Design], Any]) -> Made:
        """What `make` makes of each block, kept beside it on its worker."""
        return Made(self._crew, self._rows, next(self._tokens), make)

    def _of(self, group: Group) -> list[slice]:
        return [self._rows[k] for k in group.blocks]

    def _check_room(self, numbers: int, what: str, remedy: str) -> None:
        """Refuse to bring to the client what it may not have room for."""
        if 8 * numbers > GATHERED:
            raise checks.refuse(
                "Phi",
                f"a distributed design of which {what} would come to the client, "
                f"{8e-9 * numbers:.3g} GB",
                f"at most {1e-9 * GATHERED:.3g} GB",
                f"{remedy}, or raise miniamp.designs.distributed.GATHERED",
            )

    @classmethod
    def from_array(cls, Phi: Any, y: Any = None, client: Any = None) -> Distributed:
        """A dask.array of rows, one block a chunk of rows; y may be a dask.array too."""
        return cls(row_sources.array_blocks(Phi, y), client)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        target: str | None = None,
        features: Sequence[str] | None = None,
        client: Any = None,
    ) -> Distributed:
        """A dask.dataframe, one block a partition; without a target all columns are features."""
        return cls(row_sources.frame_blocks(frame, target, features), client)

    @classmethod
    def from_parquet(
        cls, pattern: str, target: str, features: Sequence[str] | None = None, client: Any = None
    ) -> Distributed:
        """Parquet files that match a glob, one block a file, read by the workers themselves."""
        return cls(row_sources.parquet_blocks(pattern, target, features), client)


class GramColumns(Columns):
    """Columns that are known by their products alone.

    A coordinate update needs Phi_i' (y - Phi x), and all that changes in it when x_j does is
    (Phi' Phi)_ij: with the products in hand a sweep over all coordinates asks the rows only twice,
    for Phi' residual before it and Phi x after it. The updates are those of the columns themselves,
    up to rounding.

    Parameters
    ----------
    design : Design
        Who has the rows.
    gram : (N, N) array
        Phi' Phi.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.designs import Dense
    >>> design = Dense(np.array([[1.0, 2.0], [0.0, 1.0]]))
    >>> GramColumns(design, design.information(np.ones(2))).power
    array([1., 5.])
    """

    def __init__(self, design: Design, gram: Array) -> None:
        self._design, self._gram = design, gram
        self.power = np.array(np.diag(gram))

    def descend(
        self, belief: Running, prior: Prior, noise: float, mean: Array, var: Array, residual: Array
    ) -> tuple[Array, Array]:
        nothing = np.zeros(len(mean))
        # The channel of unit noise gives back what it is shown, so that Phi' g is Phi' residual.
        pull = self._design.sandwich(nothing, np.zeros(()), residual, Gaussian(1.0), None).pull
        correlation, before = np.array(pull), mean.copy()
        A, B = self.power / noise, np.empty(len(mean))
        for i, column in enumerate(self._gram):
            here = slice(i, i + 1)
            B[i] = correlation[i] / noise + A[i] * mean[i]
            own = prior.at(here, len(mean))
            new, var[here] = own.moments(belief.A[here] + A[here], belief.B[here] + B[here])
            correlation -= (new - mean[here]) * column
            mean[here] = new
        residual -= self._design.forecast(mean - before, nothing)[0]
        return A, B
