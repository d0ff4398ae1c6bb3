"""The README's example runs and does what it says."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def example():
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    return code


def test_the_example_recovers_the_coefficients():
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", example()], capture_output=True, text=True, check=True
    )
    errors = [float(line.split()[1]) for line in run.stdout.splitlines()]
    assert len(errors) == 4
    assert errors[-1] < 1e-7


def test_the_example_is_ten_lines():
    assert len([line for line in example().splitlines() if line.strip()]) <= 10


def test_pictures_and_links_are_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert target.startswith("https://") or (README.parent / target).exists(), target
