"""Several models of one stream in parallel, if `forget` or `prior` is "auto"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from miniamp import checks, priors
from miniamp.learning import Model

if TYPE_CHECKING:
    from miniamp.estimators.history import Entry
    from miniamp.estimators.settings import ModelSettings

#: Priors by name.
NAMED: dict[str, type[priors.ScalarPrior]] = priors.by_name()
#: The priors that prior="auto" chooses among, the simplest first.
PRIORS = sorted(
    (name for name, kind in NAMED.items() if kind.candidate),
    key=lambda name: (name != priors.Gaussian.name, name),
)
#: The first is used unless another is better by this many nats: the sparse one may become Gaussian
#: by its one parameter more, and is then as good on the rows that it was fitted to, but slower.
SIMPLER = 1.0
#: No batch counts for more nats than this: on one of 10 real regressions (779 rows, 83 features,
#: most of them rare) the first two batches of 39 rows misled by 100.
MOST = 20.0
#: A prior that is behind by so many nats is dropped, and its time saved.
HOPELESS = 50.0
#: Forgetting factors that forget="auto" chooses among, besides 1: half-lives of 1, 2, 4 .. 128
#: batches. The best is then within a factor of 1.4, where the error, whose two parts grow and fall
#: with the half-life, is 6 % larger at most.
FACTORS = tuple(0.5 ** (1.0 / 2**k) for k in range(8))
#: Until one is better than 1, those around this place among them are tried: of slower ones it would
#: show late, and for faster ones drift must be fast.
MIDDLE = 3
#: A stream is taken not to drift unless its predictions say otherwise, by odds of 20 to 1.
STEADY = 3.0
#: A factor that is behind by this many nats (odds of 1100 to 1) starts over from the best model of
#: the same prior, still that far behind: it has lost what it needs to be good again.
BEHIND = 7.0


class Candidate(NamedTuple):
    """A prior, a forgetting factor and the models of all targets that have learned with them."""

    prior: str  #: its name, "" where an object was given
    forget: float
    score: float = 0.0  #: logarithm of the odds against the best candidate
    models: tuple[Model, ...] = ()

    def state(self) -> dict[str, Any]:
        """This candidate in plain values and posteriors, for a file."""
        return {**self._asdict(), "models": [dict(vars(model)) for model in self.models]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The way back from `state`."""
        checks.number("forget", state["forget"], above=0.0, most=1.0)
        checks.number("score", state["score"], most=0.0)
        return cls(**{**state, "models": tuple(Model(**model) for model in state["models"])})


def first(settings: ModelSettings) -> list[Candidate]:
    """All candidates before any row, the one of `settings` first, without models."""
    names = PRIORS if settings.auto_prior else [settings.prior_name]
    forget = 1.0 if settings.auto_forget else settings.forget
    start = [Candidate(name, forget, -SIMPLER * (k > 0)) for k, name in enumerate(names)]
    return ranked(start, settings) if settings.auto_forget else start


def compared(
    settings: ModelSettings, tried: Sequence[tuple[Candidate, Entry]], targets: int
) -> list[Candidate]:
    """The candidates for the next batch, after one with these entries, the best first.

    Each gains the log-probability that it gave to the batch: the evidence under different priors,
    else that of the predictions, row by row. So also where there is no evidence, where it is of a
    batch from which rows were left out (`on_conflict`), and with several classes, whose labels are
    one observation under some priors and K under others.
    """
    entries = [entry for _, entry in tried]
    clean = not any("score" in entry and "conflicts" in entry for entry in entries)
    several = targets > 1 and settings.channel.predicts_probabilities
    if settings.auto_prior and clean and not several and all("log_evidence" in e for e in entries):
        gains = np.array([entry["log_evidence"] for entry in entries])
    else:
        gains = np.array([entry["rows"] * entry.get("score", 0.0) for entry in entries])
    gains = np.maximum(np.nan_to_num(gains - np.nanmax(gains), nan=-np.inf), -MOST)
    each = zip(tried, gains.tolist(), strict=True)
    return ranked((one._replace(score=one.score + gain) for (one, _), gain in each), settings)


def ranked(candidates: Iterable[Candidate], settings: ModelSettings) -> list[Candidate]:
    """The candidates for the next batch, the best first; scores are relative to it."""
    found = sorted(candidates, key=lambda one: -one.score)
    lead = found[0]
    best: dict[str, Candidate] = {}
    for one in found:
        if one.score > lead.score - HOPELESS:
            best.setdefault(one.prior, one)
    if settings.auto_forget:
        known = {(one.prior, one.forget): one for one in found}
        at = FACTORS.index(lead.forget) if lead.forget in FACTORS else MIDDLE
        factors = (lead.forget, 1.0, *FACTORS[max(at - 1, 0) : at + 2])
        wanted = [(lead.prior, factor) for factor in factors]
        wanted += [(prior, lead.forget) for prior in best]
        found = [_kept(known.get(key), best[key[0]], key[1]) for key in dict.fromkeys(wanted)]
        found.sort(key=lambda one: -one.score)
    return [one._replace(score=one.score - lead.score) for one in found if one.prior in best]


def _kept(one: Candidate | None, source: Candidate, forget: float) -> Candidate:
    """A candidate as it is, or started over from the best one of its prior."""
    least = source.score - (BEHIND if one is not None else STEADY)
    if one is not None and one.score >= least:
        return one
    return source._replace(forget=forget, score=least)


def weight(candidates: Sequence[Candidate]) -> float:
    """The probability of the first candidate."""
    return float(1.0 / np.sum(np.exp([one.score for one in candidates])))
