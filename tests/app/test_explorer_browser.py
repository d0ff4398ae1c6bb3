"""The explorer in a real browser: every control is used, on a wide and on a narrow screen."""

import time
from urllib.parse import parse_qsl

import pytest

pytest.importorskip("plotly")

from miniamp.app.explorer import application
from miniamp.app.question import Question

READY = "document.querySelector('#advice') !== null && !document.querySelector('#status').innerText"
DRAWN = "document.querySelector('#plot0 .scatterlayer .trace') !== null"


@pytest.fixture
def app():
    return application()


def wait(page, condition, seconds=60.0):
    """Poll: the page allows no script as text, which `wait_for_function` would use."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


def python_says(page, text):
    wait(page, f"document.querySelector('#python').innerText.includes({text!r})")


@pytest.mark.slow
def test_every_control_changes_the_answer(app, shown, open_page):
    page = open_page(shown(app))
    wait(page, DRAWN)
    wait(page, READY)
    for name, choice, text in [
        ("prior", "laplace", "priors.Laplace("),
        ("prior", "sparse", "priors.GaussBernoulli("),
        ("channel", "probit", "channels.Probit("),
        ("channel", "gaussian", "channels.Gaussian("),
        ("design", "orthogonal rows", "Spectrum.orthogonal("),
        ("design", "independent entries", "size, batches)"),
    ]:
        page.select_option(f"#{name}", label=choice)
        python_says(page, text)
    for name, key, text in [
        ("rho", "ArrowRight", "rho=0.32"),
        ("noise", "ArrowRight", "var=0.00017782794100389227"),
        ("batch", "ArrowRight", "size, batches = 0.22, 13"),
        ("span", "ArrowRight", "size, batches = 0.22, 15"),
    ]:
        page.locator(f"#{name}-row").get_by_role("slider").press(key)
        python_says(page, text)
    page.locator("#target-row").get_by_role("slider").press("ArrowLeft")
    wait(page, "document.querySelector('#command').innerText.includes('--target-mse 0.0056')")
    page.locator("#look-row").get_by_role("slider").press("ArrowRight")
    wait(page, "location.search.includes('look=2')")
    page.fill("#features", "5000")
    page.press("#features", "Enter")
    wait(page, "document.querySelector('#command').innerText.includes('--features 5000')")
    page.fill("#sizes", "0.5, 2x0.1")
    page.press("#sizes", "Enter")
    python_says(page, "[0.5, 0.1, 0.1]")

    page.click("#simulate")
    wait(page, "document.querySelector('#status').innerText.includes('3 of 3 batches')")
    wait(page, "document.querySelector('#plot0').innerText.includes('simulation, N = 1000')")
    page.click("#stop")

    # The address holds the whole state.
    there = open_page(page.url)
    wait(there, DRAWN)
    python_says(there, "[0.5, 0.1, 0.1]")
    assert there.inner_text("#python") == page.inner_text("#python")
    assert "rho=0.32" in there.inner_text("#python")
    assert there.inner_text("#command") == page.inner_text("#command")


def test_a_narrow_dark_page_has_no_sideways_scroll(app, shown, open_page):
    page = open_page(shown(app), width=390, scheme="dark")
    wait(page, DRAWN)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(18, 22, 28)"


def test_a_script_in_the_link_does_nothing(app, shown, open_page):
    page = open_page(
        shown(app) + "?prior=<script>alert(1)</script>&sizes=<img src=x onerror=alert(1)>"
    )
    wait(page, DRAWN)
    query = page.evaluate("location.search")[1:]
    assert Question.of(dict(parse_qsl(query))) == Question()


@pytest.mark.slow
def test_a_moved_slider_is_answered_within_300_ms(app, shown, open_page):
    """From the move until the new curve is drawn, median of nine moves of the noise."""
    page = open_page(shown(app))
    wait(page, READY)
    times = page.evaluate(
        """async () => {
          const slider = document.querySelector('#noise');
          const python = document.querySelector('#python');
          const times = [];
          for (let i = 0; i < 9; i++) {
            const before = python.innerText;
            const start = performance.now();
            slider.stepUp();
            slider.dispatchEvent(new Event('input', {bubbles: true}));
            while (python.innerText === before) await new Promise((r) => requestAnimationFrame(r));
            times.push(performance.now() - start);
          }
          return times;
        }"""
    )
    assert sorted(times)[4] < 300.0, times
