"""`miniamp cluster` and `miniamp plan` give the numbers of the library."""

import json

import numpy as np
import pandas as pd
import pytest

from miniamp import channels, priors, theory


def test_the_clusters_are_found_and_every_row_has_its_label(folder, run):
    """Three centres 5.7 apart with noise 0.3: centres to 0.3/sqrt(80), five times that allowed."""
    ran = run("cluster", "points.csv", "--clusters", 3, "--batch-size", 80, "-o", "l.csv", "--json")
    assert ran.code == 0, ran.err
    about = json.loads(ran.out)
    centres = np.array(about["centres"])
    assert np.sort(centres.argmax(axis=1)).tolist() == [0, 1, 2]
    assert np.abs(centres.max(axis=1) - 4.0).max() < 0.17
    labels = pd.read_csv("l.csv")
    points = pd.read_csv("points.csv").to_numpy()
    assert list(labels.columns) == ["cluster", "probability", "p(0)", "p(1)", "p(2)"]
    chances = labels[["p(0)", "p(1)", "p(2)"]].to_numpy()
    assert np.abs(chances.sum(axis=1) - 1.0).max() < 1e-9
    assert (chances.argmax(axis=1) == labels.cluster).all()
    assert (chances.max(axis=1) == labels.probability).all()
    assert (centres.argmax(axis=1)[labels.cluster] == points.argmax(axis=1)).all()
    assert labels.probability.min() > 0.9


def test_labels_can_go_to_standard_output(folder, run):
    ran = run("cluster", "points.csv", "--clusters", 3, "-o", "-")
    assert ran.out.splitlines()[0] == "cluster,probability,p(0),p(1),p(2)"
    assert len(ran.out.splitlines()) == 241
    assert "3 clusters" in ran.err


@pytest.mark.slow
def test_a_plan_is_that_of_the_theory(folder, run):
    ran = run(
        "plan", "--features", 1000, "--sparsity", 0.3, "--noise", "1e-8", "--target-mse", "1e-6",
        "--budget-rows", 5000, "--max-memory", "2MB", "--json", "--plot", "p.png",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    about = json.loads(ran.out)
    found = theory.plan(
        priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8), 1000,
        target_mse=1e-6, budget_rows=5000, max_memory="2MB",
    )  # fmt: skip
    assert about["pick"]["rows"] == found.pick.rows
    assert about["pick"]["batch_rows"] == found.pick.batch_rows
    assert len(about["choices"]) == len(found.choices)
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("channel", ["probit", "logistic"])
def test_plans_of_other_channels_and_priors(run, channel):
    ran = run("plan", "--features", 100, "--prior", "gaussian", "--channel", channel,
              "--budget-rows", 300, "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    assert 0.0 < json.loads(ran.out)["pick"]["mse"] < 1.0
