"""The solver that chooses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from miniamp import Posterior, absorb, channels, evidence, priors
from miniamp.datasets import ensembles, glm_stream
from miniamp.designs import Dense, as_design
from miniamp.errors import ConflictWarning, InvalidInputError
from miniamp.evidence.auto import choose, correlation

SPARSE, NOISY = priors.GaussBernoulli(0.1), channels.Gaussian(1e-2)


def batch(design, N=300, alpha=0.5, seed=0):
    return glm_stream(SPARSE, NOISY, N, alpha, 1, seed, design=design)[0]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_independent_rows_go_to_amp(alpha, seed):
    rows = evidence.AutoBatch(*batch("iid", alpha=alpha, seed=seed), NOISY)
    chosen = rows.choice(Posterior(SPARSE, 300))
    assert chosen.solver == "amp"
    assert "correlation" in chosen.reason


@pytest.mark.parametrize(
    "design",
    [
        ensembles.Correlated(0.95),
        ensembles.Offset(1.0),
        ensembles.LowRank(10, 0.9),
        ensembles.IllConditioned(1e6),
    ],
    ids=repr,
)
def test_correlated_rows_go_to_the_robust_solver(design):
    belief, info = absorb(
        Posterior(SPARSE, 300), evidence.AutoBatch(*batch(design, alpha=0.3), NOISY)
    )
    assert info.solver == "robust"
    assert "correlation" in info.reason
    assert np.isfinite(belief.mean).all()


def test_scales_of_rows_and_columns_are_no_reason(rng):
    Phi = rng.normal(size=(150, 200)) * np.exp(rng.normal(size=200))
    Phi *= np.exp(rng.normal(size=(150, 1)))
    assert abs(correlation(as_design(Phi))) < 0.05


def test_the_measure_is_the_same_for_sparse_rows(rng):
    Phi = sparse.random_array((60, 80), density=0.3, rng=rng, format="csr")
    assert correlation(as_design(Phi)) == pytest.approx(correlation(as_design(Phi.toarray())))


def test_rows_of_zeros_only_are_not_correlated():
    assert correlation(as_design(np.zeros((4, 5)))) == 0.0


def test_one_correlated_batch_does_not_keep_the_robust_solver_for_good():
    # N = 300, seed 5, 80 rows per batch, of which the second is correlated. (With 60 some streams
    # are solved to a wrong answer at first, which later rows contradict.)
    rng, x = np.random.default_rng(5), SPARSE.sample(np.random.default_rng(6), 300)
    beliefs = [Posterior(SPARSE, 300, memory=20)] * 2
    names: list[list[str]] = [[], []]
    for k in range(6):
        Phi = rng.normal(size=(80, 300)) + (1.5 * rng.normal(size=(80, 1)) if k == 1 else 0.0)
        y = Phi @ x + 0.1 * rng.normal(size=80)
        for j, solver in enumerate(("auto", "robust")):
            rows = evidence.AutoBatch(Phi, y, NOISY, solver=solver)
            beliefs[j], info = absorb(beliefs[j], rows)
            names[j].append(info.solver)
    assert names[0] == ["amp", "robust", *["amp"] * 4]
    assert beliefs[0].remembered is not None  # and may be needed again
    errors = [np.mean(np.square(belief.mean - x)) for belief in beliefs]
    assert errors[0] < 2.0 * errors[1]


def test_few_rows_or_features_go_to_the_robust_solver(rng):
    for shape in ((3, 200), (200, 64)):
        assert choose(as_design(rng.normal(size=shape))).solver == "robust"


@pytest.mark.parametrize("shape", [(150, 300), (450, 900), (600, 300), (100, 1000)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_weak_correlations_are_seen_and_independent_rows_pass(shape, seed):
    # AR(.45): its excess is M/(M + N) 2 r^2/(1 - r^2), 0.05 at 100 x 1000 and 0.17 at 150 x 300,
    # a little less once rows are brought to one scale, and estimated with a deviation of 0.03.
    rng = np.random.default_rng(1000 + seed)
    Z = rng.normal(size=shape)
    Phi = Z.copy()
    for j in range(1, shape[1]):
        Phi[:, j] = 0.45 * Phi[:, j - 1] + np.sqrt(1.0 - 0.45**2) * Z[:, j]
    expected = shape[0] / sum(shape) * 2.0 * 0.45**2 / (1.0 - 0.45**2)
    assert correlation(as_design(Phi)) == pytest.approx(expected, abs=0.1)
    assert choose(as_design(Z)).solver == "amp"
    if expected > 0.1:
        assert choose(as_design(Phi)).solver == "robust"


def test_one_may_choose_oneself():
    Phi, y = batch("iid")
    for solver in ("amp", "robust"):
        _, info = absorb(Posterior(SPARSE, 300), evidence.AutoBatch(Phi, y, NOISY, solver=solver))
        assert info.solver == solver
    with pytest.raises(InvalidInputError, match="solver: got 'vamp'"):
        evidence.AutoBatch(Phi, y, NOISY, solver="vamp")


def test_a_batch_that_amp_gets_wrong_is_done_again(monkeypatch):
    # Blind the spectrum test: the health figure must catch what it would have seen.
    monkeypatch.setattr("miniamp.evidence.auto.TRUSTED", np.inf)
    Phi, y = batch(ensembles.LowRank(10, 0.9))
    with pytest.warns(ConflictWarning, match="robust"):
        belief, info = absorb(Posterior(SPARSE, 300), evidence.AutoBatch(Phi, y, NOISY))
    assert info.solver == "robust"
    assert info.remedy == "the robust solver"
    assert np.isfinite(belief.mean).all()


class Counted(Dense):
    """A dense design that counts the passes over its entries."""

    passes = 0

    def __getattribute__(self, name):
        if name in ("sandwich", "forecast", "times", "transposed_times") or "squares_" in name:
            self.passes += 1
        return super().__getattribute__(name)


def test_choosing_costs_little_on_independent_rows():
    # N = 1500; the choice may cost 1.3 times AMP's own passes over Phi. Seconds are in benchmarks/.
    Phi, y = batch("iid", N=1500, alpha=0.3)
    passes = {}
    for solver in (evidence.Batch, evidence.AutoBatch):
        design = Counted(Phi)
        absorb(Posterior(SPARSE, 1500), solver(design, y, NOISY))
        passes[solver] = design.passes
    assert passes[evidence.Batch] < passes[evidence.AutoBatch] < 1.3 * passes[evidence.Batch]
