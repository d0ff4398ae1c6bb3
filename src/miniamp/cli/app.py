"""The commands, gathered. A new one is a file here and a line below."""

from __future__ import annotations

from inspect import cleandoc
from typing import Annotated

import typer

import miniamp
from miniamp.cli.cluster import cluster
from miniamp.cli.demo import demo
from miniamp.cli.fit import fit
from miniamp.cli.inspect import inspect
from miniamp.cli.plan import plan
from miniamp.cli.predict import predict
from miniamp.cli.reproduce import reproduce

app = typer.Typer(
    name="miniamp",
    help="Streaming Bayesian inference by mini-batch approximate message passing.",
    no_args_is_help=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"miniamp {miniamp.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of a failure.")
    ] = False,  # read by miniamp.cli.main, so that it works after the command's name too
) -> None:
    """Streaming Bayesian inference by mini-batch approximate message passing."""


def _help(doc: str | None) -> str:
    """Paragraphs as lines of their own, so that they are wrapped to the width there is."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(doc or "").split("\n\n"))


for each in (fit, predict, cluster, inspect, plan, demo, reproduce):
    app.command(help=_help(each.__doc__))(each)

command = typer.main.get_command(app)
