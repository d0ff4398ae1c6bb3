"""`miniamp watch`: the report of a model, alive, while another process learns."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from miniamp.app.server import page
from miniamp.errors import MiniampError
from miniamp.estimators import load
from miniamp.report.chart import plotly, safe
from miniamp.report.facts import Facts
from miniamp.report.page import above, below, card, charts


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


def application(path: Path) -> FastAPI:
    """The page of a model file."""
    watched = Watched(path)
    app = page("watch.html", "draw.js", "live.js", name=safe(path.name))

    @app.get("/state")
    def state(token: str = "") -> dict[str, Any]:
        return watched.news(token)

    return app
