"""A page that follows a model file, and never touches it."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("plotly")

from miniamp import MiniAMPRegressor
from miniamp.app.watcher import Watched, application
from miniamp.info import OddEntry
from miniamp.report.facts import Facts
from miniamp.report.page import above

from .conftest import batch

SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"


def model(batches, names=None):
    fitted = MiniAMPRegressor()
    for seed in range(batches):
        fitted.partial_fit(*batch(seed))
    if names is not None:
        fitted.feature_names_in_ = np.array(names, dtype=object)
    return fitted


def test_it_waits_shows_and_follows(tmp_path):
    path = tmp_path / "m.amp"
    watched = Watched(path)
    assert watched.news("")["status"] == "waiting for m.amp"
    model(3).save(path)
    first = watched.news("")
    assert "120 rows in 3 batches" in first["above"]
    assert len(first["figures"]) == len(first["titles"]) > 3
    assert set(watched.news(first["token"])) == {"token", "status"}
    model(4).save(path)
    assert "160 rows in 4 batches" in watched.news(first["token"])["above"]


def test_a_damaged_file_leaves_the_page_as_it_was(tmp_path):
    path = tmp_path / "m.amp"
    model(3).save(path)
    watched = Watched(path)
    first = watched.news("")
    path.write_bytes(path.read_bytes()[:-40])
    news = watched.news("")
    assert news["above"] == first["above"]
    assert "m.amp" in news["status"]
    path.unlink()
    assert watched.news("")["above"] == first["above"]


def test_it_only_reads(tmp_path):
    path = tmp_path / "m.amp"
    model(3).save(path)
    before, content = sorted(tmp_path.iterdir()), path.read_bytes()
    path.chmod(0o444)
    Watched(path).news("")
    assert sorted(tmp_path.iterdir()) == before
    assert path.read_bytes() == content


def test_conflicts_are_listed_with_their_rows():
    """With the names of features: x24 was a name that no reader knew."""
    facts = Facts.of(model(3, ["age", SCRIPT, "c"]))
    assert "Adapted or skipped" not in above(facts)
    *before, last = facts.everything
    odd = [OddEntry(5, j, 999.0, 0.5, -3.0, 2.5)._asdict() for j in (0, 1)]
    entries = [{"kind": "entry", "factor": 0.0, "message": "", **one} for one in odd]
    whole = {"kind": "skipped", "factor": 4.0, "message": "contradicts"}
    facts.everything = [*before, {**last, "conflicts": [*entries, whole]}]
    text = re.sub(r"<td [^>]*>", "<td>", above(facts))
    assert "Adapted or skipped: 3" in text
    assert "<td>3</td><td>86</td><td>entry</td>" in text  # the sixth row of the third batch of 40
    assert "row 86: age=999, where all others are between -3 and 2.5" in text
    assert "<td>81 to 120</td><td>skipped</td>" in text
    assert SCRIPT not in text


def test_scripts_in_names_do_nothing(tmp_path, shown, open_page):
    path = tmp_path / f"{IMAGE.replace('/', '')}.amp"
    model(3, [SCRIPT, IMAGE, "'\";--"]).save(path)
    page = open_page(shown(application(path)))
    page.wait_for_selector("#plot0 .scatterlayer")
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("[...document.scripts].every((each) => each.src)")
    page.wait_for_timeout(300)


def test_pause_and_resume(tmp_path, shown, open_page):
    path = tmp_path / "m.amp"
    model(3).save(path)
    page = open_page(shown(application(path)), width=390, scheme="dark")
    page.wait_for_selector("text=120 rows in 3 batches")
    page.click("#pause")
    model(4).save(path)
    page.wait_for_timeout(1500)
    assert page.is_visible("text=120 rows in 3 batches")
    page.click("#pause")
    page.wait_for_selector("text=160 rows in 4 batches")
    page.click("summary")
    page.click("table.sortable th:nth-child(2)")
    assert page.get_attribute("table.sortable th:nth-child(2)", "aria-sort") == "descending"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGINT is sent to a process")
def test_fit_with_watch(tmp_path):
    """The fit ends as without it; the page stays until Ctrl-C, and dies with it."""
    rows = tmp_path / "rows.csv"
    X, y = batch(0, rows=400)
    np.savetxt(rows, np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
    words = ["fit", str(rows), "--target", "y", "--checkpoint", str(tmp_path / "m.amp"), "--watch"]
    process = subprocess.Popen(
        [sys.executable, "-m", "miniamp", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs ignore SIGINT, and so would what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    seen = []
    for line in process.stdout:
        seen.append(line)
        if any("listening on" in each for each in seen) and any("rows" in each for each in seen):
            break
    for line in process.stderr:
        if "stays until Ctrl-C" in line:
            break
    assert (tmp_path / "m.amp").exists()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0
