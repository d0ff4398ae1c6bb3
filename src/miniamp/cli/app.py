"""The program `miniamp`: its commands, how the values of options are read, and how it fails."""

from __future__ import annotations

import functools
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

import miniamp
from miniamp.errors import MiniampError, MiniampWarning, printable
from miniamp.streams import open_stream
from miniamp.streams.sources import connections, formats

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
C = TypeVar("C", bound=Callable[..., None])
K = TypeVar("K", bound=type[Any])

#: Options by name.
Options: TypeAlias = dict[str, Any]
#: Options that are lists, a,b,c.
LISTS = ("classes", "columns", "categorical", "keep")
#: Options that do not change the result.
OUTPUTS = frozenset(
    ["source", "checkpoint", "every", "new_rows", "output", "model", "report", "as_json", "watch"]
)
#: Options that are as good as left out: those of older checkpoints.
DEFAULTS = {"header": True, "on_conflict": "adapt", "decimal": "point"}
#: Options that `open_stream` takes as they are: of its own, and of formats and connections.
READING = {"format", *signature(open_stream).parameters} - {"batch_size"} | {
    name for kind in (*formats().values(), *connections().values()) for name in kind.options
}
#: The order of commands in the help; others follow.
ORDER = ("fit", "predict", "cluster", "inspect", "plan", "demo", "reproduce", "serve")

app = typer.Typer(name="miniamp", no_args_is_help=True)


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
    ] = False,  # read by `main`, so that it works after the command's name too
) -> None:
    """Streaming Bayesian inference by mini-batch approximate message passing."""


def command(*groups: type) -> Callable[[C], C]:
    """Make a function a command: its docstring is the help, its arguments are the options.

    It takes the options of these groups beside its own, and its `**given` gets them. An option of
    its own replaces that of a group.
    """

    def decorated(function: C) -> C:
        found = {
            name: Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=getattr(group, name, Parameter.empty),
                annotation=kind,
            )
            for group in groups
            for name, kind in get_type_hints(group, include_extras=True).items()
        }
        own = signature(function, eval_str=True).parameters.values()
        found |= {p.name: p for p in own if p.kind is not p.VAR_KEYWORD}
        parameters = sorted(found.values(), key=lambda parameter: parameter.kind)
        function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        function.__annotations__ = {p.name: p.annotation for p in parameters}
        # Paragraphs become lines of their own, wrapped to the width of the terminal.
        paragraphs = cleandoc(function.__doc__ or "").split("\n\n")
        help_ = "\n\n".join(" ".join(part.split()) for part in paragraphs)
        app.command(function.__name__, help=help_, cls=_Command)(function)
        return function

    return decorated


def learner(*groups: type) -> Callable[[K], K]:
    """Make a subclass of `learn.Run` a command, executed with the options of these groups."""

    def decorated(kind: K) -> K:
        def start(**given: Any) -> None:
            run = kind(given, options_of(given), reading_options(given))
            with run.meanwhile():
                run.execute()

        start.__name__, start.__doc__ = kind.command, kind.__doc__
        command(*groups)(start)
        return kind

    return decorated


@functools.cache
def program() -> Callable[..., object]:
    """All commands, those of `ORDER` first; the files of this folder have added them."""
    found = {str(one.name): one for one in app.registered_commands}
    app.registered_commands = [found[name] for name in [*ORDER, *sorted({*found} - {*ORDER})]]
    return typer.main.get_command(app)


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
            code = program()(words, prog_name="miniamp", standalone_mode=False)
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
        wrong: list[Options] = getattr(error.__cause__, "errors", list)()
        for one in wrong[:1]:  # newer typers do not show what came
            choices = one["msg"].partition(" is not ")[2].rstrip(".")
            wanted = choices or one["msg"].removeprefix("Input should be ").split(",")[0]
            error.message = f"got {one['input']!r}, expected {wanted}"  # type: ignore[attr-defined]
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


def number(
    low: float,
    high: float = math.inf,
    *,
    closed: bool = False,
    whole: bool = False,
    words: Sequence[str] = (),
) -> Callable[[Any], Any]:
    """A check of options: a number above `low` and below `high`, or at most `high` if `closed`.

    Or a `whole` number of at least `low`; or one of these words.
    """
    bounds = f"above {low:g}" + ("" if high == math.inf else f" and below {high:g}")
    expected = f"a whole number >= {low:g}" if whole else f"a number {bounds}"
    expected = expected.replace("below", "at most") if closed else expected
    expected = f"{', '.join(words)} or {expected}" if words else expected

    def checked(value: Any) -> Any:
        with suppress(ValueError):
            if value is None or value in words:
                return value
            found = int(value) if whole else float(value)
            if low < found < high or (found == low and whole) or (found == high and closed):
                return value
        shown = f"{value:g}" if isinstance(value, float) else repr(value)
        raise typer.BadParameter(f"got {shown}, expected {expected}")

    return checked


def decimal_sign(given: str) -> str:
    """Point or comma, by its name or as it is."""
    sign = {".": "point", ",": "comma"}.get(given, given)
    if sign not in ("point", "comma"):
        raise typer.BadParameter(f"got {given!r}, expected point or comma")
    return sign


def picture(path: Path | None) -> Path | None:
    """The file of a picture, by the ending of its name."""
    if path is not None and path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise typer.BadParameter(f"got {path}, expected .png, .pdf or .svg")
    return path


def separator(given: str | None) -> str | None:
    """The separator of a CSV; a tab may be written with a backslash."""
    return "\t" if given == r"\t" else given


def option(
    default: object, panel: str | None, metavar: str | None, text: str, *names: str, **more: Any
) -> Any:
    """An option; the help shows its default where it has one."""
    shown = default is not None and default is not ...
    return typer.Option(
        default, *names, metavar=metavar, help=text, rich_help_panel=panel,
        show_default=shown, **more,
    )  # fmt: skip


def listed(value: str) -> list[str]:
    """`a,b,c` as a list of names.

    Examples
    --------
    >>> listed("age, city")
    ['age', 'city']
    """
    return [name.strip() for name in value.split(",") if name.strip()]


def pairs(value: str, name: str) -> dict[str, str]:
    """`a=x,b=y` as a dict.

    Examples
    --------
    >>> pairs("city=Rome, color=red", "--reference")
    {'city': 'Rome', 'color': 'red'}
    """
    found = dict(part.partition("=")[::2] for part in listed(value))
    if not all(found.values()):
        raise typer.BadParameter(f"got {value!r}, expected column=value", param_hint=name)
    return found


def column(value: str) -> str | int:
    """A column's name, or its number where it was written as `#3` or `#-1`.

    Examples
    --------
    >>> column("price"), column("#-1")
    ('price', -1)
    """
    if value.startswith("#") and value[1:].removeprefix("-").isdecimal():
        return int(value[1:])
    return value


def options_of(given: Mapping[str, object]) -> Options:
    """The options of a command line that decide about its result; those left out are not there.

    Examples
    --------
    >>> options_of({"source": "a.csv", "columns": "a,b", "header": True, "format_": None})
    {'columns': ['a', 'b']}
    """
    chosen: Options = {}
    for name, value in given.items():
        if value is None or name in OUTPUTS or DEFAULTS.get(name) == value:
            continue
        if isinstance(value, str):
            value = listed(value) if name in LISTS else str(value)
        chosen[name.rstrip("_")] = value
    return chosen


def reading_options(given: Mapping[str, object]) -> Options:
    """The arguments of `open_stream` that options of a command line stand for.

    Examples
    --------
    >>> reading_options({"columns": "a,#2", "hashed": "text=8", "decimal": "comma", "prior": "l1"})
    {'columns': ['a', 2], 'hashed': {'text': 8}, 'decimal': ','}
    """
    chosen = {name: value for name, value in options_of(given).items() if name in READING}
    if "target" in chosen:
        chosen["target"] = column(chosen["target"])
    if "columns" in chosen:
        chosen["columns"] = [column(name) for name in chosen["columns"]]
    if "hashed" in chosen:
        typed = chosen["hashed"]
        bits = pairs(typed, "--hashed")
        if not all(map(str.isdecimal, bits.values())):
            raise typer.BadParameter(f"got {typed!r}, expected name=8", param_hint="--hashed")
        chosen["hashed"] = {name: int(number) for name, number in bits.items()}
    if chosen.get("reference", "first") != "first":
        chosen["reference"] = pairs(chosen["reference"], "--reference")
    return chosen | ({"decimal": ","} if "decimal" in chosen else {})
