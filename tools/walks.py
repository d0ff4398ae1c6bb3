"""Follow one call through the package: which files it passes through, and how often it returns.

Run by tools/house.py as `python tools/walks.py partial_fit` (or `fit`), with the package to follow
on PYTHONPATH. Everything is called once before it is followed, so that imports and compilation are
not part of the walk.

A file is passed through when one of its functions is called; code that runs at import is left out.
Two files go back and forth when functions of each call functions of the other: one call there and
back per iteration of a loop is one direction, and does not count.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import miniamp

SOURCE = str(Path(miniamp.__file__).parent) + os.sep
ROWS, FEATURES = 200, 8


class Walk:
    """The files that a call passes through, and who calls whom."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.calls: set[tuple[str, str]] = set()

    def follow(self, call: Callable[[], object]) -> None:
        """Make the call and record it."""
        sys.setprofile(self._event)
        try:
            call()
        finally:
            sys.setprofile(None)

    def _event(self, frame, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE) or code.co_name == "<module>":
            return
        here = code.co_filename.removeprefix(SOURCE)
        self.files.add(here)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(SOURCE):
            caller = caller.f_back
        if caller is not None:
            there = caller.f_code.co_filename.removeprefix(SOURCE)
            if there != here:
                self.calls.add((there, here))

    @property
    def returns(self) -> list[tuple[str, str]]:
        """Pairs of files that call each other."""
        return sorted((a, b) for a, b in self.calls if a < b and (b, a) in self.calls)


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a regression."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, FEATURES))
    return X, X @ np.arange(FEATURES) + rng.normal(size=ROWS)


def partial_fit() -> dict[str, object]:
    """Follow the third batch of a regression."""
    model = miniamp.MiniAMPRegressor()
    for seed in range(2):
        model.partial_fit(*rows(seed))
    walk = Walk()
    batch = rows(2)
    walk.follow(lambda: model.partial_fit(*batch))
    return {"files": walk.files, "returns": walk.returns}


def fit() -> dict[str, object]:
    """Follow `miniamp fit` on a CSV file, and count how often it opens that file."""
    from miniamp.cli import main  # noqa: PLC0415 (optional: needs typer)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        X, y = rows(0)
        names = ",".join([*(f"x{i}" for i in range(FEATURES)), "y"])
        np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=names, comments="")
        command = ["fit", str(path), "--target", "y"]
        opens = 0
        followed = False

        def audit(event: str, arguments: tuple) -> None:
            nonlocal opens
            if followed and event == "open" and str(arguments[0]) == str(path):
                opens += 1

        sys.addaudithook(audit)
        walk = Walk()
        with contextlib.redirect_stdout(io.StringIO()):
            if main(command) != 0:
                raise SystemExit("miniamp fit failed")
            followed = True
            walk.follow(lambda: main(command))
            followed = False
    return {"files": walk.files, "returns": walk.returns, "opens": opens}


def main_() -> None:
    name = sys.argv[1]
    found = {"partial_fit": partial_fit, "fit": fit}[name]()
    if "--details" in sys.argv:
        for file in sorted(found["files"]):
            print(file)
        for pair in found["returns"]:
            print(*pair)
    numbers = {f"{name}_files": len(found["files"]), f"{name}_returns": len(found["returns"])}
    if "opens" in found:
        numbers[f"{name}_opens"] = found["opens"]
    print(json.dumps(numbers))


if __name__ == "__main__":
    main_()
