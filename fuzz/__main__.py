"""Fuzz each target for some seconds, in a process of its own: python -m fuzz [SECONDS] [TARGET].

`100000x` in the place of the seconds asks for so many inputs. Prints how many inputs ran and what
was found. An input that is found is kept beside the corpus as found-<target>-..., to be moved into
it with the fix.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
#: An input may take so many seconds, and the process so many MB: 300 more than the 220 that it has
#: before the first input, with atheris and Numba.
HANG, MEMORY = 5, 520


def fuzz(name: str, arguments: list[str]) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    # Only what is imported here is instrumented: without that libFuzzer sees no coverage, keeps an
    # input of one byte, and tries little else.
    with atheris.instrument_imports(include=["miniamp.streams", "miniamp.estimators.saving"]):
        from fuzz.mutate import mutated
        from fuzz.targets import TARGETS

    options = {"custom_mutator": mutated} if name == "checkpoint" else {}
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name], **options)
    atheris.Fuzz()


def run(name: str, length: str) -> dict[str, object]:
    """One target in a child process; its number of inputs and its findings."""
    with tempfile.TemporaryDirectory() as scratch:
        corpus = Path(scratch) / "corpus"
        corpus.mkdir()
        for path in (CORPUS / name).glob("*"):
            shutil.copy(path, corpus / path.name)
        found = CORPUS.parent / f"found-{name}-"
        command = [
            sys.executable, "-m", "fuzz", "--child", name, str(corpus),
            f"-runs={length[:-1]}" if length.endswith("x") else f"-max_total_time={length}",
            f"-timeout={HANG}", f"-rss_limit_mb={MEMORY}",
            f"-artifact_prefix={found}", "-print_final_stats=1", "-max_len=20000",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    runs = re.findall(r"stat::number_of_executed_units: (\d+)", done.stderr)
    runs = runs or re.findall(r"^#(\d+)", done.stderr, re.MULTILINE)[-1:]
    reason = (
        "" if done.returncode == 0 else f"{done.stderr[-3000:]}\nended with {done.returncode}\n"
    )
    return {"target": name, "inputs": int(runs[0]) if runs else 0, "finding": reason}


def main() -> int:
    if "--child" in sys.argv:
        at = sys.argv.index("--child")
        fuzz(sys.argv[at + 1], sys.argv[at + 2 :])
    length = sys.argv[1] if len(sys.argv) > 1 else "60"
    names = sys.argv[2:] or sorted(path.name for path in CORPUS.iterdir())
    findings = 0
    for name in names:
        result = run(name, length)
        findings += bool(result["finding"])
        sys.stdout.write(json.dumps({**result, "finding": bool(result["finding"])}) + "\n")
        sys.stdout.write(str(result["finding"]))
        sys.stdout.flush()
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
