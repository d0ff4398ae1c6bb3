"""`miniamp demo`: three algorithms and the theory on one stream of rows, in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import miniamp
from miniamp.cli.options import command

Output = Annotated[Path, typer.Option(help="The picture; its numbers go beside it as CSV.")]
Size = Annotated[int, typer.Option(help="Number N of coefficients.", min=10)]
Seed = Annotated[int, typer.Option(help="Seed of the problem.", min=0)]


@command()
def demo(output: Output = Path("demo.png"), size: Size = 2000, seed: Seed = 1) -> None:
    """Stream a sparse regression through Mini-AMP, ADF and streaming VB, and compare with theory.

    N = 2000 coefficients, 30 % of them not zero; nearly noiseless rows (variance 1e-8) arrive in
    batches of 0.35 N until there are three times as many as coefficients.
    """
    experiment = miniamp.experiments.demo
    experiment.require_writable(output)
    console = Console()
    run = experiment.Demo(size=size, seed=seed)
    console.print(
        f"[bold]Sparse regression[/bold], N = {size}, 30 % non-zero, noise variance "
        f"{experiment.NOISE:g}; {run.batches} batches of {run.rows} rows"
    )
    with Progress(
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("batches"),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        for name in run.algorithms:
            task = progress.add_task(name, total=run.batches)
            for _ in run.steps(name):
                progress.advance(task)
    console.print(_table(run.curves()))
    experiment.write_csv(run, output.with_suffix(".csv"))
    experiment.plot(run, output)
    console.print(f"Picture: {output}   numbers: {output.with_suffix('.csv')}")


def _table(curves: dict[str, list[float]]) -> Table:
    table = Table(caption="Mean squared error after each batch; lower is better")
    names = list(curves)
    table.add_column(names[0], justify="right", style="bold")
    for name in names[1:]:
        table.add_column(name, justify="right")
    for alpha, *errors in zip(*curves.values(), strict=True):
        table.add_row(f"{alpha:.2f}", *(f"{error:.1e}" for error in errors))
    return table
