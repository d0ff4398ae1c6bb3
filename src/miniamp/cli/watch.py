"""`miniamp watch`: a stream while it is learned."""

from __future__ import annotations

import os

from miniamp.cli.options import ModelFile
from miniamp.cli.serve import LOCAL, Host, Port


def watch(model: ModelFile, host: Host = "127.0.0.1", port: Port = 8644) -> None:
    """Show in the browser how a model is learned: the report, brought up to date as it changes.

    It reads the file that fit writes to --checkpoint, or that serve keeps, and never writes: the
    learner is neither slowed nor stopped by it. The file need not be there yet.

    Example: miniamp watch houses.amp --port 8644
    """
    from miniamp.app.service import run  # noqa: PLC0415 (optional: the extra app)
    from miniamp.app.watcher import application  # noqa: PLC0415 (the same)

    if hasattr(os, "nice"):
        os.nice(10)  # the learner comes first
    run(application(model, LOCAL if host in LOCAL else None), host, port)
