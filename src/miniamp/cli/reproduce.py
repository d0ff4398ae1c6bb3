"""`miniamp reproduce`, the figures of the paper with their numbers checked, and `miniamp demo`."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress
from rich.table import Table

import miniamp
from miniamp.cli.app import command, picture
from miniamp.cli.outputs import require_outputs

if TYPE_CHECKING:
    from miniamp.experiments import Claim

#: Columns of the tables where they go to a file.
FILE_WIDTH = 150
#: Of verdicts; those between yes and no are yellow.
_COLOURS = {"yes": "green", "no": "bold red"}


Figure = Annotated[
    str,
    typer.Argument(
        metavar="FIGURE",
        help="figure1, figure2, figure3, figure4, beyond, all, or one of beyond-*.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Small problems and few seeds: minutes in all.")
]
Out = Annotated[
    Path | None, typer.Option(help="Folder for CSV, PNG and PDF; a run there is resumed.")
]
Seeds = Annotated[int | None, typer.Option(help="Realisations of each simulation.", min=1)]
Jobs = Annotated[int, typer.Option(help="Processes at a time, one thread each.", min=1)]


Output = Annotated[
    Path, typer.Option(callback=picture, help="The picture; its numbers go beside it as CSV.")
]
Size = Annotated[int, typer.Option(help="Number N of coefficients.", min=10)]
DemoSeed = Annotated[int, typer.Option(help="Seed of the problem.", min=0)]


@command()
def reproduce(
    figure: Figure, quick: Quick = False, out: Out = None, seeds: Seeds = None, jobs: Jobs = 1
) -> None:
    """Reproduce a figure of the paper, and compare its numbers with those that the paper states.

    Without --out, everything goes to reproduced/ or, if quick, to reproduced-quick/. What is
    finished there is not run again, so an interrupted run resumes where it was.
    """
    experiments = miniamp.experiments
    folder = out if out is not None else Path("reproduced-quick" if quick else "reproduced")
    scale = experiments.Scale(quick, seeds)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    every: list[Claim] = []
    for name in experiments.names(figure):
        start = time.perf_counter()
        title = experiments.load(name).title
        with _progress(console) as progress:
            bar = progress.add_task(f"{name:<13}", total=len(experiments.load(name).tasks(scale)))
            advance = partial(progress.advance, bar)
            claims = experiments.reproduce(name, folder, scale, jobs, advance)
        console.print(_table(f"{name}: {title}", claims))
        every += claims
        seconds = time.perf_counter() - start
        console.print(f"{folder / name}.png, .pdf and CSV files, in {seconds:.0f} s\n")
    failed = any(claim.failed for claim in every)
    colour = "red" if failed else "green"
    console.print(f"[bold {colour}]{experiments.outcome(every)}[/bold {colour}]")
    if failed:
        raise typer.Exit(1)


def _progress(console: Console) -> Progress:
    """Bars with the share that is done, the time that is left, and the number that is done."""
    return Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=console)


def _table(title: str, claims: list[Claim]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("panel", "what", "paper", "corrected", "ours", "agrees"):
        table.add_column(name)
    for claim in claims:
        verdict = f"[{_COLOURS.get(claim.verdict, 'yellow')}]{claim.verdict}[/]"
        cells = claim.panel, claim.what, claim.paper, claim.corrected, claim.ours, verdict
        table.add_row(*cells)
    notes = dict.fromkeys(f"{claim.what}: {claim.note}" for claim in claims if claim.note)
    if notes:
        table.caption, table.caption_justify = "\n".join(notes), "left"
    return table


@command()
def demo(output: Output = Path("demo.png"), size: Size = 2000, seed: DemoSeed = 1) -> None:
    """Run Mini-AMP, ADF and streaming VB on a sparse regression, and compare them with theory.

    N = 2000 coefficients, 30 % of them not zero; nearly noiseless rows (variance 1e-8) arrive in
    batches of 0.35 N until there are three times as many as coefficients.
    """
    experiment = miniamp.experiments.demo
    require_outputs({"--output": output})
    console = Console()
    run = experiment.Demo(size=size, seed=seed)
    console.print(
        f"[bold]Sparse regression[/bold], N = {size}, 30 % non-zero, noise variance "
        f"{experiment.NOISE:g}; {experiment.BATCHES} batches of {run.problem.rows} rows"
    )
    with _progress(console) as progress:
        for name in experiment.LOOKS:
            task = progress.add_task(f"{name:<13}", total=experiment.BATCHES)
            for _ in run.steps(name):
                progress.advance(task)
    console.print(_curve_table(run.curves()))
    experiment.write_csv(run, output.with_suffix(".csv"))
    experiment.plot(run, output)
    console.print(f"Picture: {output}   numbers: {output.with_suffix('.csv')}")


def _curve_table(curves: dict[str, list[float]]) -> str:
    errors = (
        [f"{alpha:.2f}", *(f"{e:.1e}" for e in row)]
        for alpha, *row in zip(*curves.values(), strict=True)
    )
    return (
        "Mean squared error after each batch; lower is better\n"
        + miniamp.theory.curves.text_table([[*curves], *errors])
    )
