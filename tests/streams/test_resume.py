"""A run that is killed and started again ends with the same bytes as one that never was."""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest

from miniamp import Posterior, absorb, channels, evidence, priors
from miniamp.errors import MiniampWarning
from miniamp.streams import load, open_stream, save

N, K = 40, 25


def fit(source, path):
    """Stream, absorb, save after every batch; go on from `path` where it is there."""
    state = load(path) if path.exists() else {"belief": None, "stream": None, "history": []}
    channel = channels.Gaussian(var=0.01)
    for batch in open_stream(source, "y", K, missing="mean", resume=state["stream"]):
        belief = state["belief"] or Posterior(priors.GaussBernoulli(rho=0.3), batch.X.shape[1])
        belief, info = absorb(belief, evidence.Batch(batch.X, batch.y, channel))
        row = {"rows": batch.rows, "iterations": info.iterations, "var": float(belief.var.mean())}
        state = {
            "belief": belief,
            "stream": batch.state(),
            "history": [*state["history"], row],
        }
        save(path, state)
    return state


@pytest.fixture
def data(rng, tmp_path):
    """N = 40 numbers, some missing, and a category, as CSV; 12 batches of 25 rows."""
    x = rng.normal(size=N) * (rng.random(N) < 0.3)
    Phi = rng.normal(size=(12 * K, N)) / np.sqrt(N)
    y = Phi @ x + 0.1 * rng.normal(size=len(Phi))
    Phi[rng.random(Phi.shape) < 0.002] = np.nan
    frame = pd.DataFrame(Phi, columns=[f"f{j}" for j in range(N)])
    frame.assign(c=rng.choice(["u", "v"], len(frame)), y=y).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_twenty_kills_change_not_a_bit(data, tmp_path):
    fit(data, tmp_path / "whole.amp")
    path = tmp_path / "killed.amp"
    moments = random.Random(3)
    kills = 0
    for _ in range(200):
        process = os.fork()
        if process == 0:
            try:
                fit(data, path)
                os._exit(0)
            finally:
                os._exit(1)
        if kills < 20:
            time.sleep(moments.uniform(0.0, 0.03))
            os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        if os.WIFSIGNALED(status):
            kills += 1
            continue
        assert os.WEXITSTATUS(status) == 0
        if kills < 20:  # it ended before the kill: begin a new run
            assert path.read_bytes() == (tmp_path / "whole.amp").read_bytes()
            path.unlink()
        else:
            break
    assert kills >= 20
    assert path.read_bytes() == (tmp_path / "whole.amp").read_bytes()


def test_stopping_after_every_batch_changes_not_a_bit(data, tmp_path):
    whole = fit(data, tmp_path / "whole.amp")
    path = tmp_path / "stopped.amp"
    for stop in range(1, 13):
        pd.read_csv(data, nrows=stop * K, dtype=str, keep_default_na=False).to_csv(
            tmp_path / "part.csv", index=False
        )
        fit(tmp_path / "part.csv", path)
    assert path.read_bytes() == (tmp_path / "whole.amp").read_bytes()
    assert len(whole["history"]) == 12


@pytest.mark.parametrize("kind", ["csv", "jsonl", "svm"])
def test_the_unfinished_last_line_of_a_growing_file_waits(kind, tmp_path):
    """It was learned as it stood, and its whole row never. A file that has ended is read whole."""
    line = {"csv": "{0}.{1},{0}", "jsonl": '{{"a": {0}.{1}, "y": {0}}}', "svm": "{0} 1:{0}.{1}"}[
        kind
    ]
    path, zeros, K, n = tmp_path / f"t.{kind}", 25 * "0" + "5", 20_000, 50_000  # several blocks
    values = np.arange(1, n + 4) * 7919 % 100_003
    rows = [line.format(k, zeros) + "\n" for k in values]
    path.write_text(("a,y\n" if kind == "csv" else "") + "".join(rows[:n]))
    target = 0 if kind == "svm" else "y"
    batches = iter(open_stream(str(path), target, K))
    seen = [next(batches)]
    with path.open("a") as file:
        file.write(rows[n] + rows[n + 1][:5])
        file.flush()
        with pytest.warns(MiniampWarning, match="is being written"):
            seen += list(batches)
        assert seen[-1].position == n + 1
        file.write(rows[n + 1][5:] + rows[n + 2].rstrip("\n"))
    rest = list(open_stream(str(path), target, K, resume=seen[-1].state()))
    assert [b.rows for b in rest] == [2]
    whole = np.concatenate([b.y for b in seen + rest])
    assert np.array_equal(whole, values)
