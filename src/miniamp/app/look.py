"""What the pages have in common: style, colours of figures in light and dark, and a way to run."""

from __future__ import annotations

import sys
from typing import Any

from dash import Dash, Input, Output, dcc, html
from flask import request
from waitress.server import create_server

from miniamp.report.page import resource

#: Names of this machine itself.
LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
#: Seconds between looks at what has changed.
PULSE = 0.25

_STYLE = """
aside { align-self: start; }
.page { display: grid; grid-template-columns: 23rem minmax(0, 1fr); gap: 1rem; margin-top: 1rem; }
.page .cards { margin-top: 0; }
.control { margin-bottom: .9rem; }
.control > label { display: block; font-size: .88rem; color: var(--muted); margin-bottom: .15rem; }
.control select, .control input[type=text], .control input[type=number] { width: 100%; }
select, input[type=text], input[type=number], button {
  font: inherit; color: var(--ink); background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; padding: .35rem .5rem; }
button { cursor: pointer; } button:hover { border-color: var(--accent); }
button:disabled { opacity: .5; cursor: default; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
pre { overflow-x: auto; background: var(--paper); padding: .6rem; border-radius: 6px; }
pre { font-size: .85rem; }
.status { min-height: 1.5rem; color: var(--muted); font-size: .9rem; }
.bad { color: var(--bad); } a { color: var(--accent); }
.dash-slider-mark { color: var(--muted) !important; }
#react-entry-point {
  --Dash-Fill-Interactive-Strong: var(--accent); --Dash-Fill-Inverse-Strong: var(--card);
  --Dash-Text-Strong: var(--ink); --Dash-Text-Primary: var(--ink); --Dash-Text-Weak: var(--muted);
  --Dash-Stroke-Strong: var(--line); --Dash-Stroke-Weak: var(--line);
  --Dash-Fill-Disabled: var(--line); --Dash-Fill-Primary-Hover: var(--line);
  --Dash-Fill-Primary-Active: var(--line); }
.dash-slider-container { padding: 0; }
@media (max-width: 760px) { .page { grid-template-columns: minmax(0, 1fr); } }
"""

_SCRIPT = """
window.dash_clientside = Object.assign({}, window.dash_clientside, { miniamp: {
  draw: function (figures, theme) {
    const palette = PALETTES[theme || "light"];
    const plots = figures || [];
    if (!plots.length) throw window.dash_clientside.PreventUpdate;
    return plots.map((figure) => {
      if (!figure || !figure.layout) return window.dash_clientside.no_update;
      const { data, layout } = coloured(figure, "", palette);
      const font = { color: palette.ink };
      layout.hoverlabel = { ...layout.hoverlabel, bgcolor: palette.hover, font };
      layout.template = {};
      layout.uirevision = "kept";
      return { data, layout };
    });
  },
  theme: function () {
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const name = () => (dark.matches ? "dark" : "light");
    dark.onchange = () => window.dash_clientside.set_props("theme", { data: name() });
    return name();
  },
  link: function (query) {
    if (query) window.history.replaceState(null, "", window.location.pathname + query);
    return window.location.href;
  },
} });
"""


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
    app.index_string = f"""<!DOCTYPE html>
<html lang="en">
<head>
{{%metas%}}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{%title%}}</title>
<link rel="icon" href="data:,">
{{%css%}}
<style>{resource("page.css")}{_STYLE}</style>
</head>
<body>
{{%app_entry%}}
<footer style="display: none">
{{%config%}}
<script>{resource("shared.js")}{_SCRIPT}</script>
{{%scripts%}}
{{%renderer%}}
</footer>
</body>
</html>"""
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
