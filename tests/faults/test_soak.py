"""Long streams: time per batch, memory, file handles and the cost of a save stay flat."""

from __future__ import annotations

import gc
import os
import sys
import time

import numpy as np
import pytest

import miniamp
from miniamp.estimators import MiniAMPRegressor
from miniamp.estimators.history import KEPT_BATCHES, History
from miniamp.streams import load, save

BATCHES, ROWS, FEATURES = 100_000, 4, 2
#: A save every so many batches.
EVERY = 5_000
#: What a later part of the stream may take over an earlier one. 20,000 batches that grew as the
#: history did took 2.5 times as long at the end; the load of a shared machine varies by 1.5.
SLACK = 2.0


def resident():
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_a_history_is_thinned_with_age_the_same_however_often_it_is_saved():
    """40,000 entries: bounded, the latest all there, and no difference if loaded in between."""
    whole = resumed = History()
    for k in range(40_000):
        entry = {"batch": k}
        whole = whole.appended(entry)
        resumed = resumed.appended(dict(entry))
        if k % 777 == 0:
            resumed = History([dict(one) for one in resumed.with_theory()])
        assert len(whole) <= KEPT_BATCHES
    kept = [entry["batch"] for entry in whole]
    assert kept == [entry["batch"] for entry in resumed]
    assert kept == sorted(set(kept))
    assert kept[0] == 0
    late = KEPT_BATCHES // 2
    assert kept[-late:] == list(range(40_000 - late, 40_000))


def test_a_history_by_columns_comes_back_with_its_types(tmp_path):
    rows = [
        {"batch": k, "error": k / 3, "found": [f"{k}"], "converged": k % 2 == 0, "coverage": None,
         "mixed": k if k % 2 else 0.5, "large": 2**70, "scalar": np.float32(k)}
        for k in range(40)
    ]  # fmt: skip
    rows[20:25] = [{"other": k} for k in range(5)]
    save(tmp_path / "m.amp", {"history": rows})
    back = load(tmp_path / "m.amp")["history"]
    assert repr(back) == repr(rows)
    assert [list(row) for row in back] == [list(row) for row in rows]


def streamed(batches, path):
    """Seconds per batch, seconds per save, megabytes and handles for each part of EVERY batches."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    y = X @ [1.0, -0.5] + rng.normal(size=ROWS)
    model = MiniAMPRegressor(noise=1.0, fit_intercept=False)
    parts = []
    for k in range(0, batches, EVERY):
        begin = time.process_time()
        for j in range(EVERY):
            model.partial_fit(np.roll(X, j % 3, axis=0), np.roll(y, j % 3))
        middle = time.process_time()
        model.save(path)
        end = time.process_time()
        gc.collect()
        handles = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        parts.append(((middle - begin) / EVERY, end - middle, resident(), handles))
        assert model.n_samples_seen_ == (k + EVERY) * ROWS
    return np.array(parts), model


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.filterwarnings("ignore::miniamp.estimators.HealthWarning")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_small_batches_cost_the_same_to_the_end(tmp_path):
    """MINIAMP_SOAK batches; 20,000 by default, with saves, and the slope of each cost is stated.

    The history is full after KEPT_BATCHES = 2,000 batches, so that anything that grows with it
    would show between the parts of 5,000; all 100,000 are run with MINIAMP_SOAK=100000.
    """
    batches = int(os.environ.get("MINIAMP_SOAK", "20000"))
    parts, model = streamed(batches, tmp_path / "m.amp")
    seconds, saves, memory, handles = parts.T
    assert seconds[-2:].min() < SLACK * seconds[:2].max()
    assert saves[-2:].min() < SLACK * saves[:2].max()
    slope = np.polyfit(np.arange(len(memory)) * EVERY, memory, 1)[0] * BATCHES
    assert slope < 50.0, f"{slope:.0f} MB over {BATCHES} batches"
    assert handles.max() <= handles.min() + 1
    assert len(model.history_) <= KEPT_BATCHES
    again = miniamp.load(tmp_path / "m.amp")
    assert again.coef_.tobytes() == model.coef_.tobytes()
