"""Find the commands in the files of this folder, and run one."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import warnings
from collections.abc import Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import miniamp
from miniamp.cli.options import COMMANDS
from miniamp.errors import MiniampError, MiniampWarning, printable

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
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
    for found in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"miniamp.cli.{found.name}")
    for name in [*ORDER, *sorted(COMMANDS.keys() - set(ORDER))]:
        # Paragraphs become lines of their own, wrapped to the width of the terminal.
        paragraphs = cleandoc(COMMANDS[name].__doc__ or "").split("\n\n")
        help_ = "\n\n".join(" ".join(part.split()) for part in paragraphs)
        app.command(name, help=help_, cls=_Command)(COMMANDS[name])


_register()
command = typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Examples
    --------
    >>> main(["--version"])
    miniamp ...
    0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.resetwarnings()
                warnings.simplefilter("ignore")  # what libraries tell programmers
                warnings.simplefilter("default", UserWarning)
                warnings.showwarning = _warn
            code = command(words, prog_name="miniamp", standalone_mode=False)
    except KeyboardInterrupt:
        return _report("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read the output has enough, as in `miniamp ... | head`
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 (nothing more can be written)
        return FAILED
    except Exception as error:
        if debug:
            raise
        return _explain(error)
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> int:
    # Usage errors come from click, or from the copy in newer typers, so not by their class.
    usage = getattr(error, "format_message", None)
    if usage is not None:
        context = getattr(error, "ctx", None)
        path = "miniamp" if context is None else context.command_path
        return _report(f"{usage()} (see {path} --help)", MISUSED)
    if type(error).__name__ == "Abort":
        return _report("interrupted", INTERRUPTED)
    message = error.as_typed("shell") if isinstance(error, MiniampError) else str(error)
    return _report(message or type(error).__name__, FAILED)


def _warn(message: Warning | str, *place: object, **more: object) -> None:  # noqa: ARG001
    text = message.as_typed("shell") if isinstance(message, MiniampWarning) else str(message)
    _report(f"warning: {text}", 0)


def _report(message: str, code: int) -> int:
    sys.stderr.write(f"miniamp: {printable(' '.join(message.split()))}\n")
    return code
