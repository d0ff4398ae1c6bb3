"""The commands, found by their files: one whose function has the file's name is a command."""

from __future__ import annotations

import importlib
import pkgutil
from inspect import cleandoc, isfunction
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import miniamp

#: Their order in the help; others follow.
ORDER = ("fit", "predict", "cluster", "inspect", "plan", "demo", "reproduce", "serve")

app = typer.Typer(
    name="miniamp",
    help="Streaming Bayesian inference by mini-batch approximate message passing.",
    no_args_is_help=True,
)


class _Command(TyperCommand):
    """A command whose usage names its arguments as the help below does, without braces."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


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


def _register() -> None:
    names = {found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)])} - {"app"}
    for name in [n for n in ORDER if n in names] + sorted(names - set(ORDER)):
        function = getattr(importlib.import_module(f"miniamp.cli.{name}"), name, None)
        if isfunction(function):
            # Paragraphs become lines of their own, wrapped to the width of the terminal.
            paragraphs = cleandoc(function.__doc__ or "").split("\n\n")
            help_ = "\n\n".join(" ".join(part.split()) for part in paragraphs)
            app.command(name, help=help_, cls=_Command)(function)


_register()
command = typer.main.get_command(app)
