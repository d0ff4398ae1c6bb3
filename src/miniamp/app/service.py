"""A model over HTTP: learning, prediction, metrics, and what it reports about itself."""

from __future__ import annotations

import asyncio
import hmac
import html
import json
import time
import uuid
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sklearn.exceptions import NotFittedError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import miniamp
from miniamp.app.bodies import (
    ARROW,
    JSON,
    FormatError,
    Names,
    RequestRows,
    TooManyRowsError,
    parsed,
)
from miniamp.app.learner import BusyError, Learner, ReusedError
from miniamp.app.server import Gate, refusal
from miniamp.errors import ConflictError, InvalidInputError, MiniampError, typed
from miniamp.estimators.describe import finite, nameless
from miniamp.report.page import resource

#: Status of an error, most special first.
STATUS: tuple[tuple[type[Exception], int], ...] = (
    (BusyError, 429),
    (ReusedError, 409),
    (ConflictError, 409),
    (TooManyRowsError, 413),
    (FormatError, 400),
    (InvalidInputError, 422),
)
#: Seconds a client may take to send a body.
PATIENCE = 30.0
#: Seconds a client that was turned away should wait.
RETRY_AFTER = "1"


PATHS = {"/", "/docs", "/health", "/learn", "/metrics", "/model", "/openapi.json", "/predict"}

_PARTS: dict[str, Any] = json.loads(resource("service.json", "app"))


def _request(name: str) -> dict[str, Any]:
    schema = {"type": "object", **_PARTS[name]}
    arrow = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}, ARROW: arrow}}}


def _answer(name: str) -> dict[int | str, dict[str, Any]]:
    part = _PARTS[name]
    return {200: {"description": part["text"], "content": {JSON: {"example": part["example"]}}}}


_ERRORS: dict[int | str, dict[str, Any]] = {
    int(status): {"description": text} for status, text in _PARTS["errors"].items()
}
LEARN, LEARNED = _request("learn"), _answer("learned") | _ERRORS
PREDICT, PREDICTED = _request("predict"), _answer("predicted") | _ERRORS
MODEL = _answer("model")


@dataclass(frozen=True)
class Limits:
    """Limits of the requests that a server accepts."""

    body: int = 16 * 2**20  #: bytes of a request
    rows: int = 100_000  #: rows of a request
    requests: int = 64  #: requests at the same time


def service(
    learner: Learner,
    *,
    token: str | None = None,
    limits: Limits | None = None,
) -> FastAPI:
    """The application that serves a learner's model; the learner is stopped with it.

    Clients must send a token as `Authorization: Bearer <token>`.
    """
    limits = limits or Limits()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> Any:
        yield
        await run_in_threadpool(learner.stop)

    app = FastAPI(
        title="miniamp",
        version=miniamp.__version__,
        description="Learn from batches of rows and predict, with error bars.",
        docs_url=None,  # its scripts come from a network; ours is plain HTML
        redoc_url=None,
        lifespan=lifespan,
    )
    metrics = Metrics(learner)
    bearer = None if token is None else f"Bearer {token}".encode()

    def refused(given: Headers) -> Response | None:
        """What every request passes first: how many at a time, the token."""
        if metrics.now > limits.requests:
            return refusal("too many requests at once", 429, {"Retry-After": RETRY_AFTER})
        if bearer is not None and not hmac.compare_digest(
            given.get("authorization", "").encode("latin-1"), bearer
        ):
            return refusal(
                "token: expected Authorization: Bearer ...", 401, {"WWW-Authenticate": "Bearer"}
            )
        return None

    app.add_middleware(Guard, refused=refused, metrics=metrics)
    for error in (MiniampError, NotFittedError, ValueError, HTTPException):
        app.add_exception_handler(error, _refusal)

    async def rows_of(request: Request) -> RequestRows:
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind not in (JSON, ARROW):
            raise HTTPException(415, f"content type: expected {JSON} or {ARROW}")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HTTPException(415, "content encoding: expected none")
        content = await _body(request, limits.body)
        names = names_of(learner)
        return await run_in_threadpool(parsed, content, kind, names, limits.rows)

    @app.post("/learn", openapi_extra=LEARN, responses=LEARNED)
    async def learn(request: Request) -> JSONResponse:
        """Learn one batch; answered when the batch is on disk."""
        rows = await rows_of(request)
        if rows.y is None:
            raise InvalidInputError("y", "nothing", "one target per row", "send y")
        name = request.headers.get("x-request-id") or rows.request or uuid.uuid4().hex
        if len(name) > 200:
            raise InvalidInputError("x-request-id", "", "at most 200 characters", "shorten it")
        answer = await asyncio.wrap_future(learner.submit(name, rows.digest, rows.X, rows.y))
        metrics.rows.labels("learn").inc(0 if answer.repeated else answer.rows)
        return JSONResponse(answer._asdict())

    @app.post("/predict", openapi_extra=PREDICT, responses=PREDICTED)
    async def predict(request: Request) -> JSONResponse:
        """Predict rows with the latest model."""
        rows = await rows_of(request)
        answer = await run_in_threadpool(predictions, learner.model, rows)
        metrics.rows.labels("predict").inc(len(rows.X))
        return JSONResponse(answer)

    @app.get("/model", responses=MODEL)
    async def model() -> JSONResponse:
        """What the model is and what it has learned."""
        return JSONResponse(await run_in_threadpool(described, learner.model, names_of(learner)))

    @app.get("/health")
    async def health() -> JSONResponse:
        """Whether batches are being learned, and what is wrong with the stream, if anything."""
        found = str(getattr(learner.model, "health_", "nothing learned yet"))
        about = {"status": "ok" if learner.alive else "stopped", "stream": found}
        more = {"batches": learner.batches, "waiting": learner.depth, "refused": learner.refused}
        return JSONResponse({**about, **more}, 200 if learner.alive else 503)

    @app.get("/metrics")
    async def prometheus() -> PlainTextResponse:
        """Numbers for Prometheus."""
        return PlainTextResponse(
            generate_latest(metrics.registry), media_type="text/plain; version=0.0.4"
        )

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(documented(app.openapi()))

    return app


def names_of(learner: Learner) -> Names:
    """What the model's columns are called."""
    features = getattr(learner.model, "feature_names_in_", learner.stream.get("names", ()))
    options = learner.stream.get("options") or {}
    target = str(options.get("target") or "y")
    return Names(tuple(map(str, features)), target, learner.stream.get("reading"))


def predictions(model: Any, rows: RequestRows) -> dict[str, Any]:
    """The predictions of a model for rows, as plain values."""
    X = rows.X
    if hasattr(model, "feature_names_in_"):
        # The names were matched already; the estimator would require a data frame.
        model = nameless(model)
    if hasattr(model, "predict_proba"):
        chances = model.predict_proba(X)
        classes = np.asarray(getattr(model, "classes_", range(chances.shape[1])))
        return {
            "label": classes[chances.argmax(axis=1)].tolist(),
            "classes": classes.tolist(),
            "probabilities": chances.tolist(),
        }
    if not hasattr(model, "predict_interval"):
        return {"label": model.predict(X).tolist()}
    mean, std = model.predict(X, return_std=True)
    low, high = model.predict_interval(X, level=rows.level)
    found = {"mean": mean, "std": std, "low": low, "high": high}
    return {name: values.tolist() for name, values in found.items()}


async def _body(request: Request, most: int) -> bytes:
    """The body, refused as soon as it is too large or takes too long."""
    too_large = HTTPException(413, f"body: expected at most {most:,} bytes; send it in parts")
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared[:20]) > most:
        raise too_large
    content = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                content += chunk
                if len(content) > most:
                    raise too_large
    except TimeoutError:
        raise HTTPException(408, f"body: expected within {PATIENCE:g} s") from None
    return bytes(content)


async def _refusal(_: Request, error: Exception) -> Response:
    """An error as JSON, with its fields."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": {"message": error.detail}}, error.status_code)
    if isinstance(error, NotFittedError):
        return JSONResponse({"error": {"message": "nothing learned yet; POST /learn first"}}, 409)
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 422)
    fields = {
        name: typed(getattr(error, name), "python")
        for name in ("argument", "received", "expected", "remedy")
        if hasattr(error, name)
    }
    headers = {"Retry-After": RETRY_AFTER} if status == 429 else None
    return JSONResponse({"error": {"message": str(error), **fields}}, status, headers)


class Metrics:
    """Numbers for Prometheus."""

    def __init__(self, learner: Learner) -> None:
        self.now = 0  #: requests that are being answered
        self.registry = CollectorRegistry()
        own = self.registry
        self.requests = Counter(
            "miniamp_requests", "Requests by path and status.", ["path", "status"], registry=own
        )
        self.seconds = Histogram(
            "miniamp_request_seconds", "Time to answer.", ["path"], registry=own
        )
        self.rows = Counter("miniamp_rows", "Rows by what was done.", ["done"], registry=own)

        def add(name: str, text: str, value: Callable[[], float]) -> None:
            Gauge(f"miniamp_{name}", text, registry=own).set_function(value)

        add(
            "rows_seen",
            "Rows the model has learned.",
            lambda: getattr(learner.model, "n_samples_seen_", 0),  # the model is replaced
        )
        add("batches", "Batches the model has learned.", lambda: learner.batches)
        add("refused_batches", "Batches refused since the start.", lambda: learner.refused)
        add("waiting_batches", "Batches that wait.", lambda: learner.depth)
        add("log_bytes", "Size of the log behind the checkpoint.", lambda: learner.log_bytes)
        add("checkpoint_age_seconds", "Age of the checkpoint.", lambda: time.time() - learner.saved)


class Guard(Gate):
    """A gate that counts requests and takes their time."""

    def __init__(
        self, app: ASGIApp, refused: Callable[[Headers], Response | None], metrics: Metrics
    ) -> None:
        super().__init__(app, refused)
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        found = scope.get("path", "")
        path = found if found in PATHS else "other"

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.metrics.requests.labels(path, message["status"]).inc()
            await send(message)

        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        self.metrics.now += 1
        try:
            with self.metrics.seconds.labels(path).time():
                await super().__call__(scope, receive, observed)
        finally:
            self.metrics.now -= 1


def described(estimator: Any, names: Names) -> dict[str, Any]:
    """An estimator as plain values."""
    about: dict[str, Any] = {
        "kind": type(estimator).__name__,
        "features": list(names.features),
        "columns": list(names.columns),
        "target": names.target,
        "rows_seen": int(getattr(estimator, "n_samples_seen_", 0)),
        "n_features": int(getattr(estimator, "n_features_in_", 0)),
    }
    for name in ("coef_", "coef_std_", "intercept_", "classes_"):
        if hasattr(estimator, name):
            about[name.removesuffix("_")] = np.asarray(getattr(estimator, name))
    history = getattr(estimator, "history_", None)
    about["last_batch"] = history[-1] if history else None
    about["health"] = str(getattr(estimator, "health_", "nothing learned yet"))
    return {name: finite(value) for name, value in about.items()}


def documented(api: dict[str, Any]) -> str:
    """The OpenAPI description as a page without scripts."""
    sections = [
        _section(path, method, about)
        for path, methods in sorted(api["paths"].items())
        for method, about in methods.items()
    ]
    return Template(resource("service.html", "app")).substitute(
        title=html.escape(f"{api['info']['title']} {api['info']['version']}"),
        about=html.escape(api["info"]["description"]),
        sections="".join(sections),
    )


def _section(path: str, method: str, about: dict[str, Any]) -> str:
    text = f"<section><h2><code class='{method}'>{method.upper()}</code> <code>{path}</code></h2>"
    text += f"<p>{html.escape(about.get('description', ''))}</p>"
    body = about.get("requestBody", {}).get("content", {})
    if JSON in body:
        schema = body[JSON]["schema"]
        text += f"<p>Send {' or '.join(f'<code>{kind}</code>' for kind in body)}:</p>"
        text += f"<pre>{html.escape(json.dumps(schema['example']))}</pre><table>"
        for name, each in schema["properties"].items():
            words = html.escape(each.get("description", "Targets, one per row."))
            text += f"<tr><td><code>{name}</code></td><td>{words}</td></tr>"
        text += "</table>"
    text += "<table>"
    for status, answer in about.get("responses", {}).items():
        text += f"<tr><td><code>{status}</code></td><td>{html.escape(answer['description'])}"
        example = answer.get("content", {}).get(JSON, {}).get("example")
        if example:
            text += f"<pre>{html.escape(json.dumps(example))}</pre>"
        text += "</td></tr>"
    return text + "</table></section>"
