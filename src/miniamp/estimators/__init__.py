"""Estimators with the scikit-learn API (extra: sklearn)."""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    from miniamp.errors import MissingExtraError

    raise MissingExtraError(
        "miniamp.estimators",
        expected="scikit-learn",
        remedy='install it with pip install "miniamp[sklearn]"',
    ) from error

from miniamp.estimators.classifier import MiniAMPClassifier
from miniamp.estimators.clusterer import MiniAMPClusterer
from miniamp.estimators.formula import FormulaClassifier, FormulaRegressor, from_formula
from miniamp.estimators.health import Finding, HealthReport, HealthWarning
from miniamp.estimators.merging import merge
from miniamp.estimators.onnx import to_onnx
from miniamp.estimators.regressor import MiniAMPRegressor
from miniamp.estimators.saving import load

__all__ = [
    "Finding",
    "FormulaClassifier",
    "FormulaRegressor",
    "HealthReport",
    "HealthWarning",
    "MiniAMPClassifier",
    "MiniAMPClusterer",
    "MiniAMPRegressor",
    "from_formula",
    "load",
    "merge",
    "to_onnx",
]
