"""Every call of a save, and of a whole `miniamp fit`, fails once; the next run is undisturbed.

A wrapper counts the calls that change the disk (open for writing, write, fsync, link, rename,
unlink, change of mode) and lets the n-th fail, for every n there is: with "no space left", with an
I/O error, after half of a write, or by the end of the process (SIGKILL).
"""

from __future__ import annotations

import errno
import os
import signal
import sys

import numpy as np
import pytest

import miniamp
from miniamp import cli
from miniamp.errors import MiniampError
from miniamp.streams import is_sound, load, previous_of, save

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

CALLS = ("open", "write", "fsync", "link", "replace", "rename", "unlink", "fchmod")
FAULTS = ("ENOSPC", "EIO", "half", "kill")


class Disk:
    """The calls of `os` that change files below a folder, of which the n-th fails."""

    def __init__(self, folder, n=0, fault="EIO"):
        self.folder, self.n, self.fault = str(folder), n, fault
        self.calls = []
        self.handles = set()
        self.real = {name: getattr(os, name) for name in CALLS}

    def __enter__(self):
        for name in CALLS:
            setattr(os, name, self._wrapped(name))
        return self

    def __exit__(self, *_):
        for name, real in self.real.items():
            setattr(os, name, real)

    def _concerns(self, name, first, rest):
        if name in ("write", "fsync", "fchmod"):
            return first in self.handles
        inside = os.path.realpath(os.fspath(first)).startswith(self.folder)
        return inside and (name != "open" or rest[0] != os.O_RDONLY)

    def _wrapped(self, name):
        real = self.real[name]

        def call(first, *rest, **more):
            if self._concerns(name, first, rest):
                self.calls.append(name)
                if len(self.calls) == self.n:
                    self._fail(name, real, first, rest)
            result = real(first, *rest, **more)
            if name == "open" and os.path.realpath(os.fspath(first)).startswith(self.folder):
                self.handles.add(result)
            return result

        return call

    def _fail(self, name, real, first, rest):
        if self.fault == "half" and name == "write":
            real(first, bytes(rest[0])[: len(rest[0]) // 2])
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        number = errno.ENOSPC if self.fault in ("ENOSPC", "half") else errno.EIO
        raise OSError(number, os.strerror(number))


def in_child(action):
    """Run in a forked process; gives its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            code = action()
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def state(step):
    return {"step": step, "A": np.full(300, step / 3)}


def saved(path):
    step = load(path)["step"]
    np.testing.assert_array_equal(load(path)["A"], np.full(300, step / 3))
    return step


def count_of_a_save(folder):
    save(folder / "m.amp", state(1))
    save(folder / "m.amp", state(2))
    with Disk(folder) as disk:
        save(folder / "m.amp", state(3))
    assert {"open", "write", "fsync", "link", "replace"} <= set(disk.calls)
    return len(disk.calls)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_call_of_a_save_fails_once(fault, tmp_path):
    """The old state or the new one is there, whole; a previous one too; the next save works."""
    (tmp_path / "count").mkdir()
    total = count_of_a_save(tmp_path / "count")
    refused = 0
    for n in range(1, total + 1):
        folder = tmp_path / f"{n}"
        folder.mkdir()
        path = folder / "m.amp"
        save(path, state(1))
        save(path, state(2))

        def failing(folder=folder, n=n, path=path):
            with Disk(folder, n, fault):
                try:
                    save(path, state(3))
                except MiniampError:
                    return 7
            return 0

        code = in_child(failing)
        assert code in ((-signal.SIGKILL,) if fault == "kill" else (0, 7)), (n, code)
        refused += code == 7
        assert is_sound(path), n
        assert saved(path) in ((2, 3) if code else (3,)), n
        assert saved(previous_of(path)) in (1, 2), n
        save(path, state(4))
        assert saved(path) == 4
        assert sorted(p.name for p in folder.iterdir()) == ["m.amp", "m.amp.previous"], n
    assert fault == "kill" or refused > total // 3


def write_rows(folder):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(120, 3))
    lines = [f"{a!r},{b!r},{c!r},{a - b!r}" for a, b, c in X.tolist()]
    (folder / "t.csv").write_text("\n".join(["a,b,c,y", *lines]) + "\n")


def fit():
    options = ["--target", "y", "--batch-size", "40", "--every", "1", "--checkpoint", "m.amp"]
    return cli.main(["fit", "t.csv", *options, "--output", "o.amp"])


def whole_fit(folder, n=0, fault="EIO", report=None):
    """A run of the command in a process of its own, with the n-th call failing."""

    def action():
        os.chdir(folder)
        with Disk(folder, n, fault) as disk:
            code = fit()
        if report is not None:
            report.write_text("\n".join(disk.calls))
        return code

    return in_child(action)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The folder after a run without faults, and the number of its calls."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_rows(folder)
    here = os.getcwd()  # noqa: PTH109
    os.chdir(folder)
    try:  # compiled once, in this process, for all children
        assert fit() == 0
    finally:
        os.chdir(here)
    for name in ("m.amp", "m.amp.previous", "o.amp"):
        (folder / name).unlink()
    report = folder.parent / "calls.txt"
    assert whole_fit(folder, report=report) == 0
    return folder, len(report.read_text().split())


def run_again_is_the_same(tmp_path, undisturbed, fault, every):
    folder, total = undisturbed
    assert total > 30
    for n in range(1, total + 1, every):
        place = tmp_path / f"{n}"
        place.mkdir()
        write_rows(place)
        code = whole_fit(place, n, fault)
        assert code in ((-signal.SIGKILL,) if fault == "kill" else (0, 1)), (n, code)
        assert not (place / "m.amp").exists() or is_sound(place / "m.amp"), n
        assert whole_fit(place) == 0, n
        for name in ("m.amp", "o.amp"):
            assert (place / name).read_bytes() == (folder / name).read_bytes(), (n, name)
        names = {p.name for p in place.iterdir()}
        assert names <= {"t.csv", "m.amp", "m.amp.previous", "o.amp", "o.amp.previous"}, n


@pytest.mark.parametrize("fault", ["EIO", "kill"])
def test_calls_of_a_whole_fit_fail_once_and_the_next_run_is_undisturbed(
    fault, tmp_path, undisturbed
):
    """Every seventh call here; each of them in the slow test."""
    run_again_is_the_same(tmp_path, undisturbed, fault, 7)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_call_of_a_whole_fit_fails_once_and_the_next_run_is_undisturbed(
    fault, tmp_path, undisturbed
):
    run_again_is_the_same(tmp_path, undisturbed, fault, 1)


def test_the_models_of_disturbed_runs_predict(undisturbed):
    folder, _ = undisturbed
    assert miniamp.load(folder / "m.amp").n_samples_seen_ == 120
