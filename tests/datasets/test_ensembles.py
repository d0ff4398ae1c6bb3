import numpy as np
import pytest
import scipy.sparse

from miniamp import channels, datasets, errors, priors
from miniamp.datasets import ensembles

N, M = 400, 600


def draw(ensemble, seed=0, rows=M):
    rng = np.random.default_rng(seed)
    return ensemble.columns(rng, N)(rng, rows)


def dense(Phi):
    return Phi.toarray() if scipy.sparse.issparse(Phi) else Phi


@pytest.mark.parametrize("name", ensembles.BY_NAME)
def test_mean_squared_entry_is_one_over_N(name):
    Phi = dense(draw(ensembles.as_ensemble(name)))
    assert Phi.shape == (M, N)
    # The heaviest tails (log-normal row scales of spread 1): kurtosis e^4 over 600 rows gives 30 %.
    tolerance = 0.6 if name == "row_scales" else 0.15
    assert N * np.mean(Phi**2) == pytest.approx(1.0, rel=tolerance)


@pytest.mark.parametrize("name", ensembles.BY_NAME)
def test_every_ensemble_streams_and_is_reproducible(name):
    def make():
        return datasets.glm_stream(
            priors.Gaussian(), channels.Gaussian(var=0.1), 50, 0.5, 2, rng=1, design=name
        )

    for (Phi, y), (other_Phi, other_y) in zip(make(), make(), strict=True):
        np.testing.assert_array_equal(dense(Phi), dense(other_Phi))
        np.testing.assert_array_equal(y, other_y)
        assert y.shape == (25,)


@pytest.mark.parametrize("correlation", [0.9, -0.5])
def test_ar1_correlations_fall_off_geometrically(correlation):
    Phi = draw(ensembles.Correlated(correlation), rows=4000)
    C = N * Phi.T @ Phi / len(Phi)
    for lag in (0, 1, 2, 5):
        # 4000 rows: each correlation is known to 1/sqrt(4000); the mean over columns far better.
        assert np.mean(np.diag(C, lag)) == pytest.approx(correlation**lag, abs=0.02)
    assert np.diag(C)[:3] == pytest.approx(1.0, abs=0.1)  # stationary from the first column on


def test_offset_columns_have_a_mean_of_that_many_deviations():
    Phi = draw(ensembles.Offset(3.0))
    assert np.mean(Phi) / np.std(Phi) == pytest.approx(3.0, rel=0.02)


def test_low_rank_has_that_many_strong_directions():
    spectrum = np.linalg.svd(draw(ensembles.LowRank(factors=4, share=0.6)), compute_uv=False)
    assert spectrum[3] > 3 * spectrum[4]
    assert spectrum[4] < 1.2 * spectrum[5]
    assert np.sum(spectrum[:4] ** 2) / np.sum(spectrum**2) == pytest.approx(0.6, abs=0.05)


def test_ill_conditioned_population_has_the_given_condition_number():
    rng = np.random.default_rng(0)
    step = ensembles.IllConditioned(1000.0).columns(rng, 60)
    # 60,000 rows of 60 columns: the sample covariance is that of the population to 3 %.
    Phi = np.concatenate([step(rng, 6000) for _ in range(10)])
    spectrum = np.linalg.svd(Phi, compute_uv=False)
    assert spectrum[0] / spectrum[-1] == pytest.approx(1000.0, rel=0.1)
    ratios = spectrum[1:] / spectrum[:-1]
    np.testing.assert_allclose(ratios, 1000.0 ** (-1 / 59), rtol=0.1)


def test_sparse_binary_is_csr_of_that_density_and_one_value():
    Phi = draw(ensembles.SparseBinary(density=0.05))
    assert scipy.sparse.issparse(Phi)
    assert Phi.format == "csr"
    assert Phi.has_canonical_format
    np.testing.assert_allclose(Phi.data, 1.0 / np.sqrt(N * 0.05))
    # Binomial: 0.05 +- sqrt(0.05/240,000).
    assert Phi.nnz / (M * N) == pytest.approx(0.05, abs=5 * np.sqrt(0.05 / (M * N)))


def test_row_scales_belong_to_rows_and_column_scales_to_columns():
    by_row, by_column = draw(ensembles.RowScales(1.0)), draw(ensembles.ColumnScales(1.0))
    for Phi, axis in ((by_row, 1), (by_column, 0)):
        across = np.log(np.mean(Phi**2, axis=axis)) / 2
        along = np.log(np.mean(Phi**2, axis=1 - axis)) / 2
        assert np.std(across) == pytest.approx(1.0, abs=0.2)
        assert np.std(along) < 0.5


def test_column_scales_are_the_same_in_every_batch():
    problem = datasets.glm_stream(
        priors.Gaussian(), channels.Gaussian(), N, 2.0, 2, rng=0, design="column_scales"
    )
    first, second = (np.log(np.std(Phi, axis=0)) for Phi, _ in problem)
    # 800 rows: the log of a standard deviation is known to 1/sqrt(1600).
    np.testing.assert_allclose(first, second, atol=0.2)
    assert np.std(first) > 0.8


def test_duplicated_columns_repeat_exactly_in_every_batch():
    rng = np.random.default_rng(0)
    step = ensembles.Duplicated(0.2).columns(rng, N)
    for Phi in (step(rng, 50), step(rng, 50)):
        assert np.unique(Phi, axis=1).shape[1] == N - round(0.2 * N)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ensembles.Correlated(1.0), "correlation"),
        (lambda: ensembles.Correlated("high"), "correlation"),
        (lambda: ensembles.Offset(np.inf), "offset"),
        (lambda: ensembles.LowRank(factors=0), "factors"),
        (lambda: ensembles.LowRank(share=1.1), "share"),
        (lambda: ensembles.IllConditioned(0.5), "condition"),
        (lambda: ensembles.SparseBinary(0.0), "density"),
        (lambda: ensembles.RowScales(-1.0), "spread"),
        (lambda: ensembles.ColumnScales(-1.0), "spread"),
        (lambda: ensembles.Duplicated(0.7), "share"),
    ],
)
def test_bad_numbers_are_named(make, name):
    with pytest.raises(errors.InvalidInputError, match=f"^{name}: "):
        make()
