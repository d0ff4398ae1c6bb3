"""Low-rank evidence: conventions, sparse input, channels, starts, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from miniamp import Posterior, Stop, absorb, channels, evidence, priors
from miniamp.errors import ConflictError, ConflictWarning, InvalidInputError

R, N, M, DELTA = 3, 150, 120, 0.1


def problem(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centres, labels and columns of a mixture far above its threshold."""
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(N, R))
    labels = rng.integers(R, size=M)
    return U, labels, U[:, labels] / np.sqrt(N) + np.sqrt(DELTA) * rng.normal(size=(N, M))


def prior_belief(var: float = 1.0) -> Posterior:
    return Posterior(priors.GaussianRows(R, cov=var), N)


def factor(Y: object, **options: object) -> evidence.FactorBatch:
    given = {"channel": channels.Gaussian(var=DELTA), "prior_v": priors.OneHot(R), **options}
    return evidence.FactorBatch(Y, **given)  # type: ignore[arg-type]


def agreement(found: np.ndarray, labels: np.ndarray) -> float:
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((R, R))
    np.add.at(table, (found, labels), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(labels))


def test_labels_are_found_and_the_belief_is_left_alone() -> None:
    _, labels, Y = problem()
    belief = prior_belief()
    after, info = absorb(belief, factor(Y, rng=1))
    assert info.converged
    assert 0.8 < info.health < 1.2
    assert not belief.tilt.A.any()
    assert not belief.tilt.B.any()
    assert after.columns.shape == (M, R)
    np.testing.assert_allclose(after.columns.sum(axis=1), 1.0)
    assert agreement(after.columns.argmax(axis=1), labels) > 0.85


@pytest.mark.parametrize("start", ["noise", "spectral", "kmeans++"])
def test_every_start_breaks_the_symmetry(start: str) -> None:
    _, labels, Y = problem()
    after, _ = absorb(prior_belief(), factor(Y, start=start, rng=3))
    assert agreement(after.columns.argmax(axis=1), labels) > 0.85


def test_the_belief_keeps_the_order_of_the_labels() -> None:
    U, labels, Y = problem()
    rng = np.random.default_rng(5)
    first, _ = absorb(prior_belief(), factor(Y, rng=1))
    name = [np.bincount(labels[first.columns.argmax(axis=1) == k]).argmax() for k in range(R)]
    more = rng.integers(R, size=M)
    Y2 = U[:, more] / np.sqrt(N) + np.sqrt(DELTA) * rng.normal(size=(N, M))
    second, _ = absorb(first, factor(Y2))
    assert np.mean(np.array(name)[second.columns.argmax(axis=1)] == more) > 0.88
    assert second.mean.shape == (N, R)


def test_the_two_scalings_are_one_model() -> None:
    """Errata L3: scale 1 with prior variance v is scale 1/sqrt(N) with prior variance v N."""
    _, _, Y = problem()
    start = np.eye(R)[np.random.default_rng(0).integers(R, size=M)]
    paper, _ = absorb(prior_belief(), factor(Y, start=start))
    pixels, _ = absorb(prior_belief(1.0 / N), factor(Y, start=start, scale=1.0))
    np.testing.assert_allclose(pixels.mean * np.sqrt(N), paper.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(pixels.columns, paper.columns, atol=1e-8)
    # Up to the constant of the field's scale both tell the same evidence.
    assert pixels.log_evidence == pytest.approx(paper.log_evidence, rel=1e-8)


def test_mixed_scalings_are_noticed() -> None:
    """The paper's scale with data of unit scale and their noise: refused, with the remedy."""
    rng = np.random.default_rng(0)
    Y = 5.0 * rng.normal(size=(N, R))[:, rng.integers(R, size=M)] + 0.1 * rng.normal(size=(N, M))
    with (
        pytest.warns(ConflictWarning),
        pytest.raises(ConflictError, match="scale"),
    ):
        absorb(prior_belief(), factor(Y, channel=channels.Gaussian(var=0.01)))


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.coo_array])
def test_sparse_equals_dense(kind: type) -> None:
    rng = np.random.default_rng(2)
    Y = np.where(rng.random((N, M)) < 0.1, rng.normal(size=(N, M)), 0.0)
    start = np.eye(R)[rng.integers(R, size=M)]
    dense, _ = absorb(prior_belief(), factor(Y, start=start), Stop(max_iter=10))
    sparse, _ = absorb(prior_belief(), factor(kind(Y), start=start), Stop(max_iter=10))
    np.testing.assert_allclose(sparse.mean, dense.mean, atol=1e-12)
    assert sparse.log_evidence == pytest.approx(dense.log_evidence, abs=1e-8)


@pytest.mark.parametrize(
    "channel",
    [
        channels.Poisson(),
        channels.Poisson(exposure=np.linspace(0.1, 3.0, N)),
        channels.Gaussian(var=np.linspace(0.5, 2.0, N)),
    ],
    ids=["poisson", "poisson by row", "gaussian by row"],
)
def test_counts_and_row_noise_sparse_equals_dense(channel: channels.Channel) -> None:
    """An absent count has a score of its own; J is a sparse matrix plus a constant by row."""
    rng = np.random.default_rng(3)
    Y = rng.poisson(0.3, size=(N, M)).astype(float)
    start = np.eye(R)[rng.integers(R, size=M)]
    found = [
        absorb(prior_belief(), factor(made, channel=channel, start=start), Stop(max_iter=5))
        for made in (Y, sp.csr_array(Y), sp.csc_array(Y))
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other[0].mean, found[0][0].mean, atol=1e-12)
        assert other[1].health == pytest.approx(found[0][1].health, rel=1e-10)


def test_noise_by_row_is_whitening() -> None:
    """Gaussian noise var_i: the factor inferred is U_i / sqrt(var_i), as if rows were divided."""
    _, _, Y = problem()
    var = np.linspace(0.05, 0.2, N)
    start = np.eye(R)[np.random.default_rng(0).integers(R, size=M)]
    by_row, _ = absorb(prior_belief(), factor(Y, channel=channels.Gaussian(var=var), start=start))
    divided, _ = absorb(
        prior_belief(),
        factor(Y / np.sqrt(var)[:, None], channel=channels.Gaussian(var=1.0), start=start),
    )
    np.testing.assert_allclose(by_row.mean, divided.mean, atol=1e-9)


@pytest.mark.parametrize(
    "channel", [channels.Probit(var=1.0), channels.Logistic()], ids=["probit", "logistic"]
)
def test_signs_are_clustered_through_their_score(channel: channels.Channel) -> None:
    """Any channel is a Gaussian one of noise 1/Fisher: signs of a mixture, labels found."""
    rng = np.random.default_rng(4)
    n, m = 400, 800
    U, labels = 1.0 * rng.normal(size=(n, 2)), rng.integers(2, size=m)
    w = 6.0 * U[:, labels] / np.sqrt(n)
    Y = channel.sample(rng, w)
    belief = Posterior(priors.GaussianRows(2, cov=36.0), n)
    after, info = absorb(belief, evidence.FactorBatch(Y, channel, priors.OneHot(2), rng=0))
    found = np.mean(after.columns.argmax(axis=1) == labels)
    assert max(found, 1.0 - found) > 0.9
    assert info.health < 1.5


def test_log_evidence_is_stationary_at_convergence() -> None:
    """The Bethe free energy has its messages' fixed point as stationary point."""
    _, _, Y = problem()
    batch = factor(Y, rng=1)
    belief = prior_belief()
    estimate, memory = batch.start(belief)
    values = []
    for _ in range(60):
        step = batch.refine(belief, estimate, memory)
        estimate, memory = step.estimate, step.memory
        values.append(batch.log_evidence(belief, step))
    assert abs(values[-1] - values[-2]) < 1e-9 * abs(values[-1])
    # Stationary: perturbing the means by epsilon moves it by epsilon^2 only.
    moved = []
    for eps in (1e-3, 1e-4):
        U = estimate._replace(mean=estimate.mean * (1.0 + eps))
        moved.append(batch.log_evidence(belief, step._replace(estimate=U)) - values[-1])
    assert abs(moved[1]) < 0.05 * abs(moved[0])


def test_mean_field_bound_never_falls() -> None:
    """Variational mean field climbs its bound at every half-step, in two dimensions too."""
    rng = np.random.default_rng(6)
    Y = rng.normal(size=(2, 40)) + 3.0 * np.eye(2)[:, rng.integers(2, size=40)]
    batch = evidence.FactorBatch(
        Y, channels.Gaussian(var=1.0), priors.OneHot(2), scale=1.0, mean_field=True, rng=0
    )
    belief = Posterior(priors.GaussianRows(2, cov=4.0), 2)
    estimate, memory = batch.start(belief)
    bounds = []
    for _ in range(30):
        step = batch.refine(belief, estimate, memory)
        estimate, memory = step.estimate, step.memory
        bounds.append(batch.log_evidence(belief, step))
    assert np.diff(bounds).min() > -1e-9


def test_damping_reaches_the_same_point() -> None:
    _, _, Y = problem()
    start = np.eye(R)[np.random.default_rng(0).integers(R, size=M)]
    plain, _ = absorb(prior_belief(), factor(Y, start=start), Stop(tol=1e-10))
    damped, _ = absorb(prior_belief(), factor(Y, start=start, damping=0.3), Stop(tol=1e-10))
    np.testing.assert_allclose(damped.mean, plain.mean, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"Y": np.zeros(5)}, "Y"),
        ({"Y": np.full((N, M), np.nan)}, "Y"),
        ({"Y": np.zeros((N, 0))}, "Y"),
        ({"scale": 0.0}, "scale"),
        ({"start": "magic"}, "start"),
        ({"start": np.ones((M, R + 1))}, "start"),
        ({"damping": 1.0}, "damping"),
        ({"channel": channels.Gaussian(var=0.0)}, "channel"),
        ({"channel": channels.Gaussian(var=np.ones(7))}, "channel"),
        ({"channel": "gaussian"}, "channel"),
        ({"prior_v": priors.Gaussian()}, "prior_v"),
        ({"channel": channels.Probit(var=1.0), "Y": sp.csr_array(np.eye(N, M))}, "y"),
    ],
)
def test_bad_input_is_named(options: dict[str, object], name: str) -> None:
    given = {"Y": problem()[2], **options}
    with pytest.raises(InvalidInputError, match=rf"^{name}: "):
        factor(given.pop("Y"), **given)


def test_beliefs_that_do_not_fit_are_named() -> None:
    Y = problem()[2]
    with pytest.raises(InvalidInputError, match=r"^Y: "):
        absorb(Posterior(priors.GaussianRows(R), N + 1), factor(Y))
    with pytest.raises(InvalidInputError, match=r"^belief: "):
        absorb(Posterior(priors.GaussianRows(R + 1), N), factor(Y))
    with pytest.raises(InvalidInputError, match=r"^belief: "):
        absorb(Posterior(priors.Gaussian(), N), factor(Y))


@pytest.mark.slow
def test_many_rows_and_components_stay_small() -> None:
    """N = 1e5 rows, R = 50, sparse columns: no N R^2 numbers (2 GB) at any moment."""
    import tracemalloc

    n, r, m = 100_000, 50, 200
    rng = np.random.default_rng(0)
    Y = sp.random_array((n, m), density=1e-3, rng=rng, format="csc")
    belief = Posterior(priors.GaussianRows(r, cov=0.01), n)
    batch = evidence.FactorBatch(
        Y, channels.Gaussian(var=1.0), priors.OneHot(r), scale=1.0, start="kmeans++"
    )
    tracemalloc.start()
    absorb(belief, batch, Stop(max_iter=3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * n * r * 8


def test_float32_columns_are_used_as_they_come():
    """N = 200, M = 300, seed 3: sums of 300 terms of relative precision 6e-8 are 1e-6 off."""
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=300)
    Y = (rng.normal(size=(200, 3))[:, labels] + 0.5 * rng.normal(size=(200, 300))).astype("f4")
    found = []
    for rows in (Y, Y.astype(np.float64)):
        batch = evidence.FactorBatch(
            rows, channels.Gaussian(var=0.25), priors.OneHot(3), scale=1.0, start="kmeans++"
        )
        assert np.shares_memory(batch.scores.J, rows)
        found.append(absorb(Posterior(priors.GaussianRows(3), 200), batch)[0])
    narrow, wide = found
    np.testing.assert_allclose(narrow.mean, wide.mean, atol=1e-5 * np.abs(wide.mean).max())
    left = np.mean(np.square(Y - wide.mean @ wide.columns.T))
    assert wide.residual == pytest.approx(left, rel=1e-6)
    assert narrow.residual == pytest.approx(left, rel=1e-4)
