"""Reports: a stream as one HTML page, and each of its plots for papers (extra: report)."""

from miniamp.report.balance import plot_balance
from miniamp.report.choices import Choice, choices
from miniamp.report.clusters import plot_clusters
from miniamp.report.coefficients import plot_coefficients
from miniamp.report.coverage import plot_coverage
from miniamp.report.error import plot_error
from miniamp.report.health import plot_health
from miniamp.report.hyper_parameters import plot_hyper_parameters
from miniamp.report.inclusion import plot_inclusion
from miniamp.report.reliability import plot_reliability
from miniamp.report.variance import plot_variance
from miniamp.report.write import write_report

__all__ = [
    "Choice",
    "choices",
    "plot_balance",
    "plot_clusters",
    "plot_coefficients",
    "plot_coverage",
    "plot_error",
    "plot_health",
    "plot_hyper_parameters",
    "plot_inclusion",
    "plot_reliability",
    "plot_variance",
    "write_report",
]
