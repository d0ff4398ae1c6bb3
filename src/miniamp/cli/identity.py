"""What a run is of: its options and its source, so that it is never taken up with others."""

from __future__ import annotations

import hashlib
from typing import Any

from miniamp.errors import InvalidInputError
from miniamp.streams.sources import find_files

#: Bytes of the first file that are looked at. A file may grow at its end, or be put right in the
#: rows that were not read yet, and is still the same.
LOOKED_AT = 4096


def fingerprint(source: str) -> list[dict[str, Any]]:
    """The name of each file of the source, and of the first the checksum of its first bytes."""
    if source == "-":
        return []
    first, *others = find_files(source)
    with first.open("rb") as file:
        head = file.read(LOOKED_AT)
    beginning = {"name": first.name, "bytes": len(head), "sha256": _sum(head)}
    return [beginning, *({"name": path.name} for path in others)]


def require_same_source(path: object, source: str, saved: dict[str, Any]) -> None:
    """Refuse a source that is not the one of the checkpoint, as far as its beginning shows."""
    if source == "-" or saved["source"] == "-":
        same = source == saved["source"]
    else:
        same = _extends(source, saved["files"])
    if not same:
        raise InvalidInputError(
            f"{path}: was begun with other rows ({_named(saved['source'])}) than those of "
            f"{_named(source)}; give the same source to go on, --new-rows to learn from this one "
            "too, or another --checkpoint to begin anew"
        )


def _extends(source: str, files: list[dict[str, Any]]) -> bool:
    """Whether the source begins with what was there before."""
    paths = find_files(source)
    with paths[0].open("rb") as file:
        head = file.read(files[0]["bytes"])
    # A lone file may be moved; among several the name decides the order.
    names = [path.name for path in paths[: len(files)]]
    ordered = len(files) == 1 or names == [before["name"] for before in files]
    return ordered and _sum(head) == files[0]["sha256"]


def require_same_options(path: object, options: dict[str, Any], saved: dict[str, Any]) -> None:
    """Refuse options that are not those of the checkpoint, naming the first that differs."""
    for name in {**saved, **options}:
        was, now = saved.get(name), options.get(name)
        if was != now:
            raise InvalidInputError(
                f"{path}: was begun with {_option(name, was)}, not {_option(name, now)}; use the "
                "same options to go on, or another --checkpoint to begin anew"
            )


def _option(name: str, value: Any) -> str:
    flag = f"--{name.replace('_', '-')}"
    if value is None:
        return f"no {flag}"
    if isinstance(value, bool):
        return flag if value else f"no {flag}"
    return f"{flag} {','.join(value) if isinstance(value, list) else value}"


def _named(source: str) -> str:
    return "standard input" if source == "-" else source


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
