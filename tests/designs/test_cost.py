"""The cost model of the manual is the arithmetic of `designs.cost`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from miniamp.designs.cost import MACHINES, iteration_cost, tree_seconds, worthwhile_rows
from miniamp.errors import InvalidInputError

PAGE = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text(encoding="utf-8")
N = 1e6


def number(text: str) -> float:
    return float(re.sub(r"[^\d.]", "", text))


def rounded(value: float, text: str) -> bool:
    """Whether `value`, written with as many digits as `text` has, is `text`."""
    shown = re.sub(r"[^\d.]", "", text)
    decimals = len(shown.partition(".")[2])
    digits = len(shown.replace(".", "").lstrip("0"))
    return number(shown) in (round(value, decimals), float(f"{value:.{digits}g}"))


@pytest.mark.parametrize("workers", [10, 100, 1000])
def test_table_of_workers(workers) -> None:
    (line,) = re.findall(rf"^\| {workers} \|(.*)\|$", PAGE, flags=re.MULTILINE)
    rows, wire, sending, reading, messages, whole = (cell.strip() for cell in line.split("|"))
    held = workers * MACHINES.memory / (8 * N)
    cost = iteration_cost(held, N, workers)
    assert number(rows) == held
    assert rounded(cost.wire / 1e9, wire)
    assert rounded(cost.sending, sending)
    assert rounded(cost.reading, reading)
    assert rounded(cost.messages, messages)
    total, rules = whole.split(", the ")
    assert rounded(cost.total, total)
    assert rules == ("rows" if cost.reading > cost.sending + cost.messages else "client")


def test_where_workers_pay() -> None:
    factor = number(re.findall(r"M > (\d+)\\, W\^2", PAGE)[0])
    assert worthwhile_rows(1) == factor
    said = re.findall(r"([\d,]+) rows for 10 workers, ([\d,]+) for 100, (\d+) million", PAGE)[0]
    assert number(said[0]) == worthwhile_rows(10)
    assert number(said[1]) == worthwhile_rows(100)
    assert 1e6 * number(said[2]) == worthwhile_rows(1000)
    for workers in (10, 100, 1000):
        cost = iteration_cost(worthwhile_rows(workers), N, workers)
        assert cost.reading == pytest.approx(cost.sending)


def test_a_billion_rows() -> None:
    """The stream and the sparse way of the last section."""
    rows, batch, workers = 1e9, 800_000, 100
    assert 8 * rows * N == 8e15
    batches, sweep = rows / batch, iteration_cost(batch, N, workers).total
    assert batches == number(re.findall(r"There are ([\d,]+) such", PAGE)[0])
    loading, sweeping = re.findall(r"takes (\d+) s, ten sweeps of it (\d+) s", PAGE)[0]
    assert batch * 8 * N / workers / 1e9 == number(loading)
    assert round(10 * sweep) == number(sweeping)
    hours = batches * (number(loading) + 10 * sweep) / 3600
    assert round(hours) == number(re.findall(r"about\s+(\d+) hours", PAGE)[0])
    sparse = iteration_cost(rows, N, 200, row_bytes=12 * 1000)
    assert rows * 12 * 1000 == 12e12
    assert rows * 12 * 1000 / 200 < MACHINES.memory
    assert sparse.reading == 3.0
    assert sparse.wire == 6.4e9
    assert sparse.sending == pytest.approx(3.2)
    assert "6.4 GB through the client, 3.2 s" in re.sub(r"\s+", " ", PAGE)


def test_a_tree_and_scalar_variances() -> None:
    assert round(tree_seconds(N, 32, 2)) == number(
        re.findall(r"two levels, about (\d+) s", PAGE)[0]
    )
    both = [iteration_cost(1e5, N, 10, averaged=averaged).wire for averaged in (False, True)]
    assert both[0] == 2 * both[1]
    with pytest.raises(InvalidInputError, match="workers"):
        iteration_cost(1e5, N, 0)
