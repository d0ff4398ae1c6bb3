"""A question to the theory: the state of the explorer's controls, its answers, and a simulation."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Container
from functools import lru_cache, wraps
from typing import Annotated, Any, NamedTuple, TypeVar, cast
from urllib.parse import urlencode

import numpy as np
from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator

from miniamp import Posterior, Stop, absorb, channels, evidence, priors, theory
from miniamp.arrays import Array
from miniamp.errors import MiniampError
from miniamp.evidence.base import DrawnRows
from miniamp.theory.limits import offline_alpha, online_alpha
from miniamp.theory.limits import streamed as absorbed

#: Rows that may depend on each other: how the batch's singular values are spread.
DESIGNS = {
    "independent": "independent entries",
    "orthogonal": "orthogonal rows",
    "condition-10": "condition number 10",
    "condition-100": "condition number 100",
}
#: Their condition numbers.
CONDITIONS = dict(zip(DESIGNS, (None, 1.0, 10.0, 100.0), strict=True))
#: Ends of the sliders. Errors are shown down to a tenth of the noise, so 1e-8 is small enough.
RHO = (0.02, 1.0)
NOISE = (-8.0, 1.0)
BATCH = (0.02, 2.0)
SPAN = (0.5, 8.0)
MOST_BATCHES = 200
Share = Annotated[float, Field(ge=RHO[0], le=RHO[1])]
Noise = Annotated[float, Field(ge=NOISE[0], le=NOISE[1])]
Batch = Annotated[float, Field(ge=BATCH[0], le=BATCH[1])]
Span = Annotated[float, Field(ge=SPAN[0], le=SPAN[1])]
#: Rows per coefficient at the right end of the phase diagram: no batch beyond it is hard.
DIAGRAM = 1.5
#: Points of a smooth curve, and of its first sketch.
FINE, COARSE = 80, 15
#: Coefficients of a simulation: errors are within about 1/sqrt(N), 3 %, of the theory.
FEATURES = 1000
#: Answers kept: a slider moved there and back costs nothing.
KEPT = 512


class Question(BaseModel, frozen=True):
    """The state of the explorer."""

    prior: str = "sparse"  #: by name, as on the command line, like the channel
    rho: Share = 0.3  #: of the coefficients that are not zero, for priors that have it
    channel: str = "gaussian"
    noise: Noise = -4.0  #: logarithm (base 10) of the noise variance, for channels that have it
    design: str = "independent"  #: one of `DESIGNS`
    batch: Batch = 0.2  #: rows per batch over coefficients
    sizes: str = ""  #: unequal batches instead, such as "0.5, 14x0.05"
    span: Span = 3.0  #: rows over coefficients in all
    features: Annotated[int, Field(ge=1, le=10**9)] = 1000  #: N, for numbers of rows
    target: Annotated[float, Field(ge=-12.0, le=1.0)] = -2.0  #: log10 of the error to reach
    look: Annotated[int, Field(ge=1, le=MOST_BATCHES)] = 1  #: batch of the landscape, from 1

    @field_validator("prior", "channel", "design")
    @classmethod
    def _named(cls, value: str, info: ValidationInfo) -> str:
        named: dict[str, Container[str]] = {"prior": priors.by_name(), "design": DESIGNS}
        if value not in named.get(str(info.field_name), channels.by_name()):
            raise ValueError("no such name")
        return value

    @field_validator("sizes")
    @classmethod
    def _readable(cls, value: str) -> str:
        if value and not _sizes(value):
            raise ValueError("sizes that cannot be read")
        return value

    @classmethod
    def of(cls, given: dict[str, Any]) -> Question:
        """The question with values as a browser sends them; those that make no sense are left out.

        Examples
        --------
        >>> Question.of({"rho": "0.1", "noise": "x", "prior": "<script>"}).rho
        0.1
        """
        try:
            return cls(**given)
        except ValidationError as error:
            wrong = {found["loc"][0] for found in error.errors()}
            return cls(**{name: value for name, value in given.items() if name not in wrong})

    @property
    def link(self) -> str:
        """The query of a link with the same question."""
        return "?" + urlencode(self.model_dump())

    @property
    def model(self) -> tuple[priors.ScalarPrior, channels.Channel]:
        """The prior and the channel."""
        named: dict[str, type[priors.ScalarPrior]] = priors.by_name()
        prior = named[self.prior].default()
        channel = channels.by_name()[self.channel].default()
        if "rho" in prior.names:
            prior = prior.replaced(rho=self.rho)
        if "var" in channel.names:
            channel = channel.replaced(var=10.0**self.noise)
        return prior, channel

    @property
    def stream(self) -> Question:
        """The question without what only changes how its answer is shown."""
        span = 0.5 if self.sizes else self.span
        return self.model_copy(update={"features": 1, "target": 0.0, "look": 1, "span": span})

    @property
    def batches(self) -> tuple[float, ...]:
        """Sizes of all batches, over coefficients."""
        if self.sizes:
            return _sizes(self.sizes)
        count = max(1, int(self.span / self.batch + 1e-9))
        return (self.batch,) * min(count, MOST_BATCHES)

    @property
    def condition(self) -> float | None:
        """The condition number of a batch; None for independent entries."""
        return CONDITIONS[self.design]

    def spectrum(self, alpha: float) -> dict[str, Any]:
        """The argument `design=` of the theory for a batch of this size; none for i.i.d. rows."""
        if self.condition is None:
            return {}
        if self.condition == 1.0:
            return {"design": theory.Spectrum.orthogonal(alpha)}
        return {"design": theory.Spectrum.condition(self.condition, alpha)}

    @property
    def command(self) -> str:
        """What to type for the plan."""
        prior, channel = self.model
        words = f"miniamp plan --features {self.features}"
        if self.prior == "sparse":
            words += f" --sparsity {self.rho:g}"
        else:
            words += f" --prior {self.prior}" + (
                f":rho={self.rho:g}" if "rho" in prior.names else ""
            )
        if self.channel != "gaussian":
            words += f" --channel {self.channel}"
        if "var" in channel.names:
            words += f" --noise {10.0**self.noise!r}"
        return words + f" --target-mse {10.0**self.target!r}"

    @property
    def python(self) -> str:
        """Lines that compute the same curve."""
        prior, channel = self.model
        lines = [
            "from miniamp import absorb, channels, priors, theory",
            "",
            f"prior = priors.{_call(prior)}",
            f"channel = channels.{_call(channel)}",
        ]
        design = {None: "", 1.0: ", design=theory.Spectrum.orthogonal({0})"}.get(
            self.condition, f", design=theory.Spectrum.condition({self.design[10:]}, {{0}})"
        )
        if not self.sizes:
            size = repr(self.batch)
            lines += [
                f"size, batches = {size}, {len(self.batches)}",
                "curve = theory.learning_curve(prior, channel, size, batches"
                + design.format("size")
                + ")",
                "errors = list(curve.mse)",
            ]
        else:
            lines += [
                "law, errors = theory.Law(prior), []",
                f"for size in {list(self.batches)!r}:",
                f"    batch = theory.ConvergedBatch(size, channel{design.format('size')})",
                "    law, info = absorb(law, batch)",
                "    errors.append(law.mse)",
            ]
        return "\n".join(lines)


def _sizes(text: str) -> tuple[float, ...]:
    """`0.5, 14x0.05` as fifteen sizes; empty if it cannot be read.

    Examples
    --------
    >>> _sizes("0.5, 2x0.05")
    (0.5, 0.05, 0.05)
    """
    found: list[float] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:(\d{1,3})\s*x\s*)?(\d{0,3}\.?\d{1,6})\s*", part)
        if match is None:
            return ()
        found += [float(match[2])] * int(match[1] or 1)
    sound = 0 < len(found) <= MOST_BATCHES and all(BATCH[0] / 10 <= x <= SPAN[1] for x in found)
    return tuple(found) if sound else ()


def _call(model: priors.ScalarPrior | channels.Channel) -> str:
    """A constructor call that gives the model to the last bit."""
    given = ((name, value) for name, value in model.parameters().items())
    parts = (f"{n}={v if isinstance(v, str) else float(v)!r}" for n, v in given)
    return f"{type(model).__name__}({', '.join(parts)})".replace("link=exp", "link='exp'")


Answer = TypeVar("Answer", bound=Callable[..., object])


def _by_stream(compute: Answer) -> Answer:
    """Keep answers by `Question.stream`, without what only changes how they are shown."""
    kept = lru_cache(KEPT)(compute)
    return cast(Answer, wraps(compute)(lambda question, *more: kept(question.stream, *more)))


@_by_stream
def streamed(question: Question, best: bool = False) -> theory.Curve:
    """The error of Mini-AMP, or the least possible one, after each batch."""
    prior, channel = question.model
    kind = theory.OptimalBatch if best else theory.ConvergedBatch
    batches = [kind(size, channel, **question.spectrum(size)) for size in question.batches]
    return absorbed(theory.Law(prior), batches, Stop(), question.design)


@_by_stream
def at_once(question: Question, points: int) -> theory.Curve:
    """The error when all rows are absorbed at once."""
    alphas = np.linspace(0.0, sum(question.batches), points + 1)[1:]
    spectrum = question.spectrum(question.batches[0])
    return theory.offline_curve(*question.model, alphas, **spectrum)


@_by_stream
def row_by_row(question: Question) -> theory.Curve | None:
    """The error when single rows are absorbed; known for independent entries only."""
    if question.condition is not None:
        return None
    alphas = np.linspace(0.0, sum(question.batches), FINE + 1)[1:]
    return theory.online_curve(*question.model, alphas)


class BatchLandscape(NamedTuple):
    """The mutual information of one batch, its minima, and where the algorithm is."""

    mse: Array
    information: Array
    points: list[theory.FixedPoint]
    reached: float


@lru_cache(KEPT)
def landscape(question: Question) -> BatchLandscape:
    """The landscape of the batch that is looked at."""
    prior, channel = question.model
    curve = streamed(question)
    k = min(question.look, len(curve.mse)) - 1
    size, lam = question.batches[k], float(curve.lam[k - 1]) if k else 0.0
    more = question.spectrum(size)
    points = theory.fixed_points(prior, channel, size, lam, **more)
    power = theory.Law(prior).mse
    low = min([power * 1e-3, *(point.mse / 10.0 for point in points if point.mse > 0.0)])
    mse = np.geomspace(max(low, 1e-14), power, 160)
    information = theory.mutual_information(prior, channel, mse, size, lam, **more)
    return BatchLandscape(mse, information, points, float(curve.mse[k]))


@lru_cache(64)
def _diagram(question: Question, noisy: bool, size: int) -> theory.PhaseDiagram:
    levels = (
        {"noises": np.logspace(-8, 1, size)}
        if noisy
        else {"sparsities": np.linspace(RHO[0], 0.98, size)}
    )
    alphas = np.linspace(0.02, DIAGRAM, 3 * size)
    return theory.phase_diagram(*question.model, alphas, **levels, progress=False)


def diagram(question: Question, size: int) -> theory.PhaseDiagram | None:
    """Where one batch is optimal, hard or impossible; over noise, or over sparsity."""
    prior, channel = question.model
    noisy = "var" in channel.names
    if not noisy and "rho" not in prior.names:
        return None
    varied = {"noise"} if noisy else {"rho"}
    own = question.model_dump(include={"prior", "channel", "rho", "noise"} - varied)
    return _diagram(Question(**own), noisy, size)


@lru_cache(KEPT)
def needed(question: Question) -> dict[str, float | None]:
    """Rows over coefficients until the target, by way of batching; None if not within sight."""
    target = 10.0**question.target
    curves = {"these batches": streamed(question), "best possible": streamed(question, True)}
    found = {name: curve.reaches(target) for name, curve in curves.items()}
    prior, channel = question.model
    if target < theory.Law(prior).mse:
        more = question.spectrum(question.batches[0])
        found["all at once"] = offline_alpha(prior, channel, target, **more)
        if question.condition is None:
            found["one row at a time"] = online_alpha(prior, channel, target)
    return found


@lru_cache(64)
def planned(question: Question) -> theory.Plan | None:
    """The plan that the command prints, for independent entries."""
    prior, channel = question.model
    try:
        return theory.plan(prior, channel, question.features, target_mse=10.0**question.target)
    except MiniampError:
        return None


class Simulation(threading.Thread):
    """One stream of the question's model, learned in a thread that has begun."""

    def __init__(self, question: Question) -> None:
        super().__init__(name="simulation", daemon=True)
        self.question = question
        self.mse: list[float] = []  #: after each batch so far
        self.done = False
        self.refused = 0  #: batches that were left out
        self._stopping = False
        self.start()

    def stop(self) -> None:
        """End it after the present batch."""
        self._stopping = True

    def run(self) -> None:
        """Learn batch after batch."""
        prior, channel = self.question.model
        rng = np.random.default_rng(0)
        x = prior.sample(rng, FEATURES)
        belief = Posterior(prior, size=FEATURES)
        for size in self.question.batches:
            if self._stopping:
                break
            Phi = drawn(self.question, size, rng)
            y = channel.sample(rng, Phi @ x)
            rows: DrawnRows[Any] = evidence.RobustBatch(Phi, y, channel)
            if self.question.condition is None:
                rows = evidence.Batch(Phi, y, channel)
            try:
                belief, _ = absorb(belief, rows)
            except MiniampError:
                self.refused += 1
            self.mse.append(float(np.mean((belief.mean - x) ** 2)))
        self.done = True


def drawn(question: Question, size: float, rng: np.random.Generator) -> Array:
    """Rows of a batch with the question's singular values, (size N, N)."""
    rows = max(1, round(size * FEATURES))
    Phi: Array = rng.normal(size=(rows, FEATURES)) / np.sqrt(FEATURES)
    if question.condition is None:
        return Phi
    U, values, Vt = np.linalg.svd(Phi, full_matrices=False)
    new = np.geomspace(1.0, 1.0 / question.condition, len(values))
    # Rows of mean squared norm 1, as those of independent entries.
    new = new * np.sqrt(rows / np.sum(new**2))
    found: Array = (U * new) @ Vt
    return found
