"""Draw the pictures of the README and the manual again: python docs/make_pictures.py.

The report is photographed by a headless Chromium where there is one, and left as it is where not.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from miniamp import MiniAMPRegressor, channels, priors, report, theory

IMAGES = Path(__file__).parent / "images"
FEATURES, BATCH, BATCHES = 200, 60, 12


def fitted():
    """A stream in which 20 of 200 features are at work."""
    rng = np.random.default_rng(0)
    coef = np.zeros(FEATURES)
    coef[rng.choice(FEATURES, 20, replace=False)] = rng.normal(size=20)
    model = MiniAMPRegressor("sparse")
    for _ in range(BATCHES):
        X = rng.normal(size=(BATCH, FEATURES))
        model.partial_fit(X, X @ coef + 3.0 + 0.3 * rng.normal(size=BATCH))
    return model


def plots(model):
    """Four plots of the report, as for a paper."""
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    axes = figure.subplots(2, 2)
    report.plot_error(model, axes[0, 0])
    report.plot_coverage(model, axes[0, 1])
    report.plot_inclusion(model, axes[1, 0])
    report.plot_coefficients(model, axes[1, 1], most=12)
    figure.savefig(IMAGES / "plots.png", dpi=110)


def phases():
    """Errors by size of a batch, from the theory alone."""
    prior, channel = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8)
    figure = Figure(figsize=(6.0, 3.4), layout="constrained")
    ax = figure.subplots()
    for alpha_b in (0.1, 0.2, 0.35, 0.6):
        curve = theory.learning_curve(prior, channel, alpha_b, alpha_max=3.0)
        curve.plot(ax, marker="o", markersize=3, label=f"batches of {alpha_b:g} N rows")
    theory.online_curve(prior, channel, np.linspace(0.01, 3.0, 100)).plot(
        ax, color="0.4", linestyle="--", label="one row at a time"
    )
    ax.set_title("Foretold before the first row: N coefficients, 30 % not zero", fontsize=10)
    ax.grid(alpha=0.2)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "theory.png", dpi=110)


def photograph(model):
    """The upper part of the report's page."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        page = report.write_report(model, Path(folder) / "report.html", title="A sparse stream")
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--no-first-run",
                "--hide-scrollbars",
                "--virtual-time-budget=8000",
                f"--user-data-dir={folder}/profile",
                f"--screenshot={IMAGES / 'report.png'}",
                "--window-size=1200,1250",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    stream = fitted()
    plots(stream)
    phases()
    photograph(stream)
