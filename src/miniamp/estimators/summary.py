"""Summaries of fitted estimators: tables of coefficients or centres, covariances and draws."""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_random_state

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.errors import printable
from miniamp.evidence.linear import sites_of, solve

if TYPE_CHECKING:
    import pandas as pd

    from miniamp.estimators.state import FitState
    from miniamp.posterior import Posterior

#: Rows of a table that a notebook shows.
SHOWN = 20
#: Columns of a printed table, and characters of a printed name.
MOST_COLUMNS, LONGEST_NAME = 8, 32
#: Facts longer than this stand alone in their line.
SHORT = 24
#: Titles of the columns when printed.
TITLES = {
    "name": "",
    "mean": "mean",
    "std": "std",
    "p_positive": "P(>0)",
    "inclusion": "P(not 0)",
    "effect": "effect",
}


@dataclass(frozen=True, eq=False)
class Summary:
    """What is known of a fitted model, ready to be printed.

    Attributes
    ----------
    title : str
        The estimator, and what it predicts.
    facts : dict
        Rows, errors, noise, prior and the like, as text, by name.
    columns : dict
        The table: lists of equal length by name; the first one or two are names.
    note : str
        What the columns mean.
    level : float
        Probability of the intervals.
    strength : array
        What the rows are ordered by where not all are shown.
    spread : dict
        Standard deviations that are printed beside a column.
    """

    title: str
    facts: dict[str, str]
    columns: dict[str, list[Any]]
    note: str
    level: float
    strength: Array
    spread: dict[str, list[float]] = field(default_factory=dict)

    def frame(self) -> pd.DataFrame:
        """The table as a pandas DataFrame indexed by name; the facts are its `attrs`."""
        index = [name for name in ("class", "target", "cluster", "name") if name in self.columns]
        table: pd.DataFrame = checks.needed("pandas", "summary").DataFrame(self.columns)
        table = table.set_index(index)
        table.attrs = {"title": self.title, "level": self.level, **self.facts}
        return table

    def text(self, most: int | None = None) -> str:
        """Title, facts and table for a terminal, at most so many rows, the strongest first."""
        head, *body = self._cells(most)
        left = [name in ("class", "target", "name") for name in self.columns]
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        lines = []
        for row in (head, *body):
            cells = zip(row, widths, left, strict=False)
            padded = [cell.ljust(w) if text else cell.rjust(w) for cell, w, text in cells]
            lines.append("  ".join(padded).rstrip())
        facts = _two_columns(self.facts)
        wide = max(len(line) for line in [*lines, *facts, self.title])
        bar, title = "=" * wide, printable(self.title).center(wide).rstrip()
        lines[1:1] = ["-" * wide]
        return "\n".join([title, bar, *facts, bar, *lines, bar, self._note(len(body))])

    def html(self, most: int | None = SHOWN) -> str:
        """Title, facts and table as HTML for a notebook."""
        head, *body = ([html.escape(cell) for cell in row] for row in self._cells(most))
        facts = " · ".join(f"{html.escape(k)}: {html.escape(v)}" for k, v in self.facts.items())
        rows = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in body)
        note = html.escape(self._note(len(body))).replace("\n", "<br>")
        return (
            f"<p><b>{html.escape(self.title)}</b><br>{facts}</p><table><tr><th>"
            f"{'</th><th>'.join(head)}</th></tr>{rows}</table><p>{note}</p>"
        )

    def _note(self, rows: int) -> str:
        total, columns = len(self.strength), len(self.columns)
        left_out = f"the strongest {rows} of {total:,}; " if rows < total else ""
        if columns > MOST_COLUMNS:
            left_out += f"{MOST_COLUMNS - 2} of {columns - 2:,} features; "
        return f"{left_out}{self.note}"

    def _cells(self, most: int | None) -> list[list[str]]:
        names = list(self.columns)[:MOST_COLUMNS]
        ends = {"lower": f"{50 - 50 * self.level:.3g} %", "upper": f"{50 + 50 * self.level:.3g} %"}
        head = [short(ends.get(name, TITLES.get(name, name))) for name in names]
        order = np.arange(len(self.strength))
        if most is not None and most < len(order):
            order = np.argsort(-self.strength, kind="stable")[:most]
        return [head, *([self._cell(name, i) for name in names] for i in order.tolist())]

    def _cell(self, name: str, i: int) -> str:
        value = self.columns[name][i]
        if not isinstance(value, float):
            return short(str(value))
        if name in self.spread:
            std = self.spread[name][i]
            text = f"{value:.3g}"
            if abs(value) >= 1000.0:  # to the digit that is uncertain
                text = f"{value:.{max(0, -math.floor(math.log10(std))) if std > 0.0 else 0}f}"
            return f"{text} ± {std:.1g}"
        if name in ("p_positive", "inclusion"):
            return "" if np.isnan(value) else f"{value:.3f}"
        if name == "share":
            return f"{value:.1%}"
        return "" if np.isnan(value) else shown(value, 2 if name == "std" else 4)


def shown(value: float, digits: int = 4) -> str:
    """A number with so many digits, without a power of ten below ten million.

    Examples
    --------
    >>> shown(22354.4), shown(0.012345), shown(-3.2e9)
    ('22,354', '0.01235', '-3.2e+09')
    """
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e+0" in text and abs(value) < 1e7 else text


def short(text: str, longest: int = LONGEST_NAME) -> str:
    """A name that leaves room for numbers, without control characters."""
    text, half = printable(text), longest // 2
    return text if len(text) <= longest else f"{text[:half]}…{text[1 - half :]}"


def _two_columns(facts: Mapping[str, str]) -> list[str]:
    """Short facts in two columns, long ones below them."""
    items = [(printable(name), printable(value)) for name, value in facts.items()]
    short = [item for item in items if len(item[1]) <= SHORT]
    half = -(-len(short) // 2)
    columns = [short[:half], short[half:]]
    padded = []
    for column in columns:
        widths = [max((len(item[k]) for item in column), default=0) for k in (0, 1)]
        padded.append([f"{a.ljust(widths[0])}  {b.rjust(widths[1])}" for a, b in column])
    left, right = padded[0], [*padded[1], ""][:half]
    lines = [f"{a}    {b}".rstrip() for a, b in zip(left, right, strict=True)]
    return lines + [f"{name}: {value}" for name, value in items if len(value) > SHORT]


class SummaryMixin(ABC):
    """Mixin of summaries: as a table, as text, and in a notebook."""

    @abstractmethod
    def _summary(self, level: float, names: Sequence[str] | None = None) -> Summary:
        """The summary, with intervals of this probability; names replace those of the features."""

    def summary(self, level: float = 0.9) -> pd.DataFrame:
        """Table of the coefficients (of a clustering: centres) as a pandas DataFrame.

        One row per coefficient, the intercept first: posterior `mean` and `std` in the units of the
        data, the ends of the interval that contains it with probability `level`, the probability
        that it is positive (`p_positive`), the `inclusion` probability where the prior has a spike
        at zero, and the standardised `effect`: per standard deviation of the feature, in standard
        deviations of the target. Errors on rows that were predicted before they were learned from,
        noise and prior are in its `attrs`. `print(estimator.summary_text())` prints all of it.

        Examples
        --------
        >>> import numpy as np
        >>> from miniamp import MiniAMPRegressor
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> table = MiniAMPRegressor().fit(X, 3.0 * X[:, 0] + 1.0).summary()
        >>> list(table.columns)
        ['mean', 'std', 'lower', 'upper', 'p_positive', 'effect']
        >>> [round(float(mean), 2) for mean in table["mean"]]
        [1.0, 3.0, 0.0]
        """
        return self._summary(checked_level(level)).frame()

    def summary_text(self, level: float = 0.9, most: int | None = None) -> str:
        """The summary as text for a terminal; with `most` only the strongest coefficients.

        Examples
        --------
        >>> import numpy as np
        >>> from miniamp import MiniAMPRegressor
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> print(MiniAMPRegressor().fit(X, 3.0 * X[:, 0]).summary_text())  # doctest: +ELLIPSIS
            MiniAMPRegressor
        ...
        """
        return self._summary(checked_level(level)).text(most)

    def _repr_mimebundle_(self, **options: object) -> dict[str, str]:
        """Display in a notebook: the parameters, and the summary once fitted."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle and self.__sklearn_is_fitted__():  # type: ignore[attr-defined]
            bundle["text/html"] += self._summary(0.9).html()
        return bundle


def checked_level(level: float) -> float:
    """The probability of an interval, between 0 and 1."""
    level = checks.number("level", level, above=0.0, most=1.0)
    if level == 1.0:
        raise checks.refuse("level", level, "less than 1", "nothing is certain")
    return level


class JointPosterior(NamedTuple):
    """Coefficients of one target and, last, the intercept, in the user's units."""

    mean: Array  #: (N + 1,)
    covariance: Array  #: (N + 1, N + 1)


def joint(state: FitState) -> list[JointPosterior]:
    """The joint posterior of each target, refused where it is not known.

    It is known where every batch was absorbed by the robust solver with at least as many remembered
    rows as coefficients: nothing about pairs of coefficients was dropped then. It is Gaussian, and
    so an approximation for priors that are not, with the means of the Gaussian behind the marginals
    (`evidence.RobustBatch`).
    """
    amp = any(entry["solver"] == "amp" for entry in state.history)
    return [
        _joint(state, model.posterior, amp, *unit)
        for model, unit in zip(state.models, state.target_units, strict=True)
    ]


def _joint(
    state: FitState, belief: Posterior, amp: bool, centre: float, y_scale: float
) -> JointPosterior:
    remembered, N = belief.remembered, state.features
    if amp or remembered is None or belief.memory < belief.size:
        kept = "none (a batch was absorbed by AMP)" if amp else f"{belief.memory} remembered rows"
        raise checks.refuse(
            "memory",
            f"{kept} for {belief.size} coefficients, whose covariances are not known",
            "at least as many remembered rows as coefficients",
            f"set {{memory={belief.size}}} and {{solver=robust}} and fit again, or use coef_std_",
        )
    found = solve(remembered.rows, remembered.targets, sites_of(belief))
    covariance = np.diag(found.D) - found.root.T @ found.root
    # From standardised features and targets to the user's: w = unit u, b = centre + ...
    scale = state.units.scale
    unit = np.divide(y_scale, scale, out=np.zeros(N), where=scale > 0.0)
    T = np.zeros((N + 1, belief.size))
    T[:N, :N] = np.diag(unit)
    T[N, :N] = -unit * state.units.centre
    T[N, N:] = y_scale
    mean = T @ found.mean
    mean[N] += centre
    return JointPosterior(mean, T @ covariance @ T.T)


class JointUncertainty(ABC):
    """Mixin of joint posteriors of coefficients: covariances, contrasts and draws."""

    @property
    @abstractmethod
    def _learned(self) -> FitState:
        """The fit state after all rows."""

    def covariance(self) -> Array:
        """Posterior covariance of the coefficients, (N, N); of each of several classes, (K, N, N).

        Refused where it is not known, which is where `memory` is below the number of features or
        AMP has absorbed a batch: there the posterior holds marginals (`coef_std_`) alone.
        """
        N = self._learned.features
        return _squeezed([one.covariance[:N, :N] for one in joint(self._learned)])

    def contrast(self, weights: Given) -> tuple[Array, Array]:
        """Mean and standard deviation of linear combinations of the coefficients.

        Correlations count: the difference of two coefficients that stand for each other may be
        known far better than either. Refused where `covariance` is.

        Parameters
        ----------
        weights : (N,) or (C, N) array
            One combination, or several.

        Returns
        -------
        mean, std : arrays of shape () or (C,), for several classes (K,) or (K, C)

        Examples
        --------
        >>> import numpy as np
        >>> from miniamp import MiniAMPRegressor
        >>> rng = np.random.default_rng(0)
        >>> shared = rng.normal(size=200)
        >>> X = np.column_stack([shared, shared]) + 0.01 * rng.normal(size=(200, 2))
        >>> model = MiniAMPRegressor().fit(X, X.sum(axis=1) + 0.1 * rng.normal(size=200))
        >>> mean, std = model.contrast([1.0, 1.0])  # known well, unlike each of the two
        >>> bool(abs(mean - 2.0) < 4.0 * std), bool(std < 0.1 * model.coef_std_.min())
        (True, True)
        """
        N = self._learned.features
        W = checks.numeric("weights", weights)
        if W.ndim not in (1, 2) or W.shape[-1] != N:
            raise checks.refuse(
                "weights", f"shape {W.shape}", f"({N},) or (C, {N})", "one weight per feature"
            )
        found = joint(self._learned)
        mean = [W @ one.mean[:N] for one in found]
        var = [np.einsum("...i,ij,...j->...", W, one.covariance[:N, :N], W) for one in found]
        return _squeezed(mean), np.sqrt(np.maximum(_squeezed(var), 0.0))

    def sample_coefficients(
        self, size: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> tuple[Array, Array]:
        """Joint draws of the coefficients and the intercept from the posterior.

        Refused where `covariance` is. `posterior_.sample` draws each coefficient from its own
        marginal, whatever is known.

        Returns
        -------
        coef : (size, N) array, or (size, K, N) for several classes
        intercept : (size,) array, or (size, K)
        """
        size = checks.count("size", size)
        rng = check_random_state(random_state)
        draws = []
        for one in joint(self._learned):
            values, vectors = np.linalg.eigh(one.covariance)
            noise = rng.standard_normal((size, len(values)))
            draws.append(one.mean + (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
        both = draws[0] if len(draws) == 1 else np.stack(draws, axis=1)
        return both[..., :-1], both[..., -1]


def _squeezed(values: list[Array]) -> Array:
    """One array of what each target has, without an axis where there is one target."""
    return np.asarray(values[0] if len(values) == 1 else np.stack(values))
