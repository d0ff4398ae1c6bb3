"""`miniamp explore`: the theory in the browser."""

from __future__ import annotations

from miniamp.cli.serve import Host, Port


def explore(host: Host = "127.0.0.1", port: Port = 8643) -> None:
    """Explore in the browser what Mini-AMP will do, before it has seen a row.

    Choose prior, noise, channel, design and batches; see the learning curve, its limits, the
    landscape and the phase diagram at once, and run a simulation beside them. The address in the
    browser holds the whole state.

    Example: miniamp explore --port 8643
    """
    from miniamp.app.explorer import application  # noqa: PLC0415 (optional: the extra app)
    from miniamp.app.layout import run  # noqa: PLC0415 (optional: the extra app)

    run(application(), host, port)
