"""Hyper-parameters over time: noise and prior as they were learned."""

from __future__ import annotations

from typing import Any

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.report import look
from miniamp.report.facts import Facts

#: What the columns of a history are called in plain words.
NAMES = {
    "noise": "variance of the noise",
    "noise_var": "variance of the noise",
    "prior_var": "variance of a coefficient",
    "prior_rho": "share of coefficients that are not zero",
    "prior_mean": "mean of a coefficient",
}


def plot_hyper_parameters(estimator: Any, ax: Any = None) -> Any:
    """Hyper-parameters after each batch on matplotlib axes; gives the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(160, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> plot_hyper_parameters(model).get_ylabel()
    'value'
    """
    facts = Facts.of(estimator)
    drawn = curves(facts)
    if not drawn:
        raise InvalidInputError(
            "estimator: got no hyper-parameters in its history, expected some; give it a prior or "
            "a noise that has any"
        )
    ax = look.axes(ax, _x(facts), "value")
    for i, (name, values) in enumerate(drawn):
        ax.plot(facts.rows, values, label=name, **look.stroke(i))
    look.scaled(ax, "y", *(values for _, values in drawn))
    look.legend(ax)
    return ax


def section(facts: Facts) -> look.Section | None:
    """The card of the page; none where there is nothing to learn."""
    drawn = curves(facts)
    if not drawn or facts.task == "clustering":  # whose noise has a card of its own
        return None
    traces = [look.line(facts.rows, values, name, i) for i, (name, values) in enumerate(drawn)]
    y = look.axis("value", **look.logarithmic(*(values for _, values in drawn)))
    words = (
        "As believed after each batch; flat where they were given. A curve that does not settle "
        "is a stream that changes or a model that does not fit."
    )
    return look.Section("Hyper-parameters", words, look.figure(traces, look.axis(_x(facts)), y))


def curves(facts: Facts) -> list[tuple[str, Array]]:
    """Name and values by batch of every hyper-parameter that varies or matters."""
    names = [
        name
        for name in facts.history[-1]
        if name == "noise" or name.startswith(("prior_", "noise_"))
    ]
    found = []
    for name in names:
        is_flag = isinstance(facts.history[-1][name], bool)
        values = facts.column(name)
        # The mean of a centred prior is zero and stays so.
        if not is_flag and facts.has(name) and not (name == "prior_mean" and not values.any()):
            found.append((NAMES.get(name, name.replace("_", " ")), values))
    return found


def _x(facts: Facts) -> str:
    return "samples seen" if facts.task == "clustering" else "rows seen"
