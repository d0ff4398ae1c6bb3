"""What the tests of the command line share: small files, a model of each kind, and a runner."""

import io
import os
import sys
from typing import NamedTuple

import numpy as np
import pytest

from miniamp import cli

ROWS, FEATURES = 240, 4


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command line; `stdin` is what is piped in."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def ran(*arguments, stdin=None):
        if stdin is not None:
            monkeypatch.setattr(
                sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)))
            )
        capsys.readouterr()
        code = cli.main([str(word) for word in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return ran


@pytest.fixture
def forked():
    """Run the command line in a process of its own, with the modules that are loaded here."""

    def begun(arguments):
        process = os.fork()
        if process:
            return process
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os._exit(cli.main(arguments))
        finally:
            os._exit(99)

    return begun


@pytest.fixture
def folder(tmp_path, monkeypatch, tables):
    """A folder to be in, with the tables."""
    for name, content in tables.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def tables():
    """y = 2 a - b + 5 + 0.1 noise beside a category; the same as classes; and three clusters."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, 3))
    city = rng.choice(["Oslo", "Rome"], ROWS)
    z = 2.0 * X[:, 0] - X[:, 1]
    y = z + 5.0 + 0.1 * rng.normal(size=ROWS)
    label = np.where(z + 0.5 * rng.normal(size=ROWS) > 0.0, "high", "low")
    three = np.digitize(z, [-1.0, 1.0])
    centres = np.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]])
    points = centres[rng.integers(3, size=ROWS)] + 0.3 * rng.normal(size=(ROWS, 3))
    return {
        "rows.csv": _csv("a,b,c,city,y", X, city, [f"{v:.6f}" for v in y]),
        "new.csv": _csv("a,b,c,city", X[:20], city[:20]),
        "labels.csv": _csv("a,b,c,city,y", X, city, label),
        "binary.csv": _csv("a,b,c,y", X, (label == "high").astype(int)),
        "three.csv": _csv("a,b,c,y", X, [f"class {k}" for k in three]),
        "points.csv": _csv("a,b,c", points),
        "new-points.csv": _csv("c,b,a", centres[:, ::-1]),
    }


def _csv(header, X, *columns):
    lines = [header]
    for i, row in enumerate(X):
        cells = [f"{v:.6f}" for v in row] + [str(column[i]) for column in columns]
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def made(tables, tmp_path_factory):
    """The bytes of a model of each kind, learned once, 60 rows a batch."""
    place = tmp_path_factory.mktemp("models")
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name in ("rows", "labels"):
            (place / f"{name}.csv").write_text(tables[f"{name}.csv"])
            fit = ["fit", f"{name}.csv", "--target", "y", "--batch-size", "60", "--json"]
            assert cli.main([*fit, "--output", f"{name}.amp"]) == 0
            found[f"{name}.amp"] = (place / f"{name}.amp").read_bytes()
        (place / "points.csv").write_text(tables["points.csv"])
        learn = ["cluster", "points.csv", "--clusters", "3", "--batch-size", "60", "--json"]
        assert cli.main([*learn, "--model", "points.amp"]) == 0
        found["points.amp"] = (place / "points.amp").read_bytes()
    return found


@pytest.fixture
def models(folder, made):
    """The folder with rows.amp, a regression, labels.amp, classes, and points.amp, clusters."""
    for name, content in made.items():
        (folder / name).write_bytes(content)
    return folder
