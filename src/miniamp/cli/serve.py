"""`miniamp serve`: learning and prediction over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import miniamp

#: Names of this machine itself.
LOCAL = ["127.0.0.1", "localhost", "::1", "[::1]"]

Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="The model file; made with --new.", show_default=False),
]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is every network.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)]
New = Annotated[
    str | None,
    typer.Option(metavar="TASK", help="Begin a model: regression or classification."),
]
Columns = Annotated[
    str | None, typer.Option(metavar="NAMES", help="With --new: names of the features, a,b,c.")
]
Classes = Annotated[
    str | None, typer.Option(metavar="NAMES", help="With --new classification: all classes.")
]
Prior = Annotated[str, typer.Option(help="With --new: prior of the coefficients.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="MINIAMP_TOKEN", help="Ask clients for this bearer token; better in MINIAMP_TOKEN."
    ),
]
MaxBody = Annotated[int, typer.Option(help="Most bytes of a request.", min=1)]
MaxRows = Annotated[int, typer.Option(help="Most rows of a request.", min=1)]
MaxWaiting = Annotated[int, typer.Option(help="Most batches that wait to be learned.", min=1)]


def serve(
    model: Model,
    host: Host = "127.0.0.1",
    port: Port = 8642,
    new: New = None,
    columns: Columns = None,
    classes: Classes = None,
    prior: Prior = "gaussian",
    token: Token = None,
    max_body: MaxBody = 16 * 2**20,
    max_rows: MaxRows = 100_000,
    max_waiting: MaxWaiting = 64,
) -> None:
    """Learn and predict over HTTP: POST /learn and /predict, GET /model, /health, /metrics, /docs.

    A batch is answered after it is on disk: killed at any moment, the server loses no batch that it
    has acknowledged, and a batch sent again with the same id is not learned twice. One process
    serves a model; Ctrl-C writes the checkpoint.

    Example: miniamp serve houses.amp --port 8642
    """
    from miniamp.app.learner import Learner  # noqa: PLC0415 (optional: the extra app)
    from miniamp.app.service import Limits, run, service  # noqa: PLC0415 (optional: the extra app)

    kinds = {
        "regression": miniamp.MiniAMPRegressor,
        "classification": miniamp.MiniAMPClassifier,
    }
    if new is not None and new not in kinds:
        raise typer.BadParameter(f"--new: got {new!r}, expected {' or '.join(kinds)}")
    stream = {
        name: [each.strip() for each in given.split(",")]
        for name, given in (("names", columns), ("classes", classes))
        if given is not None
    }
    begun = None if new is None else kinds[new](prior=prior)
    learner = Learner(model, begun, stream, waiting=max_waiting)
    hosts = set(LOCAL) if host in LOCAL else None
    limits = Limits(body=max_body, rows=max_rows)
    run(service(learner, token=token or None, limits=limits, hosts=hosts), host, port)
