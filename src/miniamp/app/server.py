"""What the service and the pages in the browser share: a server, and how a page is made."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from string import Template

import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from miniamp import checks
from miniamp.report.page import plotly_source, resource

#: Names of this machine itself.
LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
#: Only scripts of this server run, whatever a feature is called.
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:"


def page(template: str, *scripts: str, **parts: str) -> FastAPI:
    """An application with one page in the style of the reports, which loads nothing from a network.

    The template gets `style` and the parts; it finds plotly.js, shared.js and these scripts.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    text = Template(resource(template, "app")).substitute(style=resource("page.css"), **parts)
    found = {"plotly.js": plotly_source(), "shared.js": resource("shared.js")}
    found |= {name: resource(name, "app") for name in scripts}

    @app.get("/")
    def whole() -> HTMLResponse:
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})

    @app.get("/{name}.js")
    def script(name: str) -> Response:
        if f"{name}.js" not in found:
            return Response(status_code=404)
        headers = {"Cache-Control": "max-age=600"}
        return Response(found[f"{name}.js"], media_type="text/javascript", headers=headers)

    return app


class Gate:
    """Lets requests pass to an application, but those that are refused by their headers.

    Starlette's own middleware of functions took 0.3 ms of CPU per request, a quarter of an answer.
    """

    def __init__(self, app: ASGIApp, refused: Callable[[Headers], Response | None]) -> None:
        self.app, self.refused = app, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        answer = self.refused(Headers(scope=scope)) if scope["type"] == "http" else None
        await (answer or self.app)(scope, receive, send)


def only_local(app: FastAPI) -> FastAPI:
    """The application, which now refuses what pages of other sites could send to this machine.

    They could reach it under a name of their own, or have a reader's browser ask it.
    """

    def foreign(given: Headers) -> Response | None:
        if given.get("host", "").rsplit(":", 1)[0] not in LOCAL:
            return refusal("this server is not known under that host name", 421)
        if (
            given.get("sec-fetch-site") == "cross-site"
            and given.get("sec-fetch-mode") != "navigate"
        ):
            return refusal("this server answers to its own pages only", 403)
        return None

    app.add_middleware(Gate, refused=foreign)
    return app


def refusal(message: str, status: int, headers: dict[str, str] | None = None) -> Response:
    """An error as JSON."""
    return JSONResponse({"error": {"message": message}}, status, headers)


def run(app: FastAPI, host: str, port: int) -> None:
    """Serve until interrupted; port 0 takes a free one."""
    app = only_local(app) if host in LOCAL else app
    config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none")
    with listening(host, port) as place:
        shown = f"[{host}]" if ":" in host else host
        sys.stdout.write(f"listening on http://{shown}:{place.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(config).run(sockets=[place])


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    With its protocol named, asyncio sends answers at once; without, each waits 40 ms for the client
    to acknowledge the part before (Nagle's algorithm against delayed acknowledgement).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise checks.refuse(
            "host, port", f"{host}, {port} ({error.strerror})", "a free port", "choose {port=0}"
        ) from None
    return made
