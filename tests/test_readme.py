"""What the README shows runs, and prints what the README says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"

pytest.importorskip("sklearn")


def test_the_example_predicts_patients(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    shutil.copy(ROOT / "docs" / "data" / "diabetes.csv", tmp_path)
    code += "print(*low, *mean, *high, std.min())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    *found, std = map(float, done.stdout.split())
    low, mean, high = found[:3], found[3:6], found[6:]
    assert all(a < b < c for a, b, c in zip(low, mean, high, strict=True))
    # The target runs from 25 to 346 with standard deviation 77; the residuals' is about 54.
    assert all(25 < value < 346 for value in mean)
    assert 20 < std < 77


def test_the_first_screen_fits_a_real_file():
    head = README.read_text().split("\n## ")[0]
    assert "$ miniamp fit diabetes.csv" in head
    assert "bmi" in head


@pytest.mark.slow
def test_commands_print_what_the_readme_shows():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "readme.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pictures_and_links_are_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert target.startswith("https://") or (README.parent / target).exists(), target
