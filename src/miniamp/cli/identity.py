"""What a run is of: its options and its source, so that it is never taken up with others."""

from __future__ import annotations

import hashlib
from typing import Any

from miniamp.errors import InvalidInput
from miniamp.streams.files import found

#: Bytes of each file that are looked at. A file may grow at its end and is still the same.
LOOKED_AT = 1 << 16


def fingerprint(source: str) -> list[dict[str, Any]]:
    """Of each file of the source: its name, and the checksum of its first bytes."""
    if source == "-":
        return []
    prints = []
    for path in found(source):
        with path.open("rb") as file:
            head = file.read(LOOKED_AT)
        prints.append({"name": path.name, "bytes": len(head), "sha256": _sum(head)})
    return prints


def require_same_source(path: object, source: str, saved: dict[str, Any]) -> None:
    """Refuse a source that is not the one of the checkpoint, as far as its beginning shows."""
    if source == "-" or saved["source"] == "-":
        same = source == saved["source"]
    else:
        same = _extends(source, saved["files"])
    if not same:
        raise InvalidInput(
            f"{path}: was begun with other rows ({_named(saved['source'])}) than those of "
            f"{_named(source)}; give the same source to go on, --new-rows to learn from this one "
            "too, or another --checkpoint to begin anew"
        )


def _extends(source: str, files: list[dict[str, Any]]) -> bool:
    """Whether the source begins with what was there before."""
    paths = found(source)
    if len(paths) < len(files):
        return False
    for path, before in zip(paths, files, strict=False):
        with path.open("rb") as file:
            head = file.read(before["bytes"])
        # A lone file may be moved; among several the name decides the order.
        moved = len(files) > 1 and path.name != before["name"]
        if moved or _sum(head) != before["sha256"]:
            return False
    return True


def require_same_options(path: object, options: dict[str, Any], saved: dict[str, Any]) -> None:
    """Refuse options that are not those of the checkpoint, naming the first that differs."""
    for name in {**saved, **options}:
        was, now = saved.get(name), options.get(name)
        if was != now:
            raise InvalidInput(
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
