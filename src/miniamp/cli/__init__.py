"""The command line, `miniamp`: one file a command.

A failure is one line on stderr and an exit code: 1 for something that went wrong, 2 for a command
that was not understood, 130 for an interruption. `--debug`, anywhere, shows the traceback instead.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from miniamp.cli.words import in_options

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
        from miniamp.cli.app import command
    except ModuleNotFoundError as error:
        if debug or error.name not in ("typer", "rich"):
            raise
        return _say(f'the command line needs {error.name}; pip install "miniamp[cli]"', FAILED)
    try:
        with warnings.catch_warnings():
            if not debug:
                _warn_in_one_line()
            code = command(given, prog_name="miniamp", standalone_mode=False)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read the output has enough, as in `miniamp ... | head`
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 (nothing more can be said)
        return FAILED
    except Exception as error:
        if debug:
            raise
        return _report(error)
    return code if isinstance(code, int) else 0


def _warn_in_one_line() -> None:
    """Warnings meant for the user are a line each; what libraries tell programmers is left out."""
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    warnings.simplefilter("default", UserWarning)
    warnings.showwarning = _warn  # called with the place in the code, which users need not see


def _warn(message: Warning | str, *place: object, **more: object) -> None:  # noqa: ARG001
    _say(f"warning: {in_options(str(message))}", 0)


def _report(error: Exception) -> int:
    # Errors of usage come from click, or from the copy that newer typers carry: told by shape.
    explain = getattr(error, "format_message", None)
    if explain is not None:
        return _say(f"{explain()} (see miniamp --help)", MISUSED)
    if type(error).__name__ == "Abort":
        return _say("interrupted", INTERRUPTED)
    return _say(in_options(str(error)) or type(error).__name__, FAILED)


def _say(message: str, code: int) -> int:
    sys.stderr.write(f"miniamp: {' '.join(message.split())}\n")
    return code
