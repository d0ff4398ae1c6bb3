"""Shell completion: the shells are served, and know commands and options."""

import os
import subprocess
import sys

import pytest


def completed(words, **more):
    """What bash is told to offer after these words."""
    given = {**os.environ, "_MINIAMP_COMPLETE": "complete_bash", "COMP_WORDS": words, **more}
    run = subprocess.run(
        [sys.executable, "-m", "miniamp"], env=given, capture_output=True, text=True, check=False
    )
    return run.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "place", "offered"),
    [("miniamp pl", "1", "plan"), ("miniamp fit --half", "2", "--half-life")],
)
def test_bash_completes(words, place, offered):
    assert completed(words, COMP_CWORD=place) == [offered]


def test_the_script_can_be_shown(run):
    out = run("--help").out
    assert "--install-completion" in out
    assert "--show-completion" in out
