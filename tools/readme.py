"""Run what the README and the page of the command line show: python -m tools.readme.

Runs every `$ miniamp ...` line and the Python example in a folder that has the README's file.
`--write` puts the output of today into the pages; without it, a difference is an error. Times and
speeds differ from run to run and are not compared.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
PAGES = (HERE / "README.md", HERE / "docs" / "command-line.md")
CONSOLE = re.compile(r"```console\n(.*?)```", flags=re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)


def shown(block: str, folder: Path) -> str:
    """The block with the output that its commands give now."""
    lines = block.splitlines()
    commands = [line for line in lines if line.startswith("$ ")]
    quiet = len(commands) == len(lines)
    found = []
    for line in commands:
        found.append(line)
        words = line.removeprefix("$ ").split()
        if words[0] != "miniamp":
            continue
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            env={**os.environ, "COLUMNS": "90"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode:
            raise SystemExit(f"{line}\n{done.stderr}")
        if not quiet:
            found += [text.rstrip() for text in done.stdout.strip().splitlines()]
    return "\n".join(found) + "\n"


def timeless(text: str) -> str:
    """Text without the lines that have seconds, and without spaces at ends of lines."""
    return "\n".join(line.rstrip() for line in text.splitlines() if not re.search(r"\d s\b", line))


def main() -> int:
    parser = argparse.ArgumentParser(description="Run what the README and the manual show.")
    parser.add_argument("--write", action="store_true", help="put today's output into the pages")
    chosen = parser.parse_args()
    return max(checked(page, chosen.write) for page in PAGES)


def checked(page: Path, write: bool) -> int:
    """Whether a page shows other output than its commands give; with `write` it is changed."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(HERE / "docs" / "data" / "diabetes.csv", folder)
        new = CONSOLE.sub(lambda found: f"```console\n{shown(found[1], folder)}```", text)
        for code in PYTHON.findall(text):
            subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=folder, check=True)
    if write:
        page.write_text(new, encoding="utf-8")
    elif timeless(new) != timeless(text):
        print(f"{page.name} shows other output than its commands: python -m tools.readme --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
