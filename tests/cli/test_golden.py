"""What every command prints, word for word, and every kind of failure.

Numbers with a point are shown as #, so that another machine's last digit changes nothing; widths of
tables likewise. MINIAMP_GOLDEN=write writes the files anew; look at the difference before a commit.
"""

import os
import re
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden"
PLAN = ("plan", "--features", "1000", "--sparsity", "0.3", "--noise", "1e-8")

COMMANDS = {
    "fit-regression": ("fit", "rows.csv", "--target", "y", "--batch-size", "60", "-o", "m.amp"),
    "fit-classification": ("fit", "labels.csv", "--target", "y", "--batch-size", "60"),
    "fit-resumed": ("fit", "rows.csv", "--target", "y", "--batch-size", "60",
                    "--checkpoint", "rows.amp"),
    "fit-json": ("fit", "rows.csv", "--target", "y", "--batch-size", "120", "--json"),
    "predict-regression": ("predict", "rows.amp", "new.csv"),
    "predict-classification": ("predict", "labels.amp", "new.csv"),
    "predict-to-file": ("predict", "rows.amp", "new.csv", "-o", "p.parquet"),
    "predict-clusters": ("predict", "points.amp", "new-points.csv"),
    "cluster": ("cluster", "points.csv", "--clusters", "3", "--batch-size", "80", "-o", "l.csv"),
    "cluster-kept": ("cluster", "points.csv", "--clusters", "3", "--batch-size", "60",
                     "--model", "m.amp", "--report", "r.html"),
    "cluster-resumed": ("cluster", "points.csv", "--clusters", "3", "--batch-size", "60",
                        "--checkpoint", "points.amp"),
    "cluster-json": ("cluster", "points.csv", "--clusters", "3", "--batch-size", "60", "--json"),
    "inspect-regression": ("inspect", "rows.amp", "--top", "2"),
    "inspect-classification": ("inspect", "labels.amp", "--top", "2"),
    "inspect-clusters": ("inspect", "points.amp"),
    "inspect-clusters-json": ("inspect", "points.amp", "--json"),
    "inspect-json": ("inspect", "rows.amp", "--top", "1", "--json"),
    "plan": (*PLAN, "--target-mse", "1e-6"),
    "plan-json": (*PLAN, "--target-mse", "1e-6", "--json"),
    "error-no-file": ("fit", "nothing.csv", "--target", "y"),
    "error-target": ("fit", "rows.csv", "--target", "ciy"),
    "error-options-differ": ("fit", "rows.csv", "--target", "y", "--checkpoint", "rows.amp"),
    "error-source-differs": ("fit", "new.csv", "--target", "y", "--batch-size", "60",
                             "--checkpoint", "rows.amp"),
    "error-model": ("predict", "rows.csv", "new.csv"),
    "error-feature": ("predict", "rows.amp", "points.csv"),
    "error-output": ("predict", "rows.amp", "new.csv", "-o", "p.xls"),
    "error-labels-of-a-pipe": ("cluster", "-", "--clusters", "2", "-o", "l.csv"),
    "error-cluster-options": ("cluster", "points.csv", "--clusters", "4", "--batch-size", "60",
                              "--checkpoint", "points.amp"),
    "error-checkpoint-of-fit": ("cluster", "rows.csv", "--clusters", "3",
                                "--checkpoint", "rows.amp"),
    "error-checkpoint-of-cluster": ("fit", "points.csv", "--target", "a",
                                    "--checkpoint", "points.amp"),
    "error-too-few-points": ("cluster", "points.csv", "--clusters", "300"),
    "error-plan": (*PLAN, "--target-mse", "9"),
    "usage-option": ("fit", "rows.csv", "--target", "y", "--colour", "red"),
    "usage-prior": ("fit", "rows.csv", "--target", "y", "--prior", "cauchy"),
    "usage-batch-size": ("fit", "rows.csv", "--target", "y", "--batch-size", "-5"),
    "usage-cluster-noise": ("cluster", "points.csv", "--clusters", "2", "--noise", "-1"),
    "usage-command": ("fti",),
}  # fmt: skip


def normal(text: str) -> str:
    """The words without what may differ from machine to machine."""
    text = re.sub(r"[\d,]+ rows in .* per second", "N rows in T s, R rows per second", text)
    text = re.sub(r'("(?:seconds|rows_per_second)"): [^,\n]+', r"\1: #", text)
    text = re.sub(r'"history": \[.*\]\n', '"history": [...]\n', text, flags=re.DOTALL)
    text = re.sub(r"(solver: )[^\n]*", r"\1...", text)
    text = re.sub(r'("(?:solver|reason|remedy)"): "[^"\n]*"', r'\1: "..."', text)
    text = re.sub(r'("(?:iterations|undecided)"): \d+', r"\1: #", text)
    text = re.sub(r"-?\d+\.\d+(e[-+]?\d+)?|-?\d+e[-+]?\d+|(?<=\()\d+ %", "#", text)
    text = re.sub(r"[━─┏┓┡┩└┘┳╇┴┃│]+|={9,}|-{9,}", "|", text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_output(name, models, run):
    command = COMMANDS[name]
    ran = run(*command, stdin=b"")
    shown = (
        f"$ miniamp {' '.join(command)}\n{ran.out}--- stderr\n{ran.err}--- exit code {ran.code}\n"
    )
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("MINIAMP_GOLDEN") == "write":
        path.write_text(normal(shown))
    assert normal(shown) == path.read_text()


def test_no_golden_file_is_left_over():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(COMMANDS)


@pytest.mark.parametrize(
    "command", ["fit", "predict", "cluster", "inspect", "plan", "demo", "reproduce"]
)
def test_every_command_has_help(run, command):
    ran = run(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"miniamp {command} [OPTIONS]" in ran.out


@pytest.mark.parametrize("command", ["fit", "predict", "cluster", "inspect", "plan"])
def test_help_ends_with_an_example(run, command):
    assert f"Example: miniamp {command} " in run(command, "--help").out
