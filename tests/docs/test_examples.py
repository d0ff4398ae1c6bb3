"""The scripts of the gallery run without warnings, and each draws one picture."""

import runpy
from pathlib import Path

import pytest

plt = pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("sklearn")
pytest.importorskip("formulaic")

SCRIPTS = sorted((Path(__file__).parents[2] / "docs/examples").glob("plot_*.py"))


def test_there_are_six():
    assert len(SCRIPTS) == 6


#: They take more than eight seconds on a busy machine.
LONG = ("plot_genomics", "plot_text")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else [])
        for path in SCRIPTS
    ],
)
def test_it_runs_and_draws(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    runpy.run_path(str(script))
    assert len(shown) == 1
    assert all(ax.has_data() for ax in shown[0].axes)
    plt.close("all")
