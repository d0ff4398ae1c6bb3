"""Draw the pictures of the README and the manual again: python docs/make_pictures.py.

Pages are photographed by Chromium, driven by Playwright; where these are missing, the pictures of
pages stay as they are.
"""

import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
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
    ax.set_title("Predicted before the first row: N coefficients, 30 % not zero", fontsize=10)
    ax.grid(alpha=0.2)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "theory.png", dpi=110)


def photograph(model):
    """The report, the explorer, the watched stream and the service, as a browser shows them."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None or find_spec("playwright") is None:
        return
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (optional)

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        here = Path(folder)
        page = report.write_report(model, here / "report.html", title="A sparse stream")
        shoot(browser, page.as_uri(), "report", (1200, 1250))
        model.save(here / "stream.amp")
        served = MiniAMPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9])
        served.save(here / "served.amp")
        for name, words, size in (
            ("explore", ["explore"], (1280, 1000)),
            ("watch", ["watch", str(here / "stream.amp")], (1280, 1000)),
            ("serve", ["serve", str(here / "served.amp")], (1000, 900)),
        ):
            command = [sys.executable, "-m", "miniamp", *words, "--port", "0"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                address = process.stdout.readline().split()[-1]
                shoot(browser, f"{address}/{LINKS.get(name, '')}", name, size)
                process.terminate()
        browser.close()


#: What is asked of the pages, where it is not the beginning.
LINKS = {"explore": "?rho=0.3&noise=-8&batch=0.4&span=2&look=1", "serve": "docs"}


def shoot(browser, address, name, size):
    """A picture of the upper part of a page, in light."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme="light")
    page.goto(address)
    page.wait_for_timeout(6000)  # until the fine curves are there
    if name == "explore":
        page.click("#simulate")
        page.wait_for_timeout(8000)
    page.screenshot(path=IMAGES / f"{name}.png")
    page.close()


if __name__ == "__main__":
    stream = fitted()
    plots(stream)
    phases()
    photograph(stream)
