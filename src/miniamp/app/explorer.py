"""`miniamp explore`: the theory, at once, while sliders move."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from dash import Dash, Input, Output, State, ctx, dcc, html, no_update

from miniamp import channels, priors
from miniamp.app import layout
from miniamp.app import question as asked
from miniamp.app.question import COARSE, DESIGNS, DIAGRAM, FINE, Question
from miniamp.app.simulation import FEATURES, Simulation
from miniamp.errors import MiniampError
from miniamp.report.chart import Axis, Chart, Series, plotly

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
#: Seconds that a moved slider waits for an answer; the rest comes with the next pulses.
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

    def ask(self, question: Question, patience: float = PATIENCE) -> dict[str, str]:
        """The stages that are done, each with its error or ""; the others follow."""
        end = time.monotonic() + patience
        with self._changed:
            self._done.setdefault(question, {})
            self._done.move_to_end(question)
            while len(self._done) > KEPT:
                self._done.popitem(last=False)
            self._changed.notify_all()
            while len(found := self._done[question]) < 3 and time.monotonic() < end:
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


def words(question: Question, done: dict[str, str]) -> list[Any]:
    """Rows needed, and how to get the same numbers."""
    parts: list[Any] = []
    if "needed" in done and not done["needed"]:
        rows = []
        for name, alpha in asked.needed(question).items():
            count = "not within these rows"
            if alpha is not None:
                count = f"{int(np.ceil(alpha * question.features - 1e-9)):,}"
            rows.append(html.Tr([html.Td(name), html.Td(count, className="number")]))
        number = html.Th(f"N = {question.features:,}", className="number")
        head = html.Tr([html.Th("with"), number])
        parts.append(html.Table([head, *rows], id="needed"))
    if "plan" in done and (plan := asked.planned(question)) is not None:
        parts.append(html.P(plan.advice(), className="words", id="advice"))
    return parts


def application() -> Dash:
    """The page."""
    app = layout.page("miniamp explore")
    explorer = Explorer()
    app.layout = _layout(app)

    @app.callback([Output(name, "value") for name in CONTROLS], Input("address", "search"))
    def opened(search: str | None) -> list[Any]:
        question = Question.from_link(search or "")
        return [getattr(question, name) for name in CONTROLS]

    @app.callback(
        Output("figures", "data"), Output("words", "children"), Output("command", "children"),
        Output("python", "children"), Output("query", "data"), Output("status", "children"),
        Output("shown", "data"), Output("rho-row", "hidden"), Output("noise-row", "hidden"),
        [Input(name, "value") for name in CONTROLS],
        [Input("pulse", "n_intervals"), Input("simulate", "n_clicks"), Input("stop", "n_clicks")],
        [State("shown", "data")],
    )  # fmt: skip
    def answer(*given: Any) -> Any:
        values, shown = given[: len(CONTROLS)], given[-1]
        question = Question.of(dict(zip(CONTROLS, values, strict=True)))
        if ctx.triggered_id == "simulate":
            explorer.simulate(question)
        if ctx.triggered_id == "stop" and explorer.simulation is not None:
            explorer.simulation.stop()
        done = explorer.ask(question, 0.0 if ctx.triggered_id == "pulse" else PATIENCE)
        simulation = explorer.simulation
        if simulation is not None and simulation.question.stream != question.stream:
            simulation = None
        progress = -1 if simulation is None else len(simulation.mse) + simulation.done
        token = f"{question.link} {len(done)} {progress}"
        if token == shown:
            return (no_update,) * 9
        prior, channel = question.model
        return (
            _figures(question, done, simulation),
            words(question, done),
            question.command,
            question.python,
            question.link,
            _status(done, simulation),
            token,
            "rho" not in prior.names,
            "var" not in channel.names,
        )

    app.clientside_callback(
        "window.dash_clientside.miniamp.link", Output("here", "href"), Input("query", "data")
    )
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


#: Fields of a question that have a control, in order.
CONTROLS = (
    "prior", "rho", "channel", "noise", "design", "batch", "sizes", "span", "features", "target",
    "look",
)  # fmt: skip


def _layout(app: Dash) -> html.Main:
    first = Question()
    controls = [
        _choice("prior", "Prior of the coefficients", list(priors.by_name())),
        _slider("rho", "Share of coefficients that are not zero", asked.RHO, 0.02, [0.02, 0.5, 1]),
        _choice("channel", "How rows are observed", list(channels.by_name())),
        _slider("noise", "Noise variance, power of ten", asked.NOISE, 0.25, [-8, -4, 0]),
        _choice("design", "Rows", DESIGNS),
        _slider("batch", "Rows per batch, per coefficient", asked.BATCH, 0.02, [0.02, 1, 2]),
        _control(
            "sizes", "Or unequal batches, such as 0.5, 14x0.05",
            dcc.Input(id="sizes", type="text", debounce=True, value=""),
        ),
        _slider("span", "Rows in all, per coefficient", asked.SPAN, 0.5, [0.5, 4, 8]),
        _control(
            "features", "Number of coefficients N",
            dcc.Input(id="features", type="number", min=1, debounce=True, value=first.features),
        ),
        _slider("target", "Error to reach, power of ten", (-8.0, 0.0), 0.25, [-8, -4, 0]),
        _slider("look", "Landscape of batch", (1, 40), 1, [1, 20, 40]),
    ]  # fmt: skip
    plots = [
        layout.plot(0, "Learning curve", "The error after every batch, from theory alone.", True),
        layout.plot(1, "Landscape", "Where the information has its minima. The lowest one is the "
                  "best possible error; Mini-AMP stops at the first that it meets from the right."),
        layout.plot(2, "Phase diagram", "One batch. Plain: Mini-AMP is optimal. Coloured: a better "
                  "error is possible, but no fast algorithm is known that reaches it."),
    ]  # fmt: skip
    same = html.Section(
        [
            html.H2("Rows needed"), html.Div(id="words"),
            html.H2("The same numbers"), html.Pre(id="command"), html.Pre(id="python"),
            html.A("Link to this page", id="here", href="#"),
        ],
        className="card wide",
    )  # fmt: skip
    buttons = html.Div(
        [html.Button("Simulate", id="simulate"), " ", html.Button("Stop", id="stop")],
        className="control",
    )
    return html.Main(
        [
            dcc.Location("address", refresh=False),
            *layout.figures(app, 3),
            dcc.Store("query"), dcc.Store("shown"),
            html.H1("Explore the theory"),
            html.P("What Mini-AMP will do before it has seen a row.", className="lead"),
            html.Div(
                [
                    html.Aside([*controls, buttons, html.Div(id="status", className="status")],
                               className="card"),
                    html.Div([*plots, same], className="cards"),
                ],
                className="page",
            ),
        ]
    )  # fmt: skip


def _control(name: str, label: str, component: Any) -> html.Div:
    return html.Div(
        [html.Label(label, htmlFor=name), component], className="control", id=f"{name}-row"
    )


def _choice(name: str, label: str, options: list[str] | dict[str, str]) -> html.Div:
    picker = dcc.Dropdown(options, value=getattr(Question(), name), id=name, clearable=False,
                          searchable=False)  # fmt: skip
    return _control(name, label, picker)


def _slider(
    name: str, label: str, ends: tuple[float, float], step: float, marks: list[float]
) -> html.Div:
    slider = dcc.Slider(
        *ends, step, value=getattr(Question(), name), id=name, updatemode="drag",
        marks={mark: f"{mark:g}" for mark in marks},
    )  # fmt: skip
    return _control(name, label, slider)
