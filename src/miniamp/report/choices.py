"""What was chosen for a fit, and why."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from miniamp.estimators.clusters import MANY_FEATURES
from miniamp.estimators.rows import GROUP
from miniamp.report.facts import PAYS, Facts, counted


class Decision(NamedTuple):
    """One decision: what about, what was decided, and the reason."""

    what: str
    chosen: str
    why: str


def choices(estimator: object) -> list[Decision]:
    """Every decision behind a fitted estimator, with the reason of those that were automatic.

    Examples
    --------
    >>> from miniamp import MiniAMPRegressor
    >>> model = MiniAMPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9])
    >>> [choice.what for choice in choices(model)][:3]
    ['prior', 'noise', 'solver']
    """
    facts = Facts.of(estimator)
    if facts.task == "clustering":
        return [*_clusters(facts), _noise(facts), *_rest(facts)]
    return [_prior(facts), _noise(facts), *_solvers(facts), _memory(facts), *_rest(facts)]


def _prior(facts: Facts) -> Decision:
    prior = facts.settings["prior"]
    if not isinstance(prior, str):
        return Decision("prior", repr(prior), "given, and used as it is")
    learned = [
        f"{name.removeprefix('prior_')} = {value:.3g}"
        for name, value in facts.history[-1].items()
        if name.startswith("prior_") and isinstance(value, float) and value != 0.0
    ]
    chosen = str(facts.history[-1].get("prior", prior))
    why = "its parameters are learned from the rows"
    if prior == "auto":
        why = "the most probable of three, given the rows; " + why
    return Decision("prior", f"{chosen} ({', '.join(learned)})" if learned else chosen, why)


def _noise(facts: Facts) -> Decision:
    noise = facts.settings["noise"]
    if not isinstance(noise, str):
        return Decision("noise", repr(noise), "given")
    if facts.task == "classification":
        return Decision("noise", "unit variance", "it sets the scale of the coefficients")
    name = "noise_var" if facts.has("noise_var") else "noise"
    learned = f"{noise}, {facts.column(name)[-1]:.4g}" if facts.has(name) else noise
    return Decision("noise", learned, "learned from the residuals")


def _solvers(facts: Facts) -> list[Decision]:
    """Each solver that was used, on how many batches, and for which reason most often."""
    used = Counter(str(entry.get("solver")) for entry in facts.everything)
    found = []
    for solver, batches in used.most_common():
        own = [entry for entry in facts.everything if str(entry.get("solver")) == solver]
        reasons = Counter(str(entry.get("reason") or "") for entry in own)
        why = reasons.most_common(1)[0][0] or "the default"
        found.append(Decision("solver", f"{solver}, {counted(batches, 'batch')}", why))
    remedies = Counter(str(e["remedy"]) for e in facts.everything if e.get("remedy"))
    why = "a batch contradicted the model at first"
    return found + [
        Decision("remedy", f"{remedy}, {counted(count, 'batch')}", why)
        for remedy, count in remedies.most_common()
    ]


def _memory(facts: Facts) -> Decision:
    why = "given"
    if facts.settings["memory"] == "auto":
        why = "all correlations, as there are few features"
        if facts.memory < len(facts.features):
            why = "as many as are affordable; they keep correlations between batches"
    gained, lost = (
        float(np.nansum(facts.column(f"theory_{name}"))) for name in ("gained", "discarded")
    )
    if gained > 0.0:
        pays = "more memory would help" if lost > PAYS * gained else "more would add little"
        why += f"; by theory {lost:.3g} of {gained:.3g} nats were discarded between batches: {pays}"
    return Decision("memory", f"{facts.memory} remembered rows", why)


def _clusters(facts: Facts) -> list[Decision]:
    given = facts.settings
    var = given["prior_var"]
    by = "the mean square of the first samples" if var is None else f"{var:g}, given"
    many = len(facts.features) >= MANY_FEATURES
    solver = "low-rank message passing" if many else "variational mean field"
    why = "there are many features" if many else "message passing needs many features"
    fading, first = given["fading"], given["n_init_batches"]
    start = f"best of {given['n_init']}, repeated in the first {first} batches"
    fades = "errors of the first labels fade" if fading else "all samples count the same"
    return [
        Decision("clusters", str(given["n_clusters"]), "given"),
        Decision("prior", str(given["prior"]), f"its variance: {by}"),
        Decision("solver", solver, why),
        Decision("start", start, "by the free energy; starts with a tiny cluster come last"),
        Decision("fading", f"{fading:g}", fades),
    ]


def _rest(facts: Facts) -> list[Decision]:
    given = facts.settings
    sizes = Counter(e.get("rows", e.get("samples", 0)) for e in facts.everything)
    typical = sizes.most_common(1)[0][0]
    asked = given["batch_size"]
    why = "what the solver can process at once, or is worthwhile according to theory"
    if asked != "auto":
        why = f"batch_size={asked} in fit, or the batches passed to partial_fit"
        if facts.task != "clustering" and int(str(typical)) > int(str(asked)):
            why = f"batch_size={asked} in fit; rows wait until there are {GROUP} at least"
    found = [Decision("batch", f"{typical:,} rows", why)]
    if given.get("forget", 1.0) != 1.0:
        why = "old batches count less"
        if given["forget"] == "auto":
            why = "the factor whose predictions were best; 1 forgets nothing"
        found.append(Decision("forget", f"{facts.history[-1]['forget']:.4g}", why))
    if "standardize" in given:
        scaled = bool(given["standardize"]) and isinstance(given["prior"], str)
        why = "a prior given as an object refers to the features' own units"
        if scaled:
            why = "one prior for all features needs one scale; results are in the original units"
        found.append(Decision("units", "standardised" if scaled else "original", why))
    return found
