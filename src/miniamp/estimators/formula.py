"""Models given by a formula such as "tip ~ bill * sex", for data frames (extra: formula)."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

import numpy as np

from miniamp import checks
from miniamp.arrays import Given
from miniamp.estimators.base import StreamingEstimator
from miniamp.estimators.classifier import MiniAMPClassifier
from miniamp.estimators.regressor import MiniAMPRegressor
from miniamp.estimators.rows import Rows, plain
from miniamp.estimators.saving import State
from miniamp.estimators.scoring import RowPrediction
from miniamp.estimators.settings import ModelSettings

if TYPE_CHECKING:
    import pandas as pd

#: formulaic's module or a specification of it: a formula with the levels of the first rows.
Formulaic: TypeAlias = Any
#: Name of the column of ones that formulaic adds.
ONES = "Intercept"
#: Functions that a formula may call. Others could run any code when a file with one is loaded.
FUNCTIONS = (
    *("C", "I", "bs", "center", "cr", "cs", "exp", "exp10", "log", "log10", "log2"),
    *("poly", "scale"),
    *(f"contr.{name}" for name in ("treatment", "SAS", "sum", "helmert", "diff", "poly")),
    *(f"np.{name}" for name in ("abs", "exp", "log", "log1p", "log10", "sqrt", "square")),
)
#: What a name is that is not a column.
ROOTS = {name.split(".")[0] for name in FUNCTIONS}
#: Rows from which a loaded formula is read again, before its levels and transforms are restored.
TEMPLATE_ROWS = 100


def from_formula(
    formula: str, data: Given = None, *, estimator: str = "auto", **options: Any
) -> FormulaRegressor | FormulaClassifier:
    """Create a model from a formula, and fit it to a data frame if one is given.

    Parameters
    ----------
    formula : str
        In the language of formulaic, R and patsy: "tip ~ bill * sex", "log(price) ~ poly(area, 2) +
        C(zone, contr.treatment('centre'))". Categories have treatment contrasts: the first level,
        or the one named, is the reference, and coefficients are differences from it.
    data : DataFrame, optional
        Rows to fit. Without, call `fit` or `partial_fit` with data frames. Later rows use the
        levels of the first; where these do not have all, use pandas.Categorical or C(x, levels=).
    estimator : "auto", "regressor" or "classifier"
        "auto" makes a classifier where the target is text, categories or booleans.
    **options
        Parameters of `MiniAMPRegressor` or `MiniAMPClassifier`. Whether there is an intercept is
        up to the formula ("y ~ 0 + x" has none).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> data = pd.DataFrame({"bill": rng.uniform(5, 50, 200), "sex": ["f", "m"] * 100})
    >>> data["tip"] = 1.0 + 0.1 * data.bill + 0.5 * (data.sex == "m") + 0.1 * rng.normal(size=200)
    >>> model = from_formula("tip ~ bill + sex", data)
    >>> model.feature_names_in_.tolist(), model.coef_.round(1).tolist()
    (['bill', 'sex[T.m]'], [0.1, 0.5])
    >>> model.predict(pd.DataFrame({"bill": [10.0], "sex": ["m"]})).round(1).tolist()
    [2.5]
    """
    checks.choice("estimator", estimator, ("auto", "regressor", "classifier"))
    left, right, ones = _parsed(formula)
    if estimator == "auto":
        if data is None:
            raise checks.refuse(
                "estimator", "'auto' without data", "'regressor' or 'classifier'", "choose one"
            )
        frame = _checked(_frame(data), [*left, *right], {})
        numeric = all(frame[name].dtype.kind in "fiu" for name in left)
        estimator = "regressor" if numeric else "classifier"
    kinds = {"regressor": FormulaRegressor, "classifier": FormulaClassifier}
    model = kinds[estimator](formula, **{**options, "fit_intercept": ones})
    return model if data is None else model.fit(data)


class _Formula(StreamingEstimator):
    """A model whose rows are data frames, made into features by a formula."""

    _labels: ClassVar[bool]  #: whether the target is labels, which no transform is applied to

    def __init__(self, formula: str, **options: Any) -> None:
        super().__init__(**options)
        self.formula = formula

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return ["formula", *cls.__bases__[1]._get_param_names()]  # type: ignore[attr-defined]

    def fit(self, X: Given, y: Given = None, sample_weight: Given = None) -> Self:
        """Fit the model to a data frame from scratch; the formula names the target."""
        return super().fit(X, y, sample_weight)

    def partial_fit(self, X: Given, y: Given = None, *rest: Given, **options: Given) -> Self:
        """Update the model with the rows of a data frame; levels are those of the first rows."""
        return super().partial_fit(X, y, *rest, **options)

    def _rows(
        self, settings: ModelSettings, X: Given, y: Given, weights: Given, *, reset: bool
    ) -> Rows:
        left, right, _ = _parsed(self.formula)
        data = _checked(_frame(X), [*left, *right], {} if reset else self._levels)
        if reset:
            self._read(data, right)
        if self._labels:
            y = data[left[0]].to_numpy()
        else:
            made = self._specs[0].get_model_matrix(data, na_action="ignore")
            y = made if made.shape[1] > 1 else made.to_numpy()[:, 0]
        return super()._rows(settings, self._matrix(data), y, weights, reset=reset)

    def _predictions(self, X: Given) -> list[RowPrediction]:
        if not hasattr(X, "columns"):  # an array has the columns of the model matrix
            return super()._predictions(X)
        data = _checked(_frame(X), _parsed(self.formula)[1], self._levels)
        return super()._predictions(self._matrix(data))

    def _read(self, data: pd.DataFrame, variables: list[str]) -> None:
        """Levels and transforms of these rows."""
        sides = [side.strip() for side in self.formula.split("~", 1)]
        sides = [f"0 + {sides[0]}", sides[1]] if not self._labels else sides[1:]
        formula = _formulaic().Formula
        made = [formula(side).get_model_matrix(data, na_action="ignore") for side in sides]
        self._specs: list[Formulaic] = [one.model_spec for one in made]
        self._levels: dict[str, list[Any]] = {}
        for factor, (_, state) in self._specs[-1].encoder_state.items():
            own = [name for name in variables if re.search(rf"\b{re.escape(name)}\b", str(factor))]
            if "categories" in state and len(own) == 1:
                self._levels[own[0]] = list(state["categories"])

    def _matrix(self, data: pd.DataFrame) -> pd.DataFrame:
        made = self._specs[-1].get_model_matrix(data, na_action="ignore")
        return made[[name for name in made.columns if name != ONES]].astype(float)

    def _fitted(self) -> State:
        fitted = super()._fitted()
        if fitted:
            fitted["formula"] = {
                "levels": _pairs(self._levels),
                "transforms": [_pairs(spec.transform_state) for spec in self._specs],
            }
        return fitted

    def _restore(self, fitted: State) -> None:
        import pandas as pd  # noqa: PLC0415 (optional)

        saved, (left, right, _) = fitted.pop("formula"), _parsed(self.formula)
        places, columns = np.arange(TEMPLATE_ROWS), {}
        for name in dict.fromkeys([*left, *right]):
            columns[name] = pd.Series(1.0 + places / TEMPLATE_ROWS)
        for name, levels in _unpaired(saved["levels"]).items():
            codes = np.resize(np.arange(len(levels)), max(len(levels), TEMPLATE_ROWS))
            columns[name] = pd.Series(pd.Categorical.from_codes(codes[:TEMPLATE_ROWS], levels))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # about the template
            self._read(pd.DataFrame(columns), right)
        for spec, transforms in zip(self._specs, saved["transforms"], strict=True):
            spec.transform_state.update(_unpaired(transforms))
        super()._restore(fitted)


class FormulaRegressor(_Formula, MiniAMPRegressor):
    """`MiniAMPRegressor` of a formula; see `from_formula`."""

    _labels = False


class FormulaClassifier(_Formula, MiniAMPClassifier):
    """`MiniAMPClassifier` of a formula; see `from_formula`."""

    _labels = True


def _formulaic() -> Formulaic:
    return checks.needed("formulaic", "from_formula")


def _parsed(text: str) -> tuple[list[str], list[str], bool]:
    """Variables of the target and of the features, and whether there is an intercept."""
    bare = re.sub(r"`[^`]*`", "x", text)  # quoted names of columns
    called = set(re.findall(r"[A-Za-z_][\w.]*(?=\s*\()|[A-Za-z_]\w*\.[\w.]*", bare)) - set(
        FUNCTIONS
    )
    if called or re.search(r"__|[{}@]|[\])]\s*\(|\blambda\b", bare):
        raise checks.refuse(
            "formula",
            f"the function {min(called)}" if called else repr(text),
            f"operators and {', '.join(FUNCTIONS)}",
            "add the column to the data frame",
        )
    try:
        parsed = _formulaic().Formula(text)
        left, right = parsed.lhs, parsed.rhs
    except (AttributeError, SyntaxError) as error:
        raise checks.refuse(
            "formula", repr(text), "target ~ features", "such as 'y ~ a + b'"
        ) from error
    ones = "1" in [str(term) for term in right]
    return _variables(left), _variables(right), ones


def _variables(terms: Formulaic) -> list[str]:
    """The columns that terms are made of, in order."""
    names: dict[str, None] = {}
    for factor in (factor for term in terms for factor in term.factors):
        if factor.eval_method.value == "lookup":
            names[str(factor.expr)] = None
        elif factor.eval_method.value == "python":
            names |= dict.fromkeys(re.findall(r"`([^`]*)`", factor.expr))
            tree = ast.walk(ast.parse(re.sub(r"`[^`]*`", "0", factor.expr)))
            found = [node.id for node in tree if isinstance(node, ast.Name)]
            names |= dict.fromkeys(name for name in found if name not in ROOTS)
    return list(names)


def _frame(X: Given) -> pd.DataFrame:
    table: Any = plain(X)
    table = table.to_pandas() if hasattr(table, "to_pandas") else table
    if not hasattr(table, "columns"):
        raise checks.refuse("X", type(X).__name__, "a data frame", "name its columns")
    return cast("pd.DataFrame", table)


def _checked(data: pd.DataFrame, names: list[str], levels: Mapping[str, list[Any]]) -> pd.DataFrame:
    """The rows, refused where a column, a value or a level is missing."""
    for name in names:
        if name not in data.columns:
            raise checks.refuse("X", f"no column {name!r}", "all of the formula's", "add it")
        if data[name].isna().any():
            raise checks.refuse(name, "missing values", "a value in every row", "drop or fill them")
        unknown = set(data[name]) - set(levels.get(name, data[name]))
        if unknown:
            raise checks.refuse(
                name,
                f"the level {min(unknown, key=str)!r}",
                f"one of {levels[name][:8]}",
                f"drop such rows, or list all levels at first: C({name}, levels=[...])",
            )
    return data


def _pairs(values: Any) -> Any:
    """Nested dicts as lists of pairs, since keys may be numbers; numbers as plain ones."""
    if isinstance(values, Mapping):
        return {"pairs": [[_pairs(key), _pairs(value)] for key, value in values.items()]}
    if isinstance(values, (list, tuple)):
        return [_pairs(value) for value in values]
    return values.item() if isinstance(values, np.generic) else values


def _unpaired(values: Any) -> Any:
    """The way back from `_pairs`."""
    if isinstance(values, dict):
        return {key: _unpaired(value) for key, value in values["pairs"]}
    return [_unpaired(value) for value in values] if isinstance(values, list) else values
