"""What goes into the summary of an estimator: coefficients, centres, errors; draws for ArviZ."""

from __future__ import annotations

import copy
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.estimators.history import Entry
from miniamp.estimators.summary import JointPosterior, Summary, joint
from miniamp.estimators.summary import shown as number

if TYPE_CHECKING:
    from arviz import InferenceData

    from miniamp.estimators.base import StreamingEstimator
    from miniamp.estimators.clusterer import MiniAMPClusterer
    from miniamp.estimators.state import FitState

T = TypeVar("T")

#: With fewer rows than this there are no two residuals to learn the noise from.
FEW_ROWS = 3
#: Features up to which a summary uses the covariances of coefficients: of 500, 0.1 s.
MOST_JOINT = 500
#: Columns of the table of coefficients.
COLUMNS = ("name", "mean", "std", "lower", "upper", "p_positive", "inclusion", "effect")


def to_arviz(estimator: StreamingEstimator, draws: int, random_state: int | None) -> InferenceData:
    """Draws from the posterior of a regressor or classifier, as ArviZ takes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its own future
        arviz = checks.needed("arviz", "to_arviz")
    state, draws = estimator._learned, checks.count("draws", draws)
    known = True
    try:
        coef, intercept = estimator.sample_coefficients(draws, random_state)
    except InvalidInputError:  # covariances are not known: each from its own marginal
        rng, found, known = np.random.default_rng(random_state), state.coefficients, False
        coef = found.mean + found.std * rng.standard_normal((draws, *found.mean.shape))
        std = np.array([_intercept_std(state, k) for k in range(state.targets)])
        intercept = found.intercept + std * rng.standard_normal((draws, state.targets))
        if state.targets == 1:
            coef, intercept = coef[:, 0], intercept[:, 0]
    several = state.targets > 1
    names = feature_names(estimator, state.features)
    kind, labels = target_labels(estimator, state.targets)
    made: InferenceData = arviz.from_dict(
        posterior={"coef": coef[None], "intercept": intercept[None]},
        coords={"feature": names, **({kind: labels} if several else {})},
        dims={
            "coef": [kind, "feature"] if several else ["feature"],
            "intercept": [kind] if several else [],
        },
        posterior_attrs={"joint": int(known), "inference_library": "miniamp"},
    )
    return made


def of_coefficients(
    estimator: StreamingEstimator, state: FitState, level: float, names: Sequence[str] | None = None
) -> Summary:
    """The summary of a regressor or classifier in this state."""
    found, N = state.coefficients, state.features
    classes = getattr(estimator, "classes_", None)
    names = list(feature_names(estimator, N) if names is None else names)
    several = state.targets > 1
    intercepts = state.settings.intercept
    kind, labels = target_labels(estimator, state.targets)
    spike = bool(np.any(found.inclusion < 1.0))
    constant = state.units.scale == 0.0
    known = _joint(state)
    groups = [] if spike or known is None or not intercepts else _categories(state, names)
    spread = np.where(constant, np.nan, _feature_std(state))
    parts: list[dict[str, list[Any]]] = []
    for k, (_, y_scale) in enumerate(state.target_units):
        unit = spread / (y_scale * _target_std(state))
        mean = np.append(found.intercept[k], found.mean[k])
        std = np.append(_intercept_std(state, k), found.std[k])
        if known is not None:
            mean, std = _centred(mean, std, known[k].covariance, groups)
        inclusion = np.append(1.0, found.inclusion[k])
        std[1:][constant] = np.nan  # nothing is known about a feature that never varied
        lower, upper = (_quantile(mean, std, inclusion, 0.5 + s * level / 2.0) for s in (-1, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            strong = np.nan_to_num(np.abs(mean) / std, posinf=np.finfo(float).max)
        p_positive = _p_positive(mean, std, inclusion)
        effect, strong[0] = np.append(np.nan, mean[1:] * unit), np.inf
        each = (mean, std, lower, upper, p_positive, inclusion, effect, strong)
        values = ([labels[k]] * (N + 1), ["intercept", *names], *(one.tolist() for one in each))
        rows = (one[0 if intercepts else 1 :] for one in values)
        parts.append(dict(zip((kind, *COLUMNS, "strength"), rows, strict=True)))
    whole = {name: [v for part in parts for v in part[name]] for name in parts[0]}
    shown = [kind] * several + [name for name in COLUMNS if spike or name != "inclusion"]
    columns, strength = {name: whole[name] for name in shown}, np.array(whole["strength"])
    note = "effect: per standard deviation of the feature" + (
        ", in standard deviations of the target" if classes is None else ", on the link's scale"
    )
    if state.rows_seen < FEW_ROWS:
        note += "\nthe noise is a guess with so few rows, and so are all standard deviations"
    if groups:
        note += "\nlevels of a category: differences from the mean of its levels"
    if constant.any():
        some = ", ".join(np.array(names)[constant][:5])
        more = ", ..." if constant.sum() > 5 else ""
        note += f"\nnothing is known about features that never varied: {some}{more}"
    title = type(estimator).__name__
    if classes is not None and not several:
        title += f": {classes[1]} against {classes[0]}"
    return Summary(title, _facts(estimator, state), columns, note, level, strength)


def _joint(state: FitState) -> list[JointPosterior] | None:
    """Joint posteriors where they are known and not too large for a summary."""
    if state.features > MOST_JOINT:
        return None
    try:
        return joint(state)
    except InvalidInputError:
        return None


def _categories(state: FitState, names: Sequence[str]) -> list[list[int]]:
    """Features that are the levels of one category, "city=Rome": one of them is 1 in every row.

    Only their differences are known. Where a level is left out as the reference, there is no such
    group, and coefficients are differences from that level.
    """
    groups: dict[str, list[int]] = {}
    tally = state.tally
    for j, name in enumerate(names):
        found = re.match(r"(.+?)[=:].", name)
        if found and len(tally.low) and tally.low[j] == 0.0 and tally.high[j] == 1.0:
            groups.setdefault(found[1], []).append(j)
    share = tally.total / max(tally.rows, 1)  # of rows that have the level
    return [g for g in groups.values() if len(g) > 1 and abs(share[g].sum() - 1.0) < 1e-6]


def _feature_std(state: FitState) -> Array:
    """Standard deviation of each feature: its unit is its spread about the first batch's mean."""
    tally, frame = state.tally, state.units
    if not tally.rows or np.ndim(frame.counted) or not frame.counted:
        return frame.scale
    away = tally.total / tally.rows - frame.centre
    var = np.square(frame.scale) - np.square(away)
    return np.sqrt(np.where(var > 0.0, var, np.square(frame.scale)))


def _target_std(state: FitState) -> float:
    """Standard deviation of the targets of all rows, in those of the first batch."""
    count, total, square = state.tally.targets
    first = max(state.rows_seen * state.targets - count, 0.0)  # of mean 0 and variance 1
    rows = first + count
    var = (first + square) / rows - (total / rows) ** 2
    return float(np.sqrt(var)) if count and var > 0.0 else 1.0


def _centred(
    mean: Array, std: Array, covariance: Array, groups: list[list[int]]
) -> tuple[Array, Array]:
    """Intercept and coefficients, the levels of each category less their mean."""
    N = len(mean) - 1
    T = np.eye(N + 1)
    for group in groups:
        T[np.ix_(group, group)] -= 1.0 / len(group)
        T[N, group] = 1.0 / len(group)
    moved = T @ np.append(mean[1:], mean[0])
    var = np.maximum(np.einsum("ij,jk,ik->i", T, covariance, T, optimize=True), 0.0)
    changed = sorted({j + 1 for group in groups for j in group} | {0})
    mean, std = mean.copy(), std.copy()
    mean[changed] = np.append(moved[N], moved[:N])[changed]
    std[changed] = np.sqrt(np.append(var[N], var[:N]))[changed]
    return mean, std


def of_clusters(
    estimator: MiniAMPClusterer, level: float, names: Sequence[str] | None = None
) -> Summary:
    """The summary of a clustering: one row per cluster, the features that separate best first."""
    centres, std = estimator.cluster_centers_, estimator.cluster_std_
    names = list(feature_names(estimator, centres.shape[1]) if names is None else names)
    share = np.asarray(estimator.cluster_weights_)
    noise = np.sqrt(np.asarray(estimator.noise_))
    much = f"{noise:.4g}" if noise.ndim == 0 else f"{noise.min():.3g} to {noise.max():.3g}"
    columns: dict[str, list[Any]] = {"cluster": list(range(len(centres))), "share": share.tolist()}
    order = separating(centres, std)
    columns |= {names[j]: centres[:, j].tolist() for j in order}
    spread = {names[j]: std[:, j].tolist() for j in order}
    facts = {
        "rows": f"{estimator.n_samples_seen_:,}",
        "batches": f"{len(estimator.history_):,}",
        "features": f"{len(names):,}",
        "noise (std)": much,
    }
    note = "centres; features that separate the clusters best come first"
    title = f"{type(estimator).__name__}: {len(centres)} clusters"
    return Summary(title, facts, columns, note, level, share, spread)


def separating(centres: Array, std: Array) -> list[int]:
    """All features, those that separate clusters best first.

    By how far a centre is from the mean of all, in standard deviations of its own uncertainty.
    """
    away = np.abs(centres - centres.mean(axis=0)) / np.maximum(std, np.finfo(float).tiny)
    return [int(j) for j in np.argsort(-away.max(axis=0), kind="stable")]


def feature_names(estimator: object, size: int) -> list[str]:
    """The names of the features, x0, x1, ... where they have none."""
    known = getattr(estimator, "feature_names_in_", None)
    return [f"x{i}" for i in range(size)] if known is None else [str(name) for name in known]


def target_labels(estimator: object, targets: int) -> tuple[str, list[str]]:
    """What several targets are, classes or targets, and their names."""
    known = getattr(estimator, "classes_", None)
    if known is not None:
        return "class", [str(name) for name in known]
    named = getattr(estimator, "target_names_in_", None)
    names = [f"y{k}" for k in range(targets)] if named is None else [str(name) for name in named]
    return "target", names


def finite(value: object) -> object:
    """The value as JSON can write it: arrays as lists, None in the place of nan and infinities."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def nameless(estimator: T) -> T:
    """A copy that takes arrays without asking for the names of their columns."""
    made = copy.copy(estimator)
    made.__dict__.pop("feature_names_in_", None)
    return made


def mean_over_rows(history: Sequence[Mapping[str, object]], name: str) -> float | None:
    """The mean over all rows that were predicted before they were learned."""
    known = [(entry["rows"], entry[name]) for entry in history if entry.get(name) is not None]
    rows, values = np.array(known, dtype=float).reshape(-1, 2).T
    return float(rows @ values / rows.sum()) if rows.any() else None


def latest(history: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """The latest predicted batches, as many as it takes to have the rows of a usual one.

    The last batch of a file is often short: two rows tell nothing about the error.
    """
    scored = [entry for entry in history if entry.get("error") is not None]
    rows = np.array([entry["rows"] for entry in scored], dtype=float)
    enough = np.cumsum(rows[::-1]) >= np.median(rows) if len(rows) else np.zeros(0)
    return scored[len(scored) - 1 - int(np.argmax(enough)) :] if len(rows) else []


def _facts(estimator: StreamingEstimator, state: FitState) -> dict[str, str]:
    history = state.history
    last = history[-1]
    error = mean_over_rows(history, "error")
    facts = {
        "rows": f"{state.rows_seen:,}",
        "batches": f"{last['batch'] + 1:,}",
        "features": f"{state.features:,}",
        "solver": last["solver"],
    }
    several = state.targets > 1
    if several:
        facts["classes" if hasattr(estimator, "classes_") else "targets"] = f"{state.targets:,}"
    elif last.get("noise_var") is not None and not hasattr(estimator, "classes_"):
        facts["noise (std)"] = number(np.sqrt(last["noise_var"]))
    if error is None:
        facts["errors on unseen rows"] = "unknown: a single batch"
    elif hasattr(estimator, "classes_"):
        score, auc = mean_over_rows(history, "score"), state.tally.auc
        facts["log loss, unseen rows"] = f"{-(score or np.nan):.4g}"
        facts["AUC, unseen rows"] = "unknown" if auc is None else f"{auc:.4f}"
        facts["errors, unseen rows"] = f"{error:.2%}"
    else:
        r2 = state.tally.r2
        facts["R2, unseen rows"] = "unknown" if r2 is None else f"{r2:.4f}"
        if not several:  # targets have units of their own
            facts["RMSE, unseen rows"] = number(np.sqrt(error))
        inside = mean_over_rows(history, "coverage")
        if inside is not None:
            facts["in 90 % intervals"] = f"{inside:.1%}"
    own = several and not hasattr(estimator, "classes_")
    facts["prior"] = _prior_text(estimator.prior, {} if own else last)
    if state.settings.auto_forget:
        facts["forget, learned"] = f"{state.settings.forget:.4g}"
    return facts


def _prior_text(prior: object, last: Entry) -> str:
    numbers = [
        f"{name.removeprefix('prior_')}={value:.3g}"
        for name, value in last.items()
        if name.startswith("prior_") and isinstance(value, float) and value != 0.0
    ]
    name = last.get("prior", prior) if isinstance(prior, str) else type(prior).__name__
    return f"{name}({', '.join(numbers)})" if numbers else name


def _intercept_std(state: FitState, k: int) -> float:
    """Standard deviation of an intercept, coefficients taken as independent of each other."""
    model, N = state.models[k], state.features
    at_centre = state.target_units[k][1] ** 2 * float(np.sum(model.var[N:]))
    shift = np.square(state.coefficients.std[k] * state.units.centre)
    return float(np.sqrt(at_centre + shift.sum()))


def _slab(mean: Array, std: Array, inclusion: Array) -> tuple[Array, Array]:
    """Mean and deviation of coefficients given that they are not zero."""
    p = np.maximum(inclusion, np.finfo(float).tiny)
    centre = mean / p
    var = (np.square(std) + np.square(mean)) / p - np.square(centre)
    return centre, np.sqrt(np.maximum(var, 0.0))


def _p_positive(mean: Array, std: Array, inclusion: Array) -> Array:
    """P(coefficient > 0): exact for a Gaussian with or without a spike at zero."""
    centre, width = _slab(mean, std, inclusion)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(width == 0.0, (centre > 0.0) * 1.0, ndtr(centre / width))
    return np.asarray(inclusion * above)


def _quantile(mean: Array, std: Array, inclusion: Array, q: float) -> Array:
    """Quantile of a spike at zero beside a Gaussian of these moments."""
    centre, width = _slab(mean, std, inclusion)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = inclusion * np.where(width == 0.0, (centre < 0.0) * 1.0, ndtr(-centre / width))
        left = centre + width * ndtri(np.clip(q / inclusion, 0.0, 1.0))
        right = centre + width * ndtri(np.clip((q - 1.0 + inclusion) / inclusion, 0.0, 1.0))
    found = np.where(q < below, left, np.where(q > below + 1.0 - inclusion, right, 0.0))
    return np.asarray(np.where(np.isnan(std), np.nan, found))


def entry_line(entry: Entry) -> str:
    """One batch in a line, for a log."""
    error = f", error before learning {entry['error']:.4g}" if "error" in entry else ""
    return (
        f"batch {entry['batch'] + 1}: {entry['rows']} rows, {entry['iterations']} iterations "
        f"({entry['solver']}){error}"
    )
