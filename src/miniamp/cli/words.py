"""What the library says in Python, in the words of the command line."""

from __future__ import annotations

import re

_OPTIONS = "missing|unknown|format|solver|prior|task|columns|categorical|noise|memory|forget"
_PYTHON = re.compile(rf"\b({_OPTIONS})=(?:'(\w+)'|(\d(?:[\d.e+-]*\d)?)|\[\.\.\.\])?")


def in_options(message: str) -> str:
    """A message with --missing mean for missing='mean'.

    Examples
    --------
    >>> in_options("Use noise='learn', or forget=0.9; fill it with missing='mean'.")
    'Use --noise learn, or --forget 0.9; fill it with --missing mean.'
    """
    message = message.replace("name all categories in schema={...}, or count", "count")
    message = message.replace("noise=channels.StudentT(...)", "--noise student-t:df=4")

    def option(found: re.Match[str]) -> str:
        value = found[2] or found[3]
        return f"--{found[1]}" + (f" {value}" if value else "")

    return _PYTHON.sub(option, message)
