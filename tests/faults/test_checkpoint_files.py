"""Checkpoints beside links, pipes, other permissions, other processes, and other versions."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import miniamp
from miniamp.errors import CheckpointError, InvalidInputError
from miniamp.estimators import MiniAMPClassifier, MiniAMPClusterer, MiniAMPRegressor
from miniamp.streams import beliefs, container, is_sound, load, lock, previous_of, save
from miniamp.streams.checkpoint import beside

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX files")


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o400])
def test_the_permissions_of_a_checkpoint_stay(mode, tmp_path):
    path = tmp_path / "m.amp"
    save(path, {"step": 0})
    path.chmod(mode)
    for step in (1, 2):
        save(path, {"step": step})
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert stat.S_IMODE(previous_of(path).stat().st_mode) == mode
    assert load(path) == {"step": 2}


@posix
def test_a_new_checkpoint_has_the_permissions_of_the_user(tmp_path):
    before = os.umask(0o027)
    try:
        save(tmp_path / "m.amp", {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m.amp").stat().st_mode) == 0o640


@posix
def test_a_link_stays_a_link_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "m.amp", tmp_path / "latest.amp"
    link.symlink_to(Path("data") / "m.amp")  # to nothing, yet
    for step in (1, 2):
        save(link, {"step": step})
        assert link.is_symlink()
        assert load(target) == load(link) == {"step": step}
    assert previous_of(link).samefile(previous_of(target))
    target.write_bytes(b"")
    with pytest.raises(CheckpointError) as caught:
        load(link)
    assert load(caught.value.previous) == {"step": 1}


@posix
@pytest.mark.timeout(20)
def test_a_pipe_or_folder_is_refused_by_name_and_nobody_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / "m.amp")
    (tmp_path / "folder").mkdir()
    for name, kind in (("m.amp", "pipe"), ("folder", "folder")):
        with pytest.raises(InvalidInputError, match=kind):
            save(tmp_path / name, {})
        with pytest.raises(CheckpointError, match=kind):
            load(tmp_path / name)
        assert not is_sound(tmp_path / name)


@posix
@pytest.mark.timeout(20)
def test_a_pipe_is_no_data_file(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(InvalidInputError, match="a pipe or device"):
        miniamp.streams.open_stream(tmp_path / "t.csv", "y", 1)


def test_temporary_names_cannot_be_predicted_and_are_never_shared(tmp_path, monkeypatch):
    names = {beside(tmp_path / "m.amp", "new") for _ in range(100)}
    assert len(names) == 100
    assert not any(str(os.getpid()) == part for name in names for part in name.name.split("."))
    taken = tmp_path / ".m.amp.0000000000000000.new"
    taken.write_bytes(b"somebody else's")
    monkeypatch.setattr("miniamp.streams.checkpoint.beside", lambda place, ending: taken)
    monkeypatch.setattr("miniamp.streams.checkpoint._sweep", lambda place: None)
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
    with pytest.raises(InvalidInputError, match="exists"):
        save(tmp_path / "m.amp", {})
    assert taken.read_bytes() == b"somebody else's"


HOLDER = """
import sys, time
from miniamp.streams import lock
with lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of m.amp."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "m.amp")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_checkpoint_in_use_is_refused_by_name(holder, tmp_path, monkeypatch):
    with (
        pytest.raises(InvalidInputError, match="another process is using") as caught,
        lock(tmp_path / "m.amp"),
    ):
        pass
    assert caught.value.argument == str(tmp_path / "m.amp")
    monkeypatch.setattr("miniamp.streams.checkpoint.WAIT", 0.05)
    with pytest.raises(InvalidInputError, match="another process is using"):
        save(tmp_path / "m.amp", {})
    save(tmp_path / "other.amp", {})


def test_the_lock_of_a_killed_process_locks_nothing(holder, tmp_path):
    holder.kill()
    holder.wait()
    assert (tmp_path / ".m.amp.lock").exists()  # left behind
    with lock(tmp_path / "m.amp"):
        save(tmp_path / "m.amp", {"step": 1})
    assert [p.name for p in tmp_path.iterdir()] == ["m.amp"]


def test_threads_that_save_to_one_path_take_turns(tmp_path):
    def saves(first):
        for step in range(first, first + 15):
            save(tmp_path / "m.amp", {"step": step, "A": np.full(500, float(step))})

    threads = [threading.Thread(target=saves, args=(100 * k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for path in (tmp_path / "m.amp", previous_of(tmp_path / "m.amp")):
        state = load(path)
        assert (state["A"] == state["step"]).all()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_two_runs_on_one_checkpoint_never_lose_rows(tmp_path):
    """Both learn new rows from one checkpoint: one waits for nobody and is refused, or both count.

    Before, both reported success and a third of the rows was gone.
    """
    rng = np.random.default_rng(0)
    for name in ("start", "a", "b"):
        X = rng.normal(size=(4000, 3))
        rows = [f"{u!r},{v!r},{w!r},{u + v!r}" for u, v, w in X.tolist()]
        (tmp_path / f"{name}.csv").write_text("\n".join(["p,q,r,y", *rows]) + "\n")
    fit = [sys.executable, "-m", "miniamp", "fit"]
    options = ["--target", "y", "--batch-size", "200", "--checkpoint", "m.amp"]
    subprocess.run([*fit, "start.csv", *options], cwd=tmp_path, check=True, capture_output=True)
    runs = [
        subprocess.Popen([*fit, f"{name}.csv", *options, "--new-rows"], cwd=tmp_path,
                         stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in ("a", "b")
    ]  # fmt: skip
    ends = [(run.communicate()[1], run.returncode) for run in runs]
    succeeded = sum(code == 0 for _, code in ends)
    assert succeeded >= 1
    assert all("another process is using" in text for text, code in ends if code)
    assert miniamp.load(tmp_path / "m.amp").n_samples_seen_ == 4000 * (1 + succeeded)


def altered(path, change):
    """Rewrite a checkpoint with its checksum repaired."""
    tree = container.unpacked(path.read_bytes())
    change(tree)
    path.write_bytes(container.packed(tree))


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    path = tmp_path / "m.amp"
    MiniAMPRegressor().fit(X, X.sum(axis=1)).save(path)
    return path


def numbers_of(tree, path=()):
    """Where the floats of a checkpoint are, but for those of the history, which may be nan."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, item in items:
        if isinstance(item, (dict, list, tuple)) and key != "history":
            yield from numbers_of(item, (*path, key))
        elif isinstance(item, float) or (
            isinstance(item, np.ndarray) and item.size and item.dtype.kind == "f"
        ):
            yield (*path, key)


def set_first(tree, path, value):
    for key in path[:-1]:
        tree = tree[key]
    if isinstance(tree[path[-1]], np.ndarray):
        tree[path[-1]].flat[:1] = value
    else:
        tree[path[-1]] = value


STREAMED = {
    "regressor": MiniAMPRegressor(),
    "sparse": MiniAMPRegressor(prior="sparse"),
    "auto": MiniAMPRegressor(prior="auto", forget="auto"),
    "classifier": MiniAMPClassifier(),
    "clusterer": MiniAMPClusterer(n_clusters=2, random_state=0),
}


@pytest.mark.parametrize("name", sorted(STREAMED))
def test_numbers_that_no_model_has_are_refused_when_it_is_loaded(name, tmp_path):
    """Before, nan in a tilt, in a frame or in sums was a bare ValueError at the next batch."""
    rng, path, model = np.random.default_rng(2), tmp_path / "m.amp", clone(STREAMED[name])
    X = rng.normal(size=(90, 3))
    y = X.sum(axis=1) + rng.normal(size=90)
    y = (y > 0).astype(int) if name == "classifier" else y
    for rows in np.split(np.arange(90), 3):
        model.partial_fit(X[rows], y[rows])
    model.save(path)
    content = path.read_bytes()
    # What the belief of a clusterer says of its last batch is nan before the first one.
    fitted = container.unpacked(content)["fitted"]
    places = [p for p in numbers_of(fitted) if p[-1] not in ("log_evidence", "residual")]
    assert len(places) > 8
    for place in places:
        for bad in (np.nan, -np.inf):
            path.write_bytes(content)
            altered(path, lambda tree, place=place, bad=bad: set_first(tree["fitted"], place, bad))
            with pytest.raises(CheckpointError) as caught:
                miniamp.load(path)
            assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("frame", "scale"), -1.0),
        (("models", 0, "posterior", "tilt", "A"), -1e6),
        (("models", 0, "posterior", "remembered", "count"), -1.0),
        (("models", 0, "posterior", "remembered", "precision"), 0.0),
        (("models", 0, "posterior", "remembered", "noise"), 0.0),
        (("tally", "total"), 1e300),
        (("y_scale",), 0.0),
        (("rows",), "forty"),
        (("tally", "rows"), None),
    ],
)
def test_numbers_of_a_wrong_sign_or_size_are_refused_by_their_name(place, value, model):
    altered(model, lambda tree: set_first(tree["fitted"]["state"], place, value))
    with pytest.raises(CheckpointError) as caught:
        miniamp.load(model)
    assert place[-1] in str(caught.value)


@pytest.mark.parametrize("error", [ZeroDivisionError, OverflowError])
def test_a_failure_of_arithmetic_is_an_error_of_the_package(error, model, monkeypatch):
    def fails(self, rows):
        raise error("as numbers of an altered file make it")

    loaded = miniamp.load(model)
    monkeypatch.setattr("miniamp.estimators.state.FitState.absorbed", fails)
    with pytest.raises(InvalidInputError, match="cannot be computed"):
        loaded.partial_fit(np.eye(3), np.ones(3))
    assert loaded.n_samples_seen_ == 40


def test_the_version_of_the_package_is_in_the_file(model):
    assert container.written_by(model.read_bytes()) == miniamp.__version__


@pytest.mark.parametrize("field", ["parameters", "fitted", "stream"])
def test_a_missing_field_is_named(field, model):
    altered(model, lambda tree: tree.pop(field))
    with pytest.raises(CheckpointError, match=rf"no field '{field}'.*written by miniamp"):
        miniamp.load(model)


def test_a_missing_inner_field_is_an_error_about_the_file(model):
    optional = {"tally", "others", "chosen"}  # files of version 0.1 have none
    for key in container.unpacked(model.read_bytes())["fitted"]["state"].keys() - optional:
        content = model.read_bytes()
        altered(model, lambda tree, key=key: tree["fitted"]["state"].pop(key))
        with pytest.raises(CheckpointError, match=r"m\.amp"):
            miniamp.load(model)
        model.write_bytes(content)


def test_unknown_parameters_are_an_error_about_the_file(model):
    altered(model, lambda tree: tree["parameters"].update(unknown=1))
    with pytest.raises(CheckpointError, match="unknown"):
        miniamp.load(model)


@pytest.mark.parametrize("index", [1 << 30, -7])
def test_kept_sparse_rows_with_indices_out_of_range_are_refused(index, tmp_path):
    import scipy.sparse as sp

    from miniamp.estimators.rows import matrix_of, matrix_state

    state = matrix_state(sp.random_array((20, 10), density=0.3, format="csr", random_state=0))
    assert matrix_of(state).shape == (20, 10)
    state["indices"] = state["indices"].copy()
    state["indices"][4] = index
    with pytest.raises(ValueError, match="ind"):
        matrix_of(state)


@pytest.mark.parametrize("field", ["centre", "scale", "started", "counted"])
def test_a_frame_of_another_shape_is_refused(field, tmp_path):
    """Each was loaded, and the next batch raised an IndexError or ValueError."""
    import scipy.sparse as sp

    X = sp.random_array((60, 40), density=0.3, format="csr", random_state=0)
    miniamp.MiniAMPRegressor().fit(X, np.arange(60.0)).save(tmp_path / "m.amp")
    tree = container.unpacked((tmp_path / "m.amp").read_bytes())
    frame = tree["fitted"]["state"]["frame"]
    for wrong in (frame[field][:-1], frame[field].reshape(1, -1)):
        tree["fitted"]["state"]["frame"] = {**frame, field: wrong}
        (tmp_path / "m.amp").write_bytes(container.packed(tree))
        with pytest.raises(CheckpointError, match=r"m\.amp"):
            miniamp.load(tmp_path / "m.amp")


def test_beliefs_of_another_shape_are_refused(tmp_path):
    belief = beliefs.encode_belief(miniamp.Posterior(miniamp.priors.Gaussian(), 5))
    belief["size"] = 7
    (tmp_path / "m.amp").write_bytes(container.packed({"belief": belief}))
    with pytest.raises(CheckpointError, match="tilt"):
        load(tmp_path / "m.amp")


KEPT = Path(__file__).parents[1] / "data" / "checkpoints"


@pytest.mark.parametrize("path", sorted(KEPT.glob("*/*.amp")), ids=lambda p: p.stem)
def test_checkpoints_of_every_released_format_load_for_ever(path):
    """A folder per version; never change what is in it, only add. Same predictions to 1e-9.

    Rows that still wait for a batch are learned by the solver of today, so they are compared
    with the same rows given to a new estimator.
    """
    expected = json.loads((path.parent / "expected.json").read_text())[path.stem]
    model = miniamp.load(path)
    assert container.written_by(path.read_bytes()) == path.parent.name

    def answer(model):
        got = getattr(model, expected["method"])
        return np.asarray(got(np.array(expected["X"])) if callable(got) else got)

    if waiting := expected.get("waiting"):
        same = type(model)().partial_fit(np.array(waiting["X"]), waiting["y"])
        expected["values"] = answer(same)
    np.testing.assert_allclose(answer(model), expected["values"], rtol=1e-9)


@pytest.mark.parametrize("place", ["size", "features", "targets", "dim"])
def test_sizes_in_a_checkpoint_take_no_memory(place, model, tmp_path):
    """A size of 2^31 took 16 GB and 31 s before it was compared with the arrays."""
    import tracemalloc

    def enlarge(value):
        if isinstance(value, dict):
            return {k: 2**31 if k == place else enlarge(v) for k, v in value.items()}
        return [enlarge(v) for v in value] if isinstance(value, list) else value

    if place == "dim":
        belief = beliefs.encode_belief(miniamp.priors.OneHot(3))
        tree = {"belief": enlarge(belief)}
    else:
        tree = enlarge(container.unpacked(model.read_bytes()))
    path = tmp_path / "large.amp"
    path.write_bytes(container.packed(tree))
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError):
            (load if place == "dim" else miniamp.load)(path)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
