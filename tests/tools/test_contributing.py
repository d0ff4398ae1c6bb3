"""What CONTRIBUTING says is enough: a new part is its file and its export, and everything finds it.

The parts are added to a copy of the package, as a new contributor would add them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]

PRIOR = '''
"""A prior of three values."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from scipy.special import logsumexp

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.priors.base import ScalarPrior


class Ternary(ScalarPrior):
    """-scale, 0 or scale, each as probable.

    Parameters
    ----------
    scale : float or (N,) array
        scale > 0.

    Examples
    --------
    >>> mean, var = Ternary().moments(A=0.0, B=0.0)
    >>> float(mean), round(float(var), 6)
    (0.0, 0.666667)
    """

    name = "ternary"
    names = ("scale",)

    def __init__(self, scale: Given = 1.0) -> None:
        self.scale = checks.parameter("scale", scale, above=0.0)

    def _logs(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        values = np.multiply.outer(np.array([-1.0, 0.0, 1.0]), self.scale + 0.0 * (A + B))
        return values, -0.5 * A * values**2 + B * values - np.log(3.0)

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        return np.asarray(logsumexp(self._logs(A, B)[1], axis=0))

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        values, logs = self._logs(A, B)
        chances = np.exp(logs - logsumexp(logs, axis=0))
        mean = np.sum(chances * values, axis=0)
        return mean, np.sum(chances * (values - mean) ** 2, axis=0)

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        values, logs = self._logs(A, B)
        logs = np.broadcast_to(logs.reshape(3, *np.shape(logs)[1:]), (3, *shape))
        chosen = np.argmax(logs + rng.gumbel(size=logs.shape), axis=0)
        return np.asarray(self.scale * (chosen - 1.0))
'''

FORMAT = '''
"""Lines of name=value pairs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from miniamp.streams.base import Format, Piece
from miniamp.streams.formats.text import is_text, line_blocks
from miniamp.streams.in_memory import record_pieces


class Pairs(Format):
    """The pairs of every line."""

    format = "pairs"
    endings = (".pairs",)

    @classmethod
    def likeness(cls, head: bytes) -> int:
        return int(is_text(head))

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        return record_pieces(self._records(), self.name, columns)

    def _records(self) -> Iterator[list[dict[str, object]]]:
        with self.file.opened() as file:
            for block in line_blocks(file, self.name):
                lines = [line.decode().split() for line in block.split(b"\\n") if line.strip()]
                yield [dict(pair.split("=") for pair in line) for line in lines]
'''

COMMAND = '''
"""`miniamp features`."""

from typing import Any

import typer

from miniamp.cli.app import command, reading_options
from miniamp.cli.options import Reading, Source
from miniamp.streams import open_stream


@command(Reading)
def features(source: Source, **given: Any) -> None:
    """List the features that the columns of a source become."""
    typer.echo(" ".join(open_stream(source, **reading_options(given)).feature_names))
'''

USE = """
import numpy as np
import miniamp
from miniamp.report import write_report

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 5))
y = X @ [1.0, 0.0, -1.0, 0.0, 1.0] + 0.1 * rng.normal(size=200)
model = miniamp.MiniAMPRegressor("ternary", batch_size=50).fit(X, y)
model.save("m.amp")
again = miniamp.load("m.amp")
assert (again.coef_ == model.coef_).all()
assert "ternary" in write_report(again, "r.html").read_text(encoding="utf-8").lower()
curve = miniamp.theory.learning_curve(
    miniamp.priors.Ternary(), miniamp.channels.Gaussian(var=0.1), 0.5, batches=2
)
assert curve.mse[1] < curve.mse[0]
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The package with three new parts: a file and, for two of them, an export."""
    root = tmp_path_factory.mktemp("contributor")
    package = root / "miniamp"
    shutil.copytree(ROOT / "src" / "miniamp", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "priors" / "ternary.py").write_text(PRIOR)
    (package / "streams" / "formats" / "pairs.py").write_text(FORMAT)
    (package / "cli" / "features.py").write_text(COMMAND)
    for init, line, name in (
        ("priors", "from miniamp.priors.ternary import Ternary", "Ternary"),
        ("streams/formats", "from miniamp.streams.formats.pairs import Pairs", "Pairs"),
    ):
        path = package / init / "__init__.py"
        text = path.read_text().replace("__all__ = [", f'{line}\n\n__all__ = [\n    "{name}",', 1)
        path.write_text(text)
    return root


def python(root, *words):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_prior_is_usable_by_name(copy):
    """In estimators, files, reports and the theory, and on the command line."""
    python(copy, "-c", USE)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 3))
    np.savetxt(copy / "rows.csv", rows, delimiter=",", header="a,b,y", comments="")
    words = ["-m", "miniamp", "fit", "rows.csv", "--target", "y", "--prior", "ternary"]
    assert "100 rows" in python(copy, *words)


@pytest.mark.slow
def test_a_file_format_is_read(copy):
    rng = np.random.default_rng(0)
    lines = [f"a={a:.3f} b={b:.3f} y={a - b:.3f}" for a, b in rng.normal(size=(100, 2))]
    (copy / "rows.pairs").write_text("\n".join(lines))
    (copy / "rows.txt").write_text("\n".join(lines))
    words = ["-m", "miniamp", "fit", "--target", "y"]
    assert "100 rows" in python(copy, *words, "rows.pairs")
    assert "100 rows" in python(copy, *words, "rows.txt", "--format", "pairs")


@pytest.mark.slow
def test_a_command_is_found(copy):
    (copy / "colours.txt").write_text("a;colour\n0,5;red\n1;blue\n")
    words = ["-m", "miniamp", "features", "colours.txt", "--decimal", "comma", "--format", "csv"]
    assert python(copy, *words) == "a colour=blue colour=red\n"
