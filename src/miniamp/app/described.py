"""The service described: its OpenAPI description, a page made from it, the model."""

from __future__ import annotations

import html
import json
from string import Template
from typing import Any

import numpy as np

from miniamp.app.bodies import ARROW, JSON, Names
from miniamp.estimators.describe import finite
from miniamp.report.page import resource

PATHS = {"/", "/docs", "/health", "/learn", "/metrics", "/model", "/openapi.json", "/predict"}

_NUMBERS = {"type": "array", "items": {"type": "number"}}
_X = {
    "description": "Rows: a list of numbers each, or an object by feature name each.",
    "type": "array",
    "items": {"oneOf": [_NUMBERS, {"type": "object"}]},
}
_LABELS = {"type": "array", "items": {"oneOf": [{"type": "number"}, {"type": "string"}]}}
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The body is not what its content type says."},
    401: {"description": "The token is missing or wrong."},
    409: {"description": "The batch contradicts the model, or its id was used for other rows."},
    413: {"description": "Too many bytes or rows."},
    415: {"description": "Neither JSON nor Arrow, or compressed."},
    422: {"description": "Rows or targets that cannot be used; the message says which and why."},
    429: {"description": "Too much is waiting; try again after `Retry-After` seconds."},
}


def _request(
    properties: dict[str, Any], required: list[str], example: dict[str, Any]
) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "example": example}
    arrow = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}, ARROW: arrow}}}


def _answer(text: str, example: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": text, "content": {JSON: {"example": example}}}, **_ERRORS}


LEARN = _request(
    {
        "X": _X,
        "y": _LABELS,
        "id": {
            "type": "string",
            "description": "A batch that is sent again with the same id is not learned twice. "
            "The header X-Request-Id does the same.",
        },
    },
    ["X", "y"],
    {"X": [[0.5, 1.0], [1.5, -1.0]], "y": [1.2, 0.3], "id": "batch-17"},
)
LEARNED = _answer(
    "The batch is learned and on disk.",
    {"id": "batch-17", "batch": 17, "rows": 2, "rows_seen": 34, "repeated": False},
)
PREDICT = _request(
    {"X": _X, "level": {"type": "number", "description": "Of the interval, 0.9 if left out."}},
    ["X"],
    {"X": [[0.5, 1.0]]},
)
PREDICTED = _answer(
    "Regression: mean, standard deviation and interval. Classification: labels and probabilities.",
    {"mean": [1.1], "std": [0.2], "low": [0.8], "high": [1.4]},
)
MODEL: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Kind, features, rows seen, coefficients and parameters.",
        "content": {JSON: {"example": {"kind": "MiniAMPRegressor", "rows_seen": 34}}},
    }
}


def model(estimator: Any, names: Names) -> dict[str, Any]:
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
            about[name.removesuffix("_")] = np.asarray(getattr(estimator, name)).tolist()
    history = getattr(estimator, "history_", None)
    about["last_batch"] = json.loads(json.dumps(history[-1], default=_plain)) if history else None
    about["health"] = str(getattr(estimator, "health_", "nothing learned yet"))
    return {name: finite(value) for name, value in about.items()}


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def page(api: dict[str, Any]) -> str:
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
