"""The measuring tool finds what it is there to find."""

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "house.py"


def check(root):
    return subprocess.run(
        [sys.executable, str(TOOL), "--check", "--root", str(root)],
        capture_output=True,
        text=True,
        check=False,
    )


def package(root, **files):
    folder = root / "src" / "miniamp"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return root


def test_a_sound_package_passes(tmp_path):
    root = package(tmp_path, a="X: int = 1\n", b="from miniamp.a import X\n")
    assert check(root).returncode == 0


def test_a_cycle_through_a_function_is_found(tmp_path):
    """An import in a function closes the circle; three such circles are over any limit."""
    files = {}
    for i in range(3):
        files[f"a{i}"] = f"from miniamp.b{i} import g\n"
        files[f"b{i}"] = f"def g():\n    from miniamp import a{i}\n    return a{i}\n"
    done = check(package(tmp_path, **files))
    assert done.returncode == 1
    assert "import cycles: 3" in done.stdout
    assert "miniamp.b2" in done.stdout


def test_an_import_for_type_checkers_is_no_cycle(tmp_path):
    lazy = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from miniamp.b{0} import g\n"
    files = {}
    for i in range(3):
        files[f"a{i}"] = lazy.format(i)
        files[f"b{i}"] = f"from miniamp import a{i}\n"
    assert check(package(tmp_path, **files)).returncode == 0


def test_long_files_are_found(tmp_path):
    """Five are more than are ever allowed."""
    done = check(package(tmp_path, **{f"a{i}": "x = 1\n" * 401 for i in range(5)}))
    assert done.returncode == 1
    assert "files over 400 lines: 5" in done.stdout


def test_an_alias_of_any_counts_as_any(tmp_path):
    alias = "from typing import Any\nLoose = Any\n"
    uses = "".join(f"def f{i}(x: Loose) -> Loose: ...\n" for i in range(190))
    files = {f"m{i}": alias + uses for i in range(3)}
    done = check(package(tmp_path, **files))
    assert "annotations that are Any: 1,140" in done.stdout
