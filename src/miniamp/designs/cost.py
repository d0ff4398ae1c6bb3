"""What an iteration on a cluster costs, on paper: the arithmetic of the manual's tables."""

from __future__ import annotations

from typing import NamedTuple

from miniamp import checks


class Machines(NamedTuple):
    """What a cluster is made of.

    `wire` and `message` are what one client was measured to handle (16 MB vectors at 2.1 GB/s, half
    a millisecond of its time a message, on a 2.8 GHz core): a link of 25 Gbit/s is not slower. The
    memory of a worker and its bandwidth are assumed.
    """

    memory: float = 64e9  #: bytes of rows that a worker holds
    reading: float = 20e9  #: bytes a second, a worker from its memory
    wire: float = 2e9  #: bytes a second, in and out of the client
    message: float = 0.5e-3  #: seconds of the client's time, each


class Cost(NamedTuple):
    """One iteration: what goes over the wire, and how long its parts take."""

    wire: float  #: bytes in and out of the client
    sending: float  #: seconds for them
    messages: float  #: seconds for the messages themselves
    reading: float  #: seconds for each worker to read its rows
    total: float  #: seconds: the three follow one another


#: Machines as they are assumed where none are given.
MACHINES = Machines()


def iteration_cost(
    rows: float,
    columns: float,
    workers: int,
    *,
    row_bytes: float | None = None,
    averaged: bool = False,
    machines: Machines = MACHINES,
) -> Cost:
    """The cost of one iteration on a distributed design of rows x columns.

    x and v go out to every worker and two vectors of as many numbers come back; one message each
    way. With scalar variances v and the second vector are single numbers.

    Parameters
    ----------
    rows, columns : float
        M and N.
    workers : int
        How many share the rows.
    row_bytes : float, optional
        Bytes of one row: 8 N by default; 12 for each entry of a sparse one.
    averaged : bool
        Whether variances are scalar.
    machines : Machines
        Speeds and sizes.

    Examples
    --------
    >>> cost = iteration_cost(rows=800_000, columns=1e6, workers=100)
    >>> cost.wire / 1e9, round(cost.total, 1)
    (3.2, 4.9)
    """
    workers = checks.count("workers", workers)
    vectors = 1 if averaged else 2
    wire = 2 * vectors * 8 * columns * workers
    per_row = 8 * columns if row_bytes is None else row_bytes
    sending, messages = wire / machines.wire, 2 * workers * machines.message
    reading = rows * per_row / workers / machines.reading
    return Cost(wire, sending, messages, reading, sending + messages + reading)


def worthwhile_rows(workers: int, machines: Machines = MACHINES) -> float:
    """Dense rows from which reading them takes longer than sending the vectors.

    Examples
    --------
    >>> worthwhile_rows(10)
    4000.0
    """
    return 32 * machines.reading / (8 * machines.wire) * workers**2


def tree_seconds(columns: float, fan: int, levels: int, machines: Machines = MACHINES) -> float:
    """Seconds for the vectors of an iteration over a tree in which each sums those of `fan` others.

    Examples
    --------
    >>> round(tree_seconds(1e6, fan=32, levels=2), 1)
    1.0
    """
    return levels * fan * 32 * columns / machines.wire
