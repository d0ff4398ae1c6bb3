"""The command line, `miniamp`: one file per command.

A failure is one line on stderr and an exit code: 1 for something that went wrong, 2 for a command
that was not understood, 130 for an interruption. `--debug`, anywhere, shows the traceback instead.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from miniamp.errors import MiniampError, MiniampWarning, printable

__all__ = ["main"]

FAILED, MISUSED, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Examples
    --------
    >>> main(["--version"])
    miniamp ...
    0
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [word for word in given if word != "--debug"]
    try:
        from miniamp.cli.app import command  # noqa: PLC0415 (optional: typer may be missing)
    except ModuleNotFoundError as error:
        if debug or error.name not in ("typer", "rich"):
            raise
        return _report(f'the command line needs {error.name}; pip install "miniamp[cli]"', FAILED)
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.resetwarnings()
                warnings.simplefilter("ignore")  # what libraries tell programmers
                warnings.simplefilter("default", UserWarning)
                warnings.showwarning = _warn
            code = command(given, prog_name="miniamp", standalone_mode=False)
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
