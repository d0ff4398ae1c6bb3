"""The layout of the explorer: style, figures in light and dark colours, and its server."""

from __future__ import annotations

import sys
from string import Template
from typing import Any

from dash import Dash, Input, Output, dcc, html
from flask import request
from waitress.server import create_server

from miniamp.report.page import resource

#: Names of this machine itself.
LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
#: Seconds between looks at what has changed.
PULSE = 0.25


def page(title: str) -> Dash:
    """An empty page in the style of the reports, which loads nothing from a network."""
    app = Dash(
        __name__,
        title=title,
        update_title=None,
        serve_locally=True,
        assets_folder="",
        include_assets_files=False,
        suppress_callback_exceptions=True,
    )
    app.index_string = Template(resource("explore.html", "app")).substitute(
        style=resource("page.css") + resource("explore.css", "app"),
        script=resource("shared.js") + resource("explore.js", "app"),
    )
    return app


def figures(app: Dash, number: int) -> list[Any]:
    """The components that draw figures: the store "figures" holds them without colours."""
    app.clientside_callback(
        "window.dash_clientside.miniamp.theme", Output("theme", "data"), Input("theme", "id")
    )
    app.clientside_callback(
        "window.dash_clientside.miniamp.draw",
        [Output(f"plot{i}", "figure") for i in range(number)],
        Input("figures", "data"),
        Input("theme", "data"),
    )
    return [dcc.Store("theme"), dcc.Store("figures"), dcc.Interval("pulse", 1000 * PULSE)]


def plot(i: int, title: str, words: str, wide: bool = False) -> html.Section:
    """A card with the i-th figure."""
    return html.Section(
        [html.H2(title), html.P(words, className="words"), graph(i)],
        className="card wide" if wide else "card",
    )


def graph(i: int) -> dcc.Graph:
    """The i-th figure."""
    empty: dict[str, Any] = {
        "data": [],
        "layout": {
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": {"visible": False},
            "yaxis": {"visible": False},
            "height": 340,
            "template": {},
        },
    }
    config = {"displayModeBar": False, "displaylogo": False, "responsive": True}
    return dcc.Graph(id=f"plot{i}", figure=empty, config=config)


def run(app: Dash, host: str, port: int) -> None:
    """Serve a page until interrupted; port 0 takes a free one."""
    server = app.server
    if host in LOCAL:

        @server.before_request
        def known_host() -> tuple[str, int] | None:
            """Refuse other names: a page on the network could reach this one under its own."""
            name = request.host.rsplit(":", 1)[0]
            return None if name in LOCAL else ("this server is not known under that name", 421)

    made = create_server(server, host=host, port=port, threads=8, ident="miniamp")
    announce(host, made.effective_port)
    made.run()


def announce(host: str, port: int) -> None:
    """Say where a server listens."""
    sys.stdout.write(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}\n")
    sys.stdout.flush()
