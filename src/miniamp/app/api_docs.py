"""What the service reports about itself: its OpenAPI description, a page of it, the model."""

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
