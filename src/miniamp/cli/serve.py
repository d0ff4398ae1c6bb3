"""`miniamp serve`, `watch` and `explore`: a model over HTTP, and pages in the browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

import miniamp
from miniamp.cli.app import command, listed, option
from miniamp.cli.options import ModelFile

Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="The model file; made with --new.", show_default=False),
]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all networks.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)]


class ServeOptions:
    """Options of `serve` alone."""

    new: str | None = option(None, None, "TASK", "Create a model: regression or classification.")
    columns: str | None = option(None, None, "NAMES", "With --new: names of the features, a,b,c.")
    classes: str | None = option(None, None, "NAMES", "With --new classification: all classes.")
    prior: str = option("gaussian", None, None, "With --new: prior of the coefficients.")
    token: str | None = option(
        None, None, None, "Ask clients for this bearer token; better in MINIAMP_TOKEN.",
        envvar="MINIAMP_TOKEN",
    )  # fmt: skip
    max_body: int = option(16 * 2**20, None, None, "Maximum bytes of a request.", min=1)
    max_rows: int = option(100_000, None, None, "Maximum rows of a request.", min=1)
    max_waiting: int = option(64, None, None, "Maximum number of waiting batches.", min=1)


@command(ServeOptions)
def serve(model: Model, host: Host = "127.0.0.1", port: Port = 8642, **given: Any) -> None:
    """Learn and predict over HTTP: POST /learn and /predict, GET /model, /health, /metrics, /docs.

    A batch is answered after it is on disk: killed at any moment, the server loses no batch that it
    has acknowledged, and a batch sent again with the same id is not learned twice. One process
    serves a model; Ctrl-C writes the checkpoint.

    Example: miniamp serve houses.amp --port 8642
    """
    from miniamp.app.learner import Learner  # noqa: PLC0415 (optional: the extra app)
    from miniamp.app.server import run  # noqa: PLC0415 (the same)
    from miniamp.app.service import Limits, service  # noqa: PLC0415 (the same)

    kinds = {"regression": miniamp.MiniAMPRegressor, "classification": miniamp.MiniAMPClassifier}
    new = given["new"]
    if new is not None and new not in kinds:
        raise typer.BadParameter(f"--new: got {new!r}, expected {' or '.join(kinds)}")
    lists = {"names": given["columns"], "classes": given["classes"]}
    stream = {name: listed(value) for name, value in lists.items() if value is not None}
    begun = None if new is None else kinds[new](prior=given["prior"])
    learner = Learner(model, begun, stream, waiting=given["max_waiting"])
    limits = Limits(body=given["max_body"], rows=given["max_rows"])
    run(service(learner, token=given["token"] or None, limits=limits), host, port)


@command()
def watch(model: ModelFile, host: Host = "127.0.0.1", port: Port = 8644) -> None:
    """Show the report of a model in the browser, and update it while the model is fitted.

    It reads the file that fit writes to --checkpoint, or that serve keeps, and never writes: the
    fit is neither slowed nor stopped by it. The file need not exist yet.

    Example: miniamp watch houses.amp --port 8644
    """
    from miniamp.app.server import run  # noqa: PLC0415 (optional: the extra app)
    from miniamp.app.watcher import application  # noqa: PLC0415 (the same)

    if hasattr(os, "nice"):
        os.nice(10)  # the learner comes first
    run(application(model), host, port)


@command()
def explore(host: Host = "127.0.0.1", port: Port = 8643) -> None:
    """Explore in the browser how fast the error will fall, before there are any data.

    Choose prior, noise, channel, design and batches; see the learning curve, its limits, the
    landscape and the phase diagram at once, and run a simulation beside them. The address in the
    browser holds the whole state.

    Example: miniamp explore --port 8643
    """
    from miniamp.app.explorer import application  # noqa: PLC0415 (optional: the extra app)
    from miniamp.app.server import run  # noqa: PLC0415 (the same)

    run(application(), host, port)
