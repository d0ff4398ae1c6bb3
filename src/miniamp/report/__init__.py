"""Reports: one HTML page per fit, and each of its plots for papers (extra: report).

Every plot takes a fitted estimator (a MiniAMPRegressor, MiniAMPClassifier or MiniAMPClusterer),
draws on matplotlib axes (new ones unless `ax` is given) and returns them.

Examples
--------
>>> import numpy as np
>>> from miniamp import MiniAMPRegressor, report
>>> X = np.random.default_rng(0).normal(size=(160, 2))
>>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
>>> for plot in (report.plot_coverage, report.plot_residuals, report.plot_health):
...     print(plot(model).get_ylabel())
share of outcomes inside
residual, standardised
observed / expected
"""

from miniamp.report.calibration import (
    plot_balance,
    plot_confusion,
    plot_coverage,
    plot_reliability,
    plot_residuals,
    plot_roc,
)
from miniamp.report.choices import Decision, choices
from miniamp.report.coefficients import plot_clusters, plot_coefficients, plot_inclusion
from miniamp.report.page import write_report
from miniamp.report.stream import plot_error, plot_health, plot_hyper_parameters, plot_variance

__all__ = [
    "Decision",
    "choices",
    "plot_balance",
    "plot_clusters",
    "plot_coefficients",
    "plot_confusion",
    "plot_coverage",
    "plot_error",
    "plot_health",
    "plot_hyper_parameters",
    "plot_inclusion",
    "plot_reliability",
    "plot_residuals",
    "plot_roc",
    "plot_variance",
    "write_report",
]
