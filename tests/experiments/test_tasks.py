import json

import pytest

from miniamp.experiments.figure import Scale, Task, finished, load, names, run_all
from miniamp.experiments.tables import deviation, rows_of

ECHO = rows_of


def test_finished_tasks_are_not_run_again(tmp_path):
    tasks = [Task("p", ECHO, {"value": i}) for i in range(3)]
    told = []
    run_all(tasks[:2], tmp_path, 2, lambda: told.append(1))
    kept = tmp_path / tasks[0].file
    kept.write_text(json.dumps({"seconds": 0.0, "rows": [{"value": "kept"}]}))
    run_all(tasks, tmp_path, 1, lambda: told.append(1))
    assert finished(tasks[0], tmp_path) == [{"value": "kept"}]
    assert finished(tasks[2], tmp_path) == [{"value": 2}]
    assert len(told) == 5


def test_half_a_file_counts_as_not_run(tmp_path):
    task = Task("p", ECHO, {"value": 1})
    (tmp_path / task.file).write_text('{"rows": [')
    assert finished(task, tmp_path) is None
    run_all([task], tmp_path, 1)
    assert finished(task, tmp_path) == [{"value": 1}]


def test_a_failure_is_told_and_what_was_done_stays(tmp_path):
    good, bad = Task("p", ECHO, {"value": 1}), Task("p", deviation, {})
    with pytest.raises(TypeError):
        run_all([good, bad], tmp_path, 1)
    assert finished(good, tmp_path) == [{"value": 1}]


def test_other_settings_are_another_task():
    assert Task("p", ECHO, {"value": 1}).file != Task("p", ECHO, {"value": 2}).file
    assert Task("p", ECHO, {"a": 1, "b": 2}).file == Task("p", ECHO, {"b": 2, "a": 1}).file


@pytest.mark.parametrize("name", names())
def test_tasks_of_a_figure_are_all_different_and_grow_with_the_seeds(name):
    figure = load(name)
    one, two = (figure.tasks(Scale(quick=True, seeds=n)) for n in (1, 2))
    assert len({task.file for task in two}) == len(two)
    assert {task.file for task in one} <= {task.file for task in two}


def test_names():
    assert names("all")[0] == "figure1"
    assert names("beyond_plan") == ["beyond-plan"]
    with pytest.raises(ValueError, match=r"figure: got 'figure9'"):
        names("figure9")
