"""`miniamp watch`: the report of a model, alive, while another process learns."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from string import Template
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from starlette.middleware.trustedhost import TrustedHostMiddleware

from miniamp.errors import MiniampError
from miniamp.estimators import load
from miniamp.report.chart import plotly, safe
from miniamp.report.facts import Facts
from miniamp.report.page import above, below, card, charts, plotly_source, resource

#: Only scripts of this server run, whatever a feature is called.
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:"


class Watched:
    """A model file that another process writes, as a page shows it.

    The file is only ever read, and only when it has changed. A file that is missing or cannot be
    read is reported, and what was shown before stays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._news: dict[str, Any] = {"token": "", "status": ""}
        self._changed = time.time()

    def news(self, token: str) -> dict[str, Any]:
        """What the page needs: everything if it does not have the latest, else the status alone."""
        with self._lock:
            problem = self._refresh()
            news = self._news
        age = max(0, round(time.time() - self._changed))
        status = problem or f"updated {age} s ago"
        if news["token"] == token or not news["token"]:
            return {"token": news["token"], "status": status}
        return {**news, "status": status}

    def _refresh(self) -> str:
        """Read the file if it has changed; what is wrong with it, or nothing."""
        try:
            found = self.path.stat()
        except OSError:
            return f"waiting for {self.path.name}"
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp == self._stamp:
            return ""
        try:
            self._news = {**page_of(load(self.path)), "token": "-".join(map(str, stamp))}
        except MiniampError as error:
            return str(error)
        self._stamp, self._changed = stamp, found.st_mtime
        return ""


def page_of(estimator: object) -> dict[str, Any]:
    """The parts of a report that change while a stream is learned."""
    facts = Facts.of(estimator)
    drawn = charts(facts)
    return {
        "above": above(facts),
        "below": below(facts),
        "cards": "\n".join(card(chart, i) for i, chart in enumerate(drawn)),
        "titles": [chart.title for chart in drawn],
        "figures": [plotly(chart) for chart in drawn],
    }


def application(path: Path, hosts: list[str] | None = None) -> FastAPI:
    """The page of a model file."""
    watched = Watched(path)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    if hosts is not None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)
    scripts = {
        "plotly.js": plotly_source(),
        "shared.js": resource("shared.js"),
        "live.js": resource("live.js", "app"),
    }
    template = Template(resource("watch.html", "app"))

    @app.get("/")
    def page() -> HTMLResponse:
        text = template.substitute(name=safe(path.name), style=resource("page.css"))
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})

    @app.get("/state")
    def state(token: str = "") -> dict[str, Any]:
        return watched.news(token)

    @app.get("/{name}.js")
    def script(name: str) -> Response:
        text = scripts.get(f"{name}.js")
        if text is None:
            return Response(status_code=404)
        return Response(
            text, media_type="text/javascript", headers={"Cache-Control": "max-age=600"}
        )

    return app
