"""Batches of exactly k rows out of blocks of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import scipy.sparse as sp

from miniamp.streams.batch import Block
from miniamp.streams.pieces import is_sparse


def rebatch(blocks: Iterable[Block], k: int) -> Iterator[Block]:
    """The same rows, k at a time, the last block shorter; holds one batch and one block at most.

    Examples
    --------
    >>> def block(begin, end):
    ...     return Block(np.arange(begin, end), np.zeros((end - begin, 2)), {}, None)
    >>> [b.rows for b in rebatch([block(0, 3), block(3, 10), block(10, 11)], 4)]
    [4, 4, 3]
    """
    held: list[Block] = []
    rows = 0
    for block in blocks:
        begin = 0
        while rows + block.rows - begin >= k:
            end = begin + k - rows
            yield joined([*held, block.at(slice(begin, end))])
            held, rows, begin = [], 0, end
        if begin < block.rows:
            held.append(block.at(slice(begin, None)) if begin else block)
            rows += block.rows - begin
    if held:
        yield joined(held)


def joined(blocks: list[Block]) -> Block:
    """One block of all their rows, in order."""
    if len(blocks) == 1:
        return blocks[0]
    first = blocks[0]
    parts = [block.X for block in blocks]
    return Block(
        np.concatenate([block.numbers for block in blocks]),
        sp.vstack(parts, format="csr") if is_sparse(first.X) else np.concatenate(parts),
        {name: np.concatenate([block.texts[name] for block in blocks]) for name in first.texts},
        None if first.y is None else np.concatenate([block.y for block in blocks]),
    )
