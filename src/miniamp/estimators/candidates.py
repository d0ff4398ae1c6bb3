"""Models that are compared: in parallel, if `forget` or `prior` is "auto", and of first classes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from miniamp import channels, checks, priors
from miniamp.absorb import iterated
from miniamp.arrays import Array
from miniamp.channels.smooth import NONE_WRONG
from miniamp.designs import Design
from miniamp.estimators.rows import Rows
from miniamp.evidence import SoftmaxBatch, SoftmaxPosterior
from miniamp.evidence.base import DrawnRows
from miniamp.evidence.linear import TINY
from miniamp.evidence.softmax import SCALE_KNOWN
from miniamp.learning import Model, initial

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
#: The scale of a first batch of several classes is found by cross-validation: so many parts of so
#: many rows at most, each predicted from the others, with scales that differ by a factor of 2. With
#: 512 rows log loss over offline was 1.59, 1.30, 1.01 on digits and 1.10, .99, 1.17 on image
#: segments (three splits), with 1024 it is 1.04, 1.17, 1.02 and 1.00, 1.04, 1.15 in 1.5 to 2.5
#: times the time; 2048 rows are no better and take twice as long again.
FOLDS, FOLDED_ROWS, MOST_DOUBLINGS = 4, 1024, 8
#: Of more rows times classes only half of the parts are predicted: 30 to 100 classes (11 streams)
#: take half to two thirds of the time for a log loss that is the same to 0.2 %. They are solved
#: roughly (`evidence.softmax.ROUGH`).
FOLDED_SCORES = 1 << 14


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


def first_classes(
    belief: SoftmaxPosterior, settings: ModelSettings, design: Design, rows: Rows
) -> tuple[SoftmaxPosterior, bool]:
    """The belief before a first batch with the scale that suits it, and whether to doubt labels.

    The scale is that at which the batch predicts its own rows best, part by part: from a guess
    upwards or downwards, as long as that is better. The evidence is too cautious where classes can
    be separated, and rows left out by linear response too bold: on 19 data sets of 3 to 16 classes
    log loss was within 5 % of offline cross-validation on 16, 14 and 10. For the same reason labels
    may be wrong only where that predicts left-out parts better, by the odds beforehand.
    """
    one, learns = belief.posteriors[0], settings.learn_prior
    prior = one.prior
    if learns:
        drawn: DrawnRows[None] = DrawnRows(design, rows.Y[:, 0], channels.Logistic())
        prior, _ = initial(Model(one, drawn.channel), drawn, settings.prior.centres)
    # Few rows can be separated, which asks for a larger scale than the rows to come: MNIST by 500
    # had a log loss of .390 after 4000 rows, and .354 with the guess.
    most = min(len(rows) // one.size, MOST_DOUBLINGS)
    if most == 0:
        return belief.with_prior(prior), False
    labels = rows.Y.argmax(axis=1)
    by_class = np.argsort(labels, kind="stable")  # every part has rows of all classes
    count = min(len(labels), FOLDED_ROWS)
    some = by_class[np.linspace(0, len(labels) - 1, count).round().astype(int)]
    K, X, parts = len(belief.posteriors), design.toarray()[some], np.arange(len(some)) % FOLDS
    many = len(some) * K > FOLDED_SCORES
    tested, labels = FOLDS // 2 if many else FOLDS, labels[some]
    weights = np.ones(len(some)) if rows.weights is None else rows.weights[some]
    counted = weights[parts < tested]

    @functools.cache
    def chances(doublings: int, doubt: bool) -> Array:
        """Of each row of the parts that are tested, predicted from the others."""
        start = belief.with_prior(prior.rescaled(2.0**doublings) if doublings else prior)
        out = np.zeros(len(some))
        for part in range(tested):
            here, rest = parts == part, parts != part
            known = SoftmaxBatch(X[rest], labels[rest], weights[rest], doubt=doubt, rough=many)
            found = iterated(start, known, settings.stop).belief.probabilities(X[here])
            out[here] = found[np.arange(len(found)), labels[here]]
        return np.maximum(out[parts < tested], TINY)

    def score(doublings: int, doubt: bool = False) -> float:
        """Of a scale, with what is known of it beforehand."""
        away, logs = doublings * np.log(2.0), np.log(chances(doublings, doubt))
        return float(counted @ logs - 0.5 * SCALE_KNOWN * away**2)

    best, doubt = 0, False
    for way in (1, -1) if learns else ():
        while abs(best) < most and score(best + way) > score(best):
            best += way
    # Wrong labels keep the scale low, at which they do not stand out.
    near, told = {best, best + learns}, channels.Softmax().told_by
    if any(told(chances(k, False), K, counted).doubtful for k in near):
        other = best
        while learns and other < most and score(other + 1, True) > score(other, True):
            other += 1
        if score(other, True) > score(best) + NONE_WRONG:
            best, doubt = other, True
    if not learns:
        return belief, doubt
    # The top of the parabola through the best and its neighbours, and how sharp it is.
    lower, here, upper = (score(best + step, doubt) for step in (-1, 0, 1))
    bend = max(2.0 * here - upper - lower, SCALE_KNOWN * np.log(2.0) ** 2)
    top = best + float(np.clip(0.5 * (upper - lower) / bend, -0.5, 0.5))
    known = bend / np.log(2.0) ** 2 - SCALE_KNOWN
    return replace(belief.with_prior(prior.rescaled(2.0**top)), scale_known=known), doubt
