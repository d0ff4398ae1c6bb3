"""A clustering from the shell is kept, taken up bit for bit, and asked about new rows."""

import os
import random
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest

import miniamp
from miniamp.cli.learn import Run

LEARN = ("cluster", "points.csv", "--clusters", "3", "--batch-size", "20", "--every", "1")
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")


@posix
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_kills_change_not_a_bit(folder, run, forked):
    """240 rows in 12 batches, a checkpoint each; killed 6 times, soon after a checkpoint."""
    assert run(*LEARN, "--checkpoint", "whole.amp").code == 0
    path = folder / "killed.amp"
    moments = random.Random(4)
    kills = 0
    for _ in range(6):
        before = path.stat().st_mtime_ns if path.exists() else 0
        process = forked([*LEARN, "--checkpoint", "killed.amp"])
        while not (path.exists() and path.stat().st_mtime_ns != before):
            if os.waitpid(process, os.WNOHANG)[0]:
                break  # it ended, as all rows had been learned
            time.sleep(0.001)
        else:
            time.sleep(moments.uniform(0.0, 0.02))
            os.kill(process, signal.SIGKILL)
            kills += os.WIFSIGNALED(os.waitpid(process, 0)[1])
    assert kills >= 2
    assert run(*LEARN, "--checkpoint", "killed.amp").code == 0
    assert path.read_bytes() == (folder / "whole.amp").read_bytes()


@posix
@pytest.mark.parametrize("after", [2, 8])
def test_control_c_saves_and_the_same_command_goes_on(folder, run, monkeypatch, after):
    """Stopped among the first batches, whose rows are kept, and later."""
    assert run(*LEARN, "--checkpoint", "whole.amp").code == 0
    learn = Run.learn

    def learned(self, batch):
        learn(self, batch)
        if self.rows == 20 * after:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "learn", learned)
        ran = run(*LEARN, "--checkpoint", "m.amp")
    assert (ran.code, ran.out) == (130, "")
    assert f"interrupted after {20 * after} rows, saved in m.amp; run the same" in ran.err
    ran = run(*LEARN, "--checkpoint", "m.amp", "-o", "l.csv")
    assert ran.code == 0
    assert ran.err == f"miniamp: resumes from m.amp, {20 * after} rows learned\n"
    assert (folder / "m.amp").read_bytes() == (folder / "whole.amp").read_bytes()
    assert len(pd.read_csv("l.csv")) == 240  # all rows, not only those that were left


def test_a_model_predicts_what_the_run_wrote(folder, run):
    run(*LEARN, "--model", "m.amp", "-o", "l.csv")
    assert run("predict", "m.amp", "points.csv", "-o", "p.csv").code == 0
    assert (folder / "p.csv").read_bytes() == (folder / "l.csv").read_bytes()
    model = miniamp.load("m.amp")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    points = pd.read_csv("points.csv")
    assert (model.predict(points) == pd.read_csv("l.csv").cluster).all()


def test_a_model_saved_in_python_is_inspected_and_predicts(folder, run):
    X = pd.read_csv("points.csv")
    miniamp.MiniAMPClusterer(3, random_state=0).fit(X).save("m.amp")
    assert "MiniAMPClusterer: 3 clusters\n" in run("inspect", "m.amp").out
    ran = run("predict", "m.amp", "new-points.csv")  # the same columns in another order
    assert ran.code == 0
    labels = [int(line.split(",")[0]) for line in ran.out.splitlines()[1:]]
    assert (
        labels == miniamp.load("m.amp").predict(pd.read_csv("new-points.csv")[X.columns]).tolist()
    )


def test_new_rows_go_on_and_gaps_are_filled_the_same_way(folder, run):
    text = (folder / "points.csv").read_text().splitlines()
    text[5] = ",".join(["", *text[5].split(",")[1:]])
    (folder / "gaps.csv").write_text("\n".join(text) + "\n")
    learn = ("cluster", "gaps.csv", *LEARN[2:], "--missing", "mean")
    assert run(*learn, "--checkpoint", "m.amp").code == 0
    (folder / "more.csv").write_text("\n".join([text[0], *text[100:140]]) + "\n")
    more = ("cluster", "more.csv", *learn[2:], "--checkpoint", "m.amp")
    refused = run(*more)
    assert refused.code == 1
    assert "--new-rows" in refused.err
    assert run(*more, "--new-rows").code == 0
    assert miniamp.load("m.amp").n_samples_seen_ == 280


def test_a_pipe_is_clustered_and_kept(folder, run):
    ran = run(
        "cluster", "-", *LEARN[2:], "--model", "m.amp", stdin=(folder / "points.csv").read_bytes()
    )
    assert ran.code == 0, ran.err
    run(*LEARN, "--model", "n.amp")
    ours, theirs = (miniamp.load(name).cluster_centers_ for name in ("m.amp", "n.amp"))
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("where", ["--model", "--checkpoint", "--report", "--output"])
@pytest.mark.parametrize("place", ["points.csv", "nowhere/m.csv", "."])
def test_places_that_cannot_be_written_are_refused_before_the_work(folder, run, where, place):
    before = sorted(folder.iterdir())
    ran = run(*LEARN, where, place)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert where in ran.err
    assert sorted(folder.iterdir()) == before
    assert (folder / "points.csv").read_text().startswith("a,b,c\n")


def test_an_identifier_comes_back_with_the_labels(folder, run):
    frame = pd.read_csv("points.csv")
    frame.insert(0, "id", [f"p{i}" for i in range(len(frame))])
    frame.to_csv("named.csv", index=False)
    learn = ("cluster", "named.csv", *LEARN[2:], "--keep", "id", "-o", "l.csv", "--model", "m.amp")
    assert run(*learn).code == 0
    assert miniamp.load("m.amp").feature_names_in_.tolist() == ["a", "b", "c"]
    assert pd.read_csv("l.csv").id.tolist() == frame.id.tolist()
