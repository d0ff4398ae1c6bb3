"""The explorer's numbers are the library's, and its state survives a link."""

import json
import time
from urllib.parse import parse_qsl, quote

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("typer")

from typer.testing import CliRunner

from miniamp import channels, priors, theory
from miniamp.app import explorer, question
from miniamp.app.question import Question, Simulation
from miniamp.cli.app import app as command_line

from .conftest import Client

QUESTIONS = [
    Question(),
    Question(rho=0.1, noise=-2.0, batch=0.5, look=3),
    Question(channel="probit", prior="gaussian", span=2.0),
    Question(sizes="0.5, 3x0.05"),
    Question(design="condition-10", batch=0.5, span=1.5),
]


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda q: q.link[:60])
def test_the_python_lines_give_the_plotted_numbers(asked):
    names = {}
    exec(asked.python, names)
    chart = explorer.learning_chart(asked, {"fine": ""}, None)
    assert chart.series[0].y.tolist() == names["errors"]


def test_curves_are_those_of_the_library():
    asked = Question(rho=0.2, noise=-3.0, batch=0.25, span=1.0)
    prior, channel = priors.GaussBernoulli(rho=0.2), channels.Gaussian(var=1e-3)
    chart = explorer.learning_chart(asked, {"coarse": "", "fine": ""}, None)
    amp, best, once, single = chart.series
    assert np.array_equal(amp.y, theory.learning_curve(prior, channel, 0.25, batches=4).mse)
    assert np.array_equal(best.y, theory.mmse_curve(prior, channel, 0.25, batches=4).mse)
    assert np.array_equal(once.y, theory.offline_curve(prior, channel, once.x).mse)
    assert np.array_equal(single.y, theory.online_curve(prior, channel, single.x).mse)
    found = explorer.landscape_chart(Question(rho=0.3, noise=-8.0, batch=0.4))
    points = theory.fixed_points(priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8), 0.4)
    minima = next(each for each in found.series if each.name == "minima")
    assert minima.x.tolist() == [point.mse for point in points if point.stable]


def test_the_command_gives_the_plan():
    asked = Question(rho=0.3, noise=-8.0, target=-6.0)
    words = asked.command.split()[1:]
    done = CliRunner().invoke(command_line, [*words, "--json"])
    printed = json.loads(done.stdout)
    plan = question.planned(asked)
    assert printed["pick"]["rows"] == plan.pick.rows
    assert printed["advice"] == plan.advice()
    assert question.needed(asked)["all at once"] * 1000 == pytest.approx(
        printed["pick"]["rows"], abs=1
    )


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda q: q.link[:60])
def test_a_link_carries_everything(asked):
    assert Question.of(dict(parse_qsl(asked.link[1:]))) == asked


@pytest.mark.parametrize(
    "query",
    [
        "?prior=<script>alert(1)</script>&channel=../../etc",
        "?rho=nan&noise=inf&batch=-1&span=1e9&look=0",
        "?sizes=1e9x1&features=" + "9" * 500,
        "?sizes=999x0.02," * 50,
        "?" + "&".join(f"a{i}=1" for i in range(40)),
        "",
    ],
)
def test_a_link_that_makes_no_sense_changes_nothing(query):
    assert Question.of(dict(parse_qsl(query[1:]))) == Question()


def test_answers_come_at_once_and_are_refined():
    """A moved slider is answered within its patience; a question seen before at once."""
    made = explorer.Explorer()
    start = time.monotonic()
    made.ask(Question(rho=0.44))
    # The wait itself; the machine may be busy besides.
    assert time.monotonic() - start < explorer.PATIENCE + 0.15
    end = time.monotonic() + 60
    done = {}
    while len(done := made.ask(Question(rho=0.44), len(done))) < len(explorer.STAGES):
        assert time.monotonic() < end
    assert set(done.values()) == {""}
    start = time.process_time()
    assert len(made.ask(Question(rho=0.44))) == len(explorer.STAGES)
    assert time.process_time() - start < 0.1


def test_a_simulation_follows_the_theory():
    """N = 1000, seed 0: within 0.2 decades of the theory after each batch.

    The power of a sparse x fluctuates by 3 / sqrt(N), 10 %, and early errors with it.
    """
    asked = Question(rho=0.3, noise=-2.0, batch=0.4, span=1.2)
    simulation = Simulation(asked)
    simulation.join(60)
    assert simulation.done
    decades = np.log10(simulation.mse) - np.log10(question.streamed(asked).mse)
    assert np.abs(decades).max() < 0.2
    chart = explorer.learning_chart(asked, {}, simulation)
    assert chart.series[-1].y.tolist() == simulation.mse


def test_a_simulation_is_replaced():
    made = explorer.Explorer()
    made.simulate(Question(span=8.0, batch=0.02))
    first = made.simulation
    made.simulate(Question(span=0.5))
    first.join(60)
    made.simulation.join(60)
    assert first.done
    assert len(first.mse) < 200
    assert len(made.simulation.mse) == 2


def test_the_page_is_answered_part_by_part(running):
    """Values that make no sense are left out, and what is shown already is not sent again."""
    client = Client(running(explorer.application())[0])
    _, headers, text = client.ask("GET", "/")
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert all(f"id='{name}'".encode() in text for name in Question().model_dump())
    query = "rho=0.44&channel=logistic&noise=<script>"
    first = client.get(f"/answer?{query}")
    assert first["values"] == Question(rho=0.44, channel="logistic").model_dump()
    assert first["hidden"] == {"rho": False, "noise": True}
    assert "channels.Logistic()" in first["texts"]["python"]
    known, end = first["known"], time.monotonic() + 60
    while (news := client.get(f"/answer?{query}&known={known}"))["more"]:
        assert news["known"] >= known
        known = news["known"]
        assert time.monotonic() < end
    assert all(news["figures"])
    assert "id='advice'" in news["words"]
    shown = quote(news["shown"])
    assert "figures" not in client.get(f"/answer?{query}&known={known}&shown={shown}")
    assert client.ask("POST", f"/simulate?{query}")[0] == 200
    assert "simulation: " in client.get(f"/answer?{query}")["texts"]["status"]
    assert client.ask("POST", "/stop")[0] == 200
