"""What the manual shows runs, and what the package offers is in the manual."""

import doctest
import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import miniamp

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    "practitioners",
    "formulas",
    "tools",
    pytest.param("physicists", marks=pytest.mark.slow),
    "extending",
    "reports",
    "explore",
    "distributed",
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

pytest.importorskip("sklearn")


def blocks(page):
    """Examples and commands of a page, in order: (language, text, line)."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for found in re.finditer(
        r"^```(pycon|console)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    ):
        yield found[1], found[2], text[: found.start()].count("\n") + 1


def run_command(line):
    words = shlex.split(line)
    if words[0] != "miniamp":
        return  # pip, make: not for a test to do
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES)
def test_examples_and_commands_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=FLAGS)
    for language, text, line in blocks(page):
        if language == "console":
            for command in text.splitlines():
                run_command(command.removeprefix("$ "))
            continue
        # The runner clears the names that a test was given; later blocks go on with them.
        example = parser.get_doctest(text, names, f"{page}.md", f"{page}.md", line)
        report = []
        runner.run(example, out=report.append, clear_globs=False)
        names = example.globs
        assert runner.failures == 0, "".join(report)


def test_every_public_package_has_a_page():
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.rst"))
    shown = set(re.findall(r"automodule:: (\S+)", text))
    for module in pkgutil.walk_packages(miniamp.__path__, "miniamp."):
        inner = {"cli", "experiments", "__main__"} & set(module.name.split("."))
        if not module.ispkg or inner or module.name == "miniamp.priors.rows":
            continue
        if hasattr(importlib.import_module(module.name), "__all__"):
            assert module.name in shown, f"docs/api has no page for {module.name}"


def test_every_label_of_the_paper_is_on_the_theory_page():
    """Labels that docstrings speak of can be looked up."""
    page = (DOCS / "theory.md").read_text(encoding="utf-8")
    source = Path(miniamp.__file__).parent
    spoken = {
        label
        for file in source.rglob("*.py")
        for label in re.findall(r"`(eq:[\w-]+)`", file.read_text(encoding="utf-8"))
    }
    assert spoken
    assert {label for label in spoken if f"`{label}`" not in page} == set()


def test_included_source_is_there():
    """Every object that a page includes still has its name."""
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for path, options in re.findall(r"\{literalinclude\} (\S+)\n((?::.*\n)*)", text):
            source = (DOCS / path).read_text(encoding="utf-8")
            for name in re.findall(r":pyobject: (\S+)", options):
                last = name.split(".")[-1]
                assert re.search(rf"(class|def) {last}\b", source), f"{page.name}: {path} {name}"
