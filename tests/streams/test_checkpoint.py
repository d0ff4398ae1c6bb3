"""Checkpoints survive kills, and damage is refused with the previous one offered."""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time

import numpy as np
import pytest

from miniamp import Posterior, Tilt, priors
from miniamp.errors import CheckpointError, InvalidInputError, InvalidTypeError
from miniamp.streams import is_sound, load, open_stream, previous_of, save


def state(step):
    """Arrays that tell the step, so that a mixture of two states would show."""
    return {
        "step": step,
        "belief": Posterior(
            priors.Gaussian(), 50, Tilt(np.array(float(step)), np.full(50, step / 3))
        ),
        "history": [{"rows": 10, "score": 0.1 * step}],
    }


def check_whole(saved):
    step = saved["step"]
    assert step == saved["belief"].tilt.A
    np.testing.assert_array_equal(saved["belief"].tilt.B, np.full(50, step / 3))
    assert saved["history"] == [{"rows": 10, "score": 0.1 * step}]
    return step


def test_the_previous_one_is_kept(tmp_path):
    path = tmp_path / "m.amp"
    for step in range(1, 4):
        save(path, state(step))
    assert check_whole(load(path)) == 3
    assert check_whole(load(previous_of(path))) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.amp", "m.amp.previous"]


def test_a_stream_position_comes_back_and_goes_on(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[3, 1] = np.nan
    batches = list(open_stream(X, None, 20, missing="mean"))
    save(tmp_path / "m.amp", {"stream": batches[0].state()})
    stream = load(tmp_path / "m.amp")["stream"]
    rest = list(open_stream(X, None, 20, missing="mean", resume=stream))
    for new, old in zip(rest, batches[1:], strict=True):
        assert new.X.tobytes() == old.X.tobytes()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other", "gone"])
def test_damage_is_refused_and_the_previous_one_offered(damage, tmp_path):
    path = tmp_path / "m.amp"
    save(path, state(1))
    save(path, state(2))
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        content[len(content) // 2] ^= 4
        path.write_bytes(
            {"cut": content[:-7], "flip": content, "empty": b"", "other": b"a,y\n"}[damage]
        )
    with pytest.raises(
        CheckpointError, match=r"previous one is sound: load .*m\.amp\.previous"
    ) as e:
        load(path)
    assert "\n" not in str(e.value)
    assert check_whole(load(e.value.previous)) == 1
    # The next save must not push the sound previous one out for the damaged one.
    save(path, state(3))
    assert check_whole(load(path)) == 3
    assert check_whole(load(previous_of(path))) == 1


def test_damage_without_a_previous_one_is_refused(tmp_path):
    save(tmp_path / "m.amp", state(1))
    (tmp_path / "m.amp").write_bytes((tmp_path / "m.amp").read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"cut short.*no previous one") as caught:
        load(tmp_path / "m.amp")
    assert caught.value.previous is None
    with pytest.raises(CheckpointError, match="got no such file"):
        load(tmp_path / "none.amp")


def test_a_state_that_cannot_be_saved_changes_nothing(tmp_path):
    path = tmp_path / "m.amp"
    save(path, state(1))
    for bad in ({"x": object()}, {"x": {1, 2}}, {"x": {3: 4}}, [1], {"f": print}, {"@": "x"}):
        with pytest.raises((InvalidInputError, InvalidTypeError)):
            save(path, bad)
    assert check_whole(load(path)) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["m.amp"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInputError, match="error when writing it"):
        save(tmp_path / "none" / "m.amp", {})


def test_a_failed_write_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "m.amp"
    save(path, state(1))

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInputError, match="No space left"):
        save(path, state(2))
    assert check_whole(load(path)) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["m.amp"]


def test_without_hard_links_the_previous_one_is_a_copy(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    for step in (1, 2):
        save(tmp_path / "m.amp", state(step))
    assert check_whole(load(previous_of(tmp_path / "m.amp"))) == 1


def test_leftovers_of_killed_saves_are_swept_and_other_files_not(tmp_path):
    (tmp_path / ".m.amp.0123456789abcdef.new").touch()
    (tmp_path / ".m.amp.fedcba9876543210.old").touch()
    (tmp_path / ".m.amp.notes.new").touch()
    save(tmp_path / "m.amp", state(1))
    assert {p.name for p in tmp_path.iterdir()} == {"m.amp", ".m.amp.notes.new"}


def saving_process(path):
    """A process that saves one state after the other, and the pipe where it reports each."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            step = load(path)["step"] if is_sound(path) else 0
            while True:
                step += 1
                save(path, state(step))
                os.write(write, f"{step}\n".encode())
        finally:
            os._exit(1)  # never return into the test runner's copy
    os.close(write)
    return process, read


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_twenty_kills_at_random_moments_never_leave_a_broken_file(tmp_path):
    """After each kill: the last state that was reported saved, or the one that was being saved."""
    path = tmp_path / "m.amp"
    moments = random.Random(11)
    last = 0
    for k in range(20):
        process, pipe = saving_process(path)
        if k % 2:  # however busy the machine is
            select.select([pipe], [], [], 60.0)
        time.sleep(moments.uniform(0.0, 0.1))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        with os.fdopen(pipe) as report:
            reported = [int(line) for line in report]
        last = reported[-1] if reported else last
        assert last == 0 or is_sound(path)
        if is_sound(path):
            step = check_whole(load(path))
            assert step in (last, last + 1)
            if step > 1:
                assert check_whole(load(previous_of(path))) in (step - 1, step)
            last = step
    assert last >= 10  # saves did go on between the kills
    save(path, state(last))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.amp", "m.amp.previous"]


def test_a_kill_between_the_two_renames_leaves_nothing_behind(tmp_path):
    """The old file is then both the current and the previous one."""
    path = tmp_path / "m.amp"
    save(path, state(1))
    os.link(path, previous_of(path))
    save(path, state(2))
    assert check_whole(load(path)) == 2
    assert check_whole(load(previous_of(path))) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.amp", "m.amp.previous"]
