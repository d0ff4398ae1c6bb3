"""A fit that is killed or interrupted, and started again, ends as the one that never was."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import miniamp
from miniamp.cli.learn import Interruption, Run

READING = ("--target", "y", "--batch-size", "20", "--missing", "mean", "--every", "2")
LEARNING = ("fit", "rows.csv", *READING)
# The same without hyper-parameters to learn, which is quicker.
FIT = ("fit", "rows.csv", "--prior", "gaussian:var=2", "--noise", "0.02", *READING)
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")


@posix
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_twenty_kills_change_not_a_bit(folder, run, forked):
    """240 rows in 12 batches, a checkpoint every 2; killed 20 times, at random moments."""
    assert run(*LEARNING, "--checkpoint", "whole.amp").code == 0
    began = time.perf_counter()  # as it will be killed: with all modules loaded, and checkpoints
    os.waitpid(forked([*LEARNING, "--checkpoint", "again.amp"]), 0)
    seconds = time.perf_counter() - began
    path = folder / "killed.amp"
    moments = random.Random(3)
    kills = resumed = 0
    for _ in range(200):
        resumed += path.exists()
        process = forked([*LEARNING, "--checkpoint", "killed.amp"])
        if kills < 20:
            time.sleep(moments.uniform(0.0, 1.2 * seconds))
            os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        if os.WIFSIGNALED(status):
            kills += 1
            continue
        assert os.WEXITSTATUS(status) == 0
        if kills >= 20:
            break
        assert path.read_bytes() == (folder / "whole.amp").read_bytes()
        path.unlink()  # it ended before the kill: begin a new run
    assert kills == 20
    assert resumed >= 5
    assert path.read_bytes() == (folder / "whole.amp").read_bytes()


@posix
@pytest.mark.slow
def test_processes_started_from_the_shell_are_no_different(folder, run):
    """Two kills soon after the first checkpoints, then to the end; each a new interpreter."""
    assert run(*LEARNING, "--checkpoint", "whole.amp").code == 0
    path = folder / "killed.amp"
    command = [sys.executable, "-m", "miniamp", *LEARNING, "--checkpoint", "killed.amp"]
    for _ in range(2):
        before = path.stat().st_mtime_ns if path.exists() else 0
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            while process.poll() is None:
                if path.exists() and path.stat().st_mtime_ns != before:
                    process.kill()
                    break
                time.sleep(0.001)
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert path.read_bytes() == (folder / "whole.amp").read_bytes()


def cut_short(monkeypatch, after):
    """Press Ctrl-C after so many batches."""
    learn = Run.learn

    def learned(self, batch):
        learn(self, batch)
        if self.rows == 20 * after:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Run, "learn", learned)


@posix
def test_control_c_saves_and_says_how_to_go_on(folder, run, monkeypatch):
    assert run(*FIT, "--checkpoint", "whole.amp").code == 0
    with monkeypatch.context() as patch:
        cut_short(patch, after=3)
        ran = run(*FIT, "--checkpoint", "m.amp")
    assert (ran.code, ran.out) == (130, "")
    assert ran.err == (
        "miniamp: interrupted after 60 rows, saved in m.amp; run the same command again to resume\n"
    )
    assert miniamp.load("m.amp").n_samples_seen_ == 60
    ran = run(*FIT, "--checkpoint", "m.amp")
    assert ran.code == 0
    assert ran.err.startswith("miniamp: resumes from m.amp, 60 rows learned\n")
    assert (folder / "m.amp").read_bytes() == (folder / "whole.amp").read_bytes()


@posix
def test_control_c_without_a_checkpoint_says_what_would_have_helped(folder, run, monkeypatch):
    cut_short(monkeypatch, after=2)
    ran = run(*FIT)
    assert ran.code == 130
    assert "nothing was kept; with --checkpoint m.amp it could resume" in ran.err


@posix
def test_control_c_while_waiting_for_rows_does_not_wait(folder, run):
    def rows():
        yield 1
        os.kill(os.getpid(), signal.SIGINT)
        yield 2
        raise AssertionError

    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interruption:
        assert list(interruption.until(rows())) == [1]
    assert interruption.signal == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is before


@posix
def test_a_second_control_c_does_not_wait_for_the_batch():
    with Interruption():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_finished_run_has_nothing_left_to_do(folder, run):
    run(*FIT, "--checkpoint", "m.amp")
    before = (folder / "m.amp").read_bytes()
    ran = run(*FIT, "--checkpoint", "m.amp")
    assert ran.code == 0
    assert "0 rows in " in ran.out
    assert (folder / "m.amp").read_bytes() == before


def test_a_file_that_has_grown_is_the_same_file(folder, run):
    whole = (folder / "rows.csv").read_text().splitlines(keepends=True)
    run(*FIT, "--checkpoint", "whole.amp")
    (folder / "rows.csv").write_text("".join(whole[:101]))
    run(*FIT, "--checkpoint", "m.amp")
    (folder / "rows.csv").write_text("".join(whole))
    assert run(*FIT, "--checkpoint", "m.amp").code == 0
    assert miniamp.load("m.amp").n_samples_seen_ == 240
    ours, theirs = (miniamp.load(name).coef_ for name in ("m.amp", "whole.amp"))
    assert ours.tolist() == theirs.tolist()


def test_the_same_pipe_goes_on_where_it_was(folder, run):
    text = (folder / "rows.csv").read_bytes()
    piped = ("fit", "-", *FIT[2:], "--checkpoint")
    run(*piped, "whole.amp", stdin=text)
    run(*piped, "m.amp", stdin=b"".join(text.splitlines(keepends=True)[:101]))
    assert run(*piped, "m.amp", stdin=text).code == 0
    assert (folder / "m.amp").read_bytes() == (folder / "whole.amp").read_bytes()


def test_new_rows_from_another_source(folder, run):
    lines = (folder / "rows.csv").read_text().splitlines(keepends=True)
    run(*FIT, "-o", "whole.amp")
    (folder / "monday.csv").write_text("".join(lines[:121]))
    (folder / "tuesday.csv").write_text("".join([lines[0], *lines[121:]]))
    run("fit", "monday.csv", *FIT[2:], "--checkpoint", "m.amp")
    again = ("fit", "tuesday.csv", *FIT[2:], "--checkpoint", "m.amp")
    refused = run(*again)
    assert refused.code == 1
    assert "--new-rows" in refused.err
    for told in (False, True):  # the second time there is nothing left to do
        ran = run(*again, "--new-rows")
        assert ran.code == 0
        assert ("nothing new: all rows of tuesday.csv were learned before" in ran.err) is told
        assert miniamp.load("m.amp").n_samples_seen_ == 240
    ours, theirs = (miniamp.load(name).coef_ for name in ("m.amp", "whole.amp"))
    assert ours.tolist() == theirs.tolist()


def test_new_rows_from_a_pipe_are_not_skipped(folder, run):
    text = (folder / "rows.csv").read_bytes()
    piped = ("fit", "-", *FIT[2:], "--checkpoint", "m.amp", "--new-rows")
    for _ in range(2):
        assert run(*piped, stdin=text).code == 0
    assert miniamp.load("m.amp").n_samples_seen_ == 480


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("--target", "a"), "got --target a, expected --target y as it was begun with"),
        (("--batch-size", "30"), "got --batch-size 30, expected --batch-size 20"),
        (("--prior", "sparse"), "got --prior sparse, expected --prior gaussian:var=2"),
        (("--columns", "a,b"), "got --columns a,b, expected no --columns"),
        (("--missing", "drop"), "got --missing drop, expected --missing mean"),
        (("--no-intercept",), "got no --intercept, expected --intercept"),
    ],
)
def test_other_options_are_refused_in_one_line(folder, run, change, told):
    run(*FIT, "--checkpoint", "m.amp")
    before = (folder / "m.amp").read_bytes()
    ran = run(*FIT, *change, "--checkpoint", "m.amp")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert told in ran.err
    assert (folder / "m.amp").read_bytes() == before


def test_every_and_outputs_may_change(folder, run):
    run(*FIT, "--checkpoint", "m.amp")
    ran = run(*FIT[:-1], "7", "--checkpoint", "m.amp", "--json", "--output", "n.amp")
    assert ran.code == 0
    assert (folder / "n.amp").read_bytes() == (folder / "m.amp").read_bytes()


def test_a_damaged_checkpoint_is_refused_and_the_previous_one_offered(folder, run):
    run(*FIT, "--checkpoint", "m.amp")
    content = (folder / "m.amp").read_bytes()
    (folder / "m.amp").write_bytes(content[:-100])
    ran = run(*FIT, "--checkpoint", "m.amp")
    assert ran.code == 1
    assert "cut short" in ran.err
    assert "m.amp.previous" in ran.err
    assert (folder / "m.amp").read_bytes() == content[:-100]
    (folder / "m.amp.previous").replace(folder / "m.amp")
    assert run(*FIT, "--checkpoint", "m.amp").code == 0
    assert (folder / "m.amp").read_bytes() == content
