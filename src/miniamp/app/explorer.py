"""`miniamp explore`: the theory, at once, while sliders move."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from fastapi import FastAPI, Request

from miniamp import channels, priors
from miniamp.app import question as asked
from miniamp.app.question import COARSE, DESIGNS, DIAGRAM, FEATURES, FINE, Question, Simulation
from miniamp.app.server import page
from miniamp.errors import MiniampError
from miniamp.report.chart import Axis, Chart, Series, plotly, safe
from miniamp.report.page import resource

#: What is computed for a question, in this order: coarse first, fine when there is time.
STAGES: dict[str, Callable[[Question], object]] = {
    "curves": lambda q: (asked.streamed(q), asked.streamed(q, True), asked.row_by_row(q)),
    "coarse": lambda q: asked.at_once(q, COARSE),
    "landscape": asked.landscape,
    "sketch": lambda q: asked.diagram(q, 8),
    "fine": lambda q: asked.at_once(q, FINE),
    "needed": asked.needed,
    "plan": asked.planned,
    "diagram": lambda q: asked.diagram(q, 24),
}
#: Seconds that a question waits for an answer, or for more of it.
PATIENCE = 0.15
#: Questions whose state is kept.
KEPT = 64


class Explorer:
    """Computes answers in a thread, the latest question first, and runs one simulation."""

    def __init__(self) -> None:
        self._done: OrderedDict[Question, dict[str, str]] = OrderedDict()
        self._changed = threading.Condition()
        self.simulation: Simulation | None = None
        threading.Thread(target=self._work, name="explorer", daemon=True).start()

    def ask(self, question: Question, known: int = 0) -> dict[str, str]:
        """The stages that are done, each with its error or ""; more than are known, if they can be.

        It waits for the next one with patience.
        """
        end, known = time.monotonic() + PATIENCE, min(known, len(STAGES) - 1)
        with self._changed:
            self._done.setdefault(question, {})
            self._done.move_to_end(question)
            while len(self._done) > KEPT:
                self._done.popitem(last=False)
            self._changed.notify_all()
            while len(found := self._done[question]) <= known and time.monotonic() < end:
                self._changed.wait(max(0.0, end - time.monotonic()))
            return dict(found)

    def simulate(self, question: Question) -> None:
        """Begin a simulation; one that runs is stopped."""
        if self.simulation is not None:
            self.simulation.stop()
        self.simulation = Simulation(question)

    def _work(self) -> None:
        while True:
            with self._changed:
                while (job := self._next()) is None:
                    self._changed.wait()
            question, stage = job
            error = ""
            try:
                STAGES[stage](question)
            except MiniampError as refused:
                error = str(refused)
            with self._changed:
                if question in self._done:
                    self._done[question][stage] = error
                self._changed.notify_all()

    def _next(self) -> tuple[Question, str] | None:
        for question in reversed(self._done):
            for stage in STAGES:
                if stage not in self._done[question]:
                    return question, stage
        return None


def learning_chart(
    question: Question, done: dict[str, str], simulation: Simulation | None
) -> Chart:
    """The error against rows, by way of batching, and the simulation's."""
    curve, best = asked.streamed(question), asked.streamed(question, True)
    series = [
        Series("Mini-AMP", curve.alpha, curve.mse, colour=0),
        Series("best possible, these batches", best.alpha, best.mse, colour=1),
    ]
    points = FINE if "fine" in done else COARSE if "coarse" in done else 0
    if points:
        once = asked.at_once(question, points)
        series.append(Series("all rows at once", once.alpha, once.mse, colour=2))
    single = asked.row_by_row(question)
    if single is not None:
        series.append(Series("one row at a time", single.alpha, single.mse, colour=3))
    if simulation is not None and simulation.mse:
        measured = np.array(simulation.mse)
        alpha = curve.alpha[: len(measured)]
        name = f"simulation, N = {FEATURES}"
        series.append(Series(name, alpha, measured, joined=False, colour=4))
    return Chart(
        "", "", Axis("rows per coefficient", range=(0.0, float(curve.alpha[-1]) * 1.02)),
        Axis("mean squared error", [np.maximum(each.y, 1e-16) for each in series]),
        series, height=400,
    )  # fmt: skip


def landscape_chart(question: Question) -> Chart:
    """The landscape of one batch, its stationary points, and where the algorithm is."""
    found = asked.landscape(question)
    shift = found.information.min()
    at = np.array([point.mse for point in found.points])
    height = np.array([point.mutual_information for point in found.points]) - shift
    stable = np.array([point.stable for point in found.points], dtype=bool)
    shown = at > 0.0
    here = np.interp(np.log(max(found.reached, found.mse[0])), np.log(found.mse), found.information)
    series = [
        Series("mutual information", found.mse, found.information - shift, colour=0),
        Series("minima", at[stable & shown], height[stable & shown], joined=False, colour=2),
        Series("barrier", at[~stable & shown], height[~stable & shown], joined=False, colour=7),
        Series(
            "Mini-AMP is here", np.array([max(found.reached, found.mse[0])]),
            np.array([here - shift]), joined=False, colour=1,
        ),
    ]  # fmt: skip
    kept = [each for each in series if len(each.x)]
    return Chart("", "", Axis("error", [found.mse]), Axis("information, nats"), kept)


def diagram_figure(question: Question, size: int) -> dict[str, Any]:
    """The phase diagram as a plotly figure, with the point of the question."""
    found = asked.diagram(question, size)
    figure = plotly(Chart("", "", Axis("rows of one batch per coefficient"), Axis("")))
    if found is None:
        layout: Any = figure["layout"]
        layout["annotations"] = [
            {"text": "no noise or sparsity to vary", "showarrow": False, "x": 0.5, "y": 0.5,
             "xref": "paper", "yref": "paper"}
        ]  # fmt: skip
        return figure
    noise = found.axis == "noise"
    y = np.log10(found.levels) if noise else found.levels
    here = question.noise if noise else question.rho
    data = [
        {
            "type": "heatmap", "x": found.alphas.tolist(), "y": y.tolist(),
            "z": found.hard.astype(float).tolist(),
            "zmin": 0, "zmax": 1, "showscale": False, "colorscale": [[0, "@cell0"], [1, "@cell1"]],
            "text": found.verdicts.tolist(),
            "hovertemplate": "%{text}<extra></extra>",
        },
        {
            "type": "scatter", "mode": "markers", "x": [question.batches[0]], "y": [here],
            "marker": {"color": "@2", "size": 13, "symbol": "x"},
            "hovertemplate": "you are here<extra></extra>",
        },
    ]  # fmt: skip
    layout = figure["layout"]
    layout["yaxis"]["title"] = {
        "text": "log10 of the noise variance" if noise else "share of coefficients not zero"
    }
    layout["xaxis"]["range"] = [0.0, max(DIAGRAM, question.batches[0] * 1.05)]
    layout["showlegend"] = False
    return {**figure, "data": data}


def words(question: Question, done: dict[str, str]) -> str:
    """Numbers of rows needed and the plan, in HTML."""
    text = ""
    if "needed" in done and not done["needed"]:
        text += f"<table id='needed'><tr><th>with</th>{_number('th', f'N = {question.features:,}')}"
        for name, alpha in asked.needed(question).items():
            count = "not within these rows"
            if alpha is not None:
                count = f"{int(np.ceil(alpha * question.features - 1e-9)):,}"
            text += f"</tr><tr><td>{name}</td>{_number('td', count)}"
        text += "</tr></table>"
    if "plan" in done and (plan := asked.planned(question)) is not None:
        text += f"<p class='words' id='advice'>{safe(plan.advice())}</p>"
    return text


def _number(tag: str, text: str) -> str:
    return f"<{tag} class='number'>{text}</{tag}>"


def application() -> FastAPI:
    """The application that serves the page."""
    controls = "\n".join(_control(*each) for each in CONTROLS)
    app = page(
        "explore.html", "draw.js", "explore.js",
        controls=controls, layout=resource("explore.css", "app"),
    )  # fmt: skip
    explorer = Explorer()

    @app.get("/answer")
    def answer(request: Request, shown: str = "", known: int = 0) -> dict[str, Any]:
        """What has been computed; nothing of it if it is `shown` already."""
        question = Question.of(dict(request.query_params))
        done = explorer.ask(question, known)
        more = len(done) < len(STAGES)
        simulation = explorer.simulation
        if simulation is not None and simulation.question.stream != question.stream:
            simulation = None
        progress = -1 if simulation is None else len(simulation.mse) + simulation.done
        token = f"{question.link} {len(done)} {progress}"
        known_now = {"shown": token, "known": len(done), "more": more}
        if token == shown:
            return known_now
        prior, channel = question.model
        return {
            **known_now,
            "values": question.model_dump(),
            "link": question.link,
            "figures": _figures(question, done, simulation),
            "words": words(question, done),
            "texts": {
                "command": question.command,
                "python": question.python,
                "status": _status(done, simulation),
            },
            "hidden": {"rho": "rho" not in prior.names, "noise": "var" not in channel.names},
        }

    @app.post("/simulate")
    def simulate(request: Request) -> None:
        """Begin a simulation of the question."""
        explorer.simulate(Question.of(dict(request.query_params)))

    @app.post("/stop")
    def stop() -> None:
        """End the simulation after the present batch."""
        if explorer.simulation is not None:
            explorer.simulation.stop()

    return app


def _figures(question: Question, done: dict[str, str], simulation: Simulation | None) -> list[Any]:
    figures: list[Any] = [None, None, None]
    if done.get("curves") == "":
        figures[0] = plotly(learning_chart(question, done, simulation))
    if done.get("landscape") == "":
        figures[1] = plotly(landscape_chart(question))
    size = 24 if "diagram" in done else 8
    if done.get("diagram" if size == 24 else "sketch") == "":
        figures[2] = diagram_figure(question, size)
    return figures


def _status(done: dict[str, str], simulation: Simulation | None) -> str:
    failed = [error for error in done.values() if error]
    if failed:
        return failed[0]
    text = "" if len(done) == len(STAGES) else "computing ..."
    if simulation is not None:
        total = len(simulation.question.batches)
        text += f" simulation: {len(simulation.mse)} of {total} batches"
        if simulation.refused:
            text += f", {simulation.refused} refused"
    return text.strip()


#: Fields of a question that have a control, in order, with its label: names to choose from, the
#: ends and steps of a slider, or what else an input takes.
CONTROLS: tuple[tuple[str, str, dict[str, str] | tuple[float, float, float] | str], ...] = (
    ("prior", "Prior of the coefficients", {name: name for name in priors.by_name()}),
    ("rho", "Share of coefficients that are not zero", (*asked.RHO, 0.02)),
    ("channel", "How rows are observed", {name: name for name in channels.by_name()}),
    ("noise", "Noise variance, power of ten", (*asked.NOISE, 0.25)),
    ("design", "Rows", DESIGNS),
    ("batch", "Rows per batch, per coefficient", (*asked.BATCH, 0.02)),
    ("sizes", "Or unequal batches, such as 0.5, 14x0.05", "type='text'"),
    ("span", "Rows in all, per coefficient", (*asked.SPAN, 0.5)),
    ("features", "Number of coefficients N", "type='number' min='1'"),
    ("target", "Error to reach, power of ten", (-8.0, 0.0, 0.25)),
    ("look", "Landscape of batch", (1, 40, 1)),
)


def _control(name: str, label: str, kind: dict[str, str] | tuple[float, ...] | str) -> str:
    """The row of one control; its value is set by the first answer."""
    about = f"id='{name}' name='{name}'"
    if isinstance(kind, dict):
        options = [f"<option value='{key}'>{text}</option>" for key, text in kind.items()]
        field = f"<select {about}>{''.join(options)}</select>"
    elif isinstance(kind, str):
        field = f"<input {about} {kind}>"
    else:
        low, high, step = kind
        field = f"<input {about} type='range' min='{low:g}' max='{high:g}' step='{step:g}'>"
        label += f": <output for='{name}'></output>"
    return f"<div class='control' id='{name}-row'><label for='{name}'>{label}</label>{field}</div>"
