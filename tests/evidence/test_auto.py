"""The solver that chooses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from miniamp import Posterior, absorb, channels, evidence, priors
from miniamp.datasets import ensembles, glm_stream
from miniamp.designs import Dense, as_design
from miniamp.errors import ConflictWarning, InvalidInputError
from miniamp.evidence.auto import spectral_outlier

SPARSE, NOISY = priors.GaussBernoulli(0.1), channels.Gaussian(1e-2)


def batch(design, N=300, alpha=0.5, seed=0):
    return glm_stream(SPARSE, NOISY, N, alpha, 1, seed, design=design)[0]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_independent_rows_go_to_amp(alpha, seed):
    rows = evidence.AutoBatch(*batch("iid", alpha=alpha, seed=seed), NOISY)
    chosen, reason = rows.choice(Posterior(SPARSE, 300))
    assert isinstance(chosen, evidence.Batch)
    assert "singular value" in reason


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
    assert "singular value" in info.reason
    assert np.isfinite(belief.mean).all()


def test_scales_of_rows_and_columns_are_no_reason(rng):
    Phi = rng.normal(size=(150, 200)) * np.exp(rng.normal(size=200))
    Phi *= np.exp(rng.normal(size=(150, 1)))
    assert spectral_outlier(as_design(Phi)) < 1.0


def test_the_measure_is_the_same_for_sparse_rows(rng):
    Phi = sparse.random_array((60, 80), density=0.3, rng=rng, format="csr")
    assert spectral_outlier(as_design(Phi)) == pytest.approx(
        spectral_outlier(as_design(Phi.toarray()))
    )


def test_rows_of_zeros_only_have_no_outlier():
    assert spectral_outlier(as_design(np.zeros((4, 5)))) == 0.0


def test_a_belief_with_remembered_rows_stays_with_the_robust_solver():
    belief, first = absorb(
        Posterior(SPARSE, 300, memory=20),
        evidence.AutoBatch(*batch(ensembles.LowRank(10, 0.9)), NOISY),
    )
    _, second = absorb(belief, evidence.AutoBatch(*batch("iid"), NOISY))
    assert (first.solver, second.solver) == ("robust", "robust")
    assert second.reason.startswith("the belief remembers rows")


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

    def sandwich(self, *arguments):
        self.passes += 1
        return super().sandwich(*arguments)

    def forecast(self, *arguments):
        self.passes += 1
        return super().forecast(*arguments)


def test_choosing_costs_little_on_independent_rows():
    # N = 1500; the choice may cost 1.3 times AMP's own passes over Phi. Seconds are in benchmarks/.
    Phi, y = batch("iid", N=1500, alpha=0.3)
    passes = {}
    for solver in (evidence.Batch, evidence.AutoBatch):
        design = Counted(Phi)
        absorb(Posterior(SPARSE, 1500), solver(design, y, NOISY))
        passes[solver] = design.passes
    assert passes[evidence.Batch] < passes[evidence.AutoBatch] < 1.3 * passes[evidence.Batch]
