"""A signal at any moment loses no batch, and lets none be learned twice."""

import io
import os
import random
import signal
import sys
import time

import pytest

import miniamp
from miniamp.cli.learn import Interruption
from miniamp.streams import StreamBatch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")

FIT = (
    "fit", "rows.csv", "--target", "y", "--batch-size", "20", "--every", "2",
    "--prior", "gaussian:var=2", "--noise", "0.02",
)  # fmt: skip


def test_two_interrupts_between_estimator_and_position_change_neither(folder, run, monkeypatch):
    """The estimator has absorbed the third batch, its position is asked for: 40 rows are kept."""
    run(*FIT, "--checkpoint", "whole.amp")
    state, calls = StreamBatch.state, []

    def interrupted(self):
        calls.append(self.position)
        if self.position == 60:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return state(self)

    with monkeypatch.context() as patch:
        patch.setattr(StreamBatch, "state", interrupted)
        ran = run(*FIT, "--checkpoint", "m.amp")
    assert (ran.code, calls[-1]) == (130, 60)
    assert "interrupted after 40 rows, saved in m.amp" in ran.err
    assert run(*FIT, "--checkpoint", "m.amp").code == 0
    assert (folder / "m.amp").read_bytes() == (folder / "whole.amp").read_bytes()


def test_termination_saves_like_an_interrupt(folder, run, monkeypatch):
    state = StreamBatch.state

    def terminated(self):
        if self.position == 60:
            os.kill(os.getpid(), signal.SIGTERM)
        return state(self)

    with monkeypatch.context() as patch:
        patch.setattr(StreamBatch, "state", terminated)
        ran = run(*FIT, "--checkpoint", "m.amp")
    assert ran.code == 128 + signal.SIGTERM
    assert "terminated after 60 rows, saved in m.amp" in ran.err
    assert miniamp.load("m.amp").n_samples_seen_ == 60


def test_a_second_signal_does_not_stop_the_last_save(folder, run, monkeypatch):
    """Of 12 pairs of signals 4 ended without a save of what was learned, two with another code."""
    state, save = StreamBatch.state, miniamp.MiniAMPRegressor.save

    def terminated(self):
        if self.position == 60:
            os.kill(os.getpid(), signal.SIGTERM)
        return state(self)

    def terminated_again(self, *arguments):
        if self.n_samples_seen_ == 60:
            os.kill(os.getpid(), signal.SIGTERM)
        return save(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(StreamBatch, "state", terminated)
        patch.setattr(miniamp.MiniAMPRegressor, "save", terminated_again)
        ran = run(*FIT, "--checkpoint", "m.amp")
    assert ran.code == 128 + signal.SIGTERM
    assert "terminated after 60 rows, saved in m.amp" in ran.err
    assert miniamp.load("m.amp").n_samples_seen_ == 60


class Interrupting(io.BytesIO):
    """A file that sends an interrupt to its reader in the middle."""

    def read(self, *size):
        if self.tell() > 0 and not self.sent:
            self.sent = True
            os.kill(os.getpid(), signal.SIGINT)
        return super().read(*size)

    sent = False


def test_an_interrupt_while_arrow_reads_is_not_lost():
    csv = pytest.importorskip("pyarrow.csv")
    file = Interrupting(b"a,b\n" + b"1,2\n" * 500_000)
    with Interruption() as interruption:
        rows = csv.read_csv(file, read_options=csv.ReadOptions(block_size=1 << 16)).num_rows
    assert file.sent
    assert interruption.signal == signal.SIGINT
    assert rows == 500_000


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_interrupts_at_random_moments_change_not_a_bit(folder, run, forked):
    """12 batches; 12 runs get one to three signals each, then the run is finished."""
    assert run(*FIT, "--checkpoint", "whole.amp").code == 0
    began = time.perf_counter()
    assert run(*FIT, "--output", "again.amp").code == 0
    seconds = time.perf_counter() - began
    moments = random.Random(5)
    path = folder / "m.amp"
    for _ in range(12):
        process = forked([*FIT, "--checkpoint", "m.amp"])
        time.sleep(0.05 + moments.uniform(0.0, 0.7 * seconds))
        for _ in range(moments.randint(1, 3)):
            os.kill(process, moments.choice([signal.SIGINT, signal.SIGTERM]))
        os.waitpid(process, 0)
        if path.exists() and miniamp.load(path).n_samples_seen_ == 240:
            assert path.read_bytes() == (folder / "whole.amp").read_bytes()
            path.unlink()
    assert run(*FIT, "--checkpoint", "m.amp").code == 0
    assert path.read_bytes() == (folder / "whole.amp").read_bytes()
