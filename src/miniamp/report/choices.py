"""What was chosen, and why, in words."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from miniamp.estimators.clusters import MANY_FEATURES
from miniamp.report.facts import Facts


class Choice(NamedTuple):
    """One decision: what about, what was decided, and the reason."""

    what: str
    chosen: str
    why: str


def choices(estimator: Any) -> list[Choice]:
    """Every decision behind a fitted estimator, those made for the user with their reasons.

    Examples
    --------
    >>> from miniamp import MiniAMPRegressor
    >>> model = MiniAMPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9])
    >>> [choice.what for choice in choices(model)][:3]
    ['prior', 'noise', 'solver']
    """
    facts = Facts.of(estimator)
    given = facts.estimator.get_params(deep=False)
    if facts.task == "clustering":
        return [*_clusters(facts, given), _noise(facts, given), *_rest(facts, given)]
    return [
        _prior(facts, given),
        _noise(facts, given),
        *_solvers(facts),
        _memory(facts, given),
        *_rest(facts, given),
    ]


def _prior(facts: Facts, given: dict[str, Any]) -> Choice:
    prior = given["prior"]
    if not isinstance(prior, str):
        return Choice("prior", repr(prior), "given, and taken at its word")
    learned = _learned(facts, "prior_")
    return Choice("prior", f"{prior}{learned}", "its hyper-parameters are learned from the stream")


def _noise(facts: Facts, given: dict[str, Any]) -> Choice:
    noise = given["noise"]
    if not isinstance(noise, str):
        return Choice("noise", repr(noise), "given")
    if facts.task == "classification":
        return Choice("noise", "unit variance", "it sets the scale of the coefficients")
    last = facts.history[-1]
    value = last.get("noise_var", last.get("noise"))
    shown = "" if value is None else f", {float(np.mean(value)):.4g}"
    return Choice("noise", f"{noise}{shown}", "learned from the residuals of the stream")


def _solvers(facts: Facts) -> list[Choice]:
    """Each solver that was used, on how many batches, and for which reason most often."""
    used = Counter(str(entry.get("solver")) for entry in facts.everything)
    found = []
    for solver, batches in used.most_common():
        own = [entry for entry in facts.everything if str(entry.get("solver")) == solver]
        reasons = Counter(str(entry.get("reason") or "") for entry in own)
        why = reasons.most_common(1)[0][0] or "its default"
        found.append(Choice("solver", f"{solver}, {_batches(batches)}", why))
    remedies = Counter(str(e["remedy"]) for e in facts.everything if e.get("remedy"))
    found += [
        Choice("remedy", f"{remedy}, {_batches(count)}", "a batch looked unsound at first")
        for remedy, count in remedies.most_common()
    ]
    return found


def _memory(facts: Facts, given: dict[str, Any]) -> Choice:
    posterior = facts.estimator.posterior_
    first = posterior[0] if isinstance(posterior, list) else posterior
    rows = int(getattr(first, "memory", 0) or 0)
    if given["memory"] == "auto":
        why = "all correlations, as there are few features"
        if rows < len(facts.features):
            why = "as many pseudo-rows as fit a modest memory; they keep correlations"
        return Choice("memory", f"{rows} pseudo-rows", why)
    return Choice("memory", f"{rows} pseudo-rows", "given")


def _clusters(facts: Facts, given: dict[str, Any]) -> list[Choice]:
    var = given["prior_var"]
    by = "the mean square of the first samples" if var is None else f"{var:g}, given"
    many = len(facts.features) >= MANY_FEATURES
    solver = "low-rank message passing" if many else "variational mean field"
    why = "as there are many features" if many else "message passing is for many features"
    first = given["n_init_batches"]
    return [
        Choice("clusters", str(given["n_clusters"]), "given"),
        Choice("prior", str(given["prior"]), f"its variance: {by}"),
        Choice("solver", solver, why),
        Choice(
            "start",
            f"best of {given['n_init']}, anew in the first {_batches(first)}",
            "by the free energy, starts with a tiny cluster last",
        ),
        Choice(
            "fading",
            f"{given['fading']:g}",
            "mistakes of the first labels are outgrown" if given["fading"] else "all count alike",
        ),
    ]


def _rest(facts: Facts, given: dict[str, Any]) -> list[Choice]:
    sizes = Counter(int(e.get("rows", e.get("samples", 0))) for e in facts.everything)
    typical = sizes.most_common(1)[0][0]
    asked = given["batch_size"]
    why = "what the solver can take at once, or theory says is worth it"
    if asked != "auto":
        why = f"batch_size={asked} in fit, or as the batches came"
    found = [Choice("batch", f"{typical:,} rows", why)]
    if given.get("forget", 1.0) != 1.0:
        found.append(Choice("forget", f"{given['forget']:g}", "old batches fade"))
    if "standardize" in given:
        scaled = given["standardize"] and isinstance(given["prior"], str)
        why = "a prior given as an object speaks of the features' own units"
        if scaled:
            why = "one prior fits all features on one scale; results are in your units"
        found.append(Choice("units", "one scale" if scaled else "as they came", why))
    return found


def _learned(facts: Facts, prefix: str) -> str:
    last = facts.history[-1]
    values = [
        f"{name.removeprefix(prefix)} = {value:.3g}"
        for name, value in last.items()
        if name.startswith(prefix) and isinstance(value, float) and value != 0.0
    ]
    return f" ({', '.join(values)})" if values else ""


def _batches(count: int) -> str:
    return f"{count:,} batch" if count == 1 else f"{count:,} batches"
