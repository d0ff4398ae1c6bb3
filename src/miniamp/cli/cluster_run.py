"""A run of `miniamp cluster`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import typer

from miniamp.cli.identity import fingerprint
from miniamp.cli.run import Run
from miniamp.streams import StreamBatch


@dataclass
class ClusterRun(Run):
    """A clustering."""

    command = "cluster"

    @classmethod
    def begun(cls, source: str, options: dict[str, Any]) -> Self:
        """A new run."""
        noise_of(options["noise"])
        # The first batch must have a row for every cluster.
        rows = max(options["batch_size"], options["clusters"])
        return cls(source, options, fingerprint(source), rows)

    def told(self) -> str:
        return f"noise {np.mean(self.estimator.noise_):.3g}"

    def _absorb(self, batch: StreamBatch) -> None:
        if self.estimator is not None:
            self.estimator.partial_fit(batch.X)
            return
        from miniamp.estimators import MiniAMPClusterer

        chosen = self.options
        self.estimator = MiniAMPClusterer(
            chosen["clusters"],
            noise=noise_of(chosen["noise"]),
            batch_size=self.batch_rows,
            random_state=chosen["seed"],
        ).partial_fit(batch.X)


def noise_of(given: str) -> str | float:
    """The noise around a centre: learned, one for all features or one each, or a variance."""
    if given in ("learn", "per-feature"):
        return given
    try:
        variance = float(given)
    except ValueError:
        variance = np.nan
    if not 0.0 < variance < float("inf"):
        raise typer.BadParameter(
            f"got {given!r}, expected learn, per-feature or a variance above 0",
            param_hint="--noise",
        )
    return variance
