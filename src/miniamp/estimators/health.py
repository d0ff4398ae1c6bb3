"""Health of a stream: what happens against what should, and what to do where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class HealthWarning(UserWarning):
    """The model does not describe the stream; the message says in which way, and what to do."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    kind: str
    message: str
    remedy: str


@dataclass(frozen=True)
class HealthReport:
    """All that is wrong; empty when all is well."""

    findings: tuple[Finding, ...] = ()


def diagnose(history: Sequence[dict[str, Any]]) -> HealthReport:
    """What the history of a stream shows."""
    return HealthReport()
