import numpy as np
import pytest

from miniamp import channels, datasets, errors, priors

PRIOR = priors.GaussBernoulli(rho=0.3)
CHANNEL = channels.Gaussian(var=1e-2)


def make(**changes):
    given = {"N": 200, "alpha_b": 0.25, "batches": 4, "rng": 5, **changes}
    return datasets.glm_stream(PRIOR, CHANNEL, **given)


def test_batches_have_the_promised_shape_and_number():
    problem = make()
    shapes = [(Phi.shape, y.shape) for Phi, y in problem]
    assert shapes == [((50, 200), (50,))] * 4
    assert len(problem) == 4
    assert problem.truth.shape == (200,)
    np.testing.assert_allclose(problem.alpha, [0.25, 0.5, 0.75, 1.0])


def test_observations_come_from_the_truth():
    problem = make(N=400, alpha_b=2.0)
    for Phi, y in problem:
        noise = y - Phi @ problem.truth
        # 800 rows: the noise variance is known to sqrt(2/800) = 5 %.
        assert np.var(noise) == pytest.approx(1e-2, rel=0.2)


def test_the_same_seed_gives_the_same_problem():
    for (Phi, y), (other_Phi, other_y) in zip(make(), make(), strict=True):
        np.testing.assert_array_equal(Phi, other_Phi)
        np.testing.assert_array_equal(y, other_y)
    np.testing.assert_array_equal(make().truth, make().truth)


def test_another_seed_gives_another():
    assert not np.array_equal(make(rng=5).truth, make(rng=6).truth)
    assert not np.array_equal(make(rng=5)[0].Phi, make(rng=6)[0].Phi)


def test_batches_differ_from_each_other():
    problem = make()
    assert not np.array_equal(problem[0].Phi, problem[1].Phi)


def test_a_second_pass_sees_the_same_rows():
    problem = make()
    first, second = list(problem), list(problem)
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.Phi, two.Phi)
        np.testing.assert_array_equal(one.y, two.y)


def test_a_batch_can_be_asked_for_by_its_index():
    problem = make()
    np.testing.assert_array_equal(problem[-1].y, list(problem)[3].y)
    with pytest.raises(IndexError, match="batch 4 of a stream of 4"):
        problem[4]


def test_the_truth_cannot_be_overwritten():
    with pytest.raises(ValueError, match="read-only"):
        make().truth[0] = 1.0


def test_at_least_one_row_a_batch():
    assert make(alpha_b=1e-9).rows == 1


def test_mse_is_that_of_the_truth():
    problem = make()
    assert problem.mse(problem.truth) == 0.0
    assert problem.mse(problem.truth + 2.0) == pytest.approx(4.0)


@pytest.mark.parametrize("N", [100, 2000])
def test_a_stratified_truth_has_the_moments_of_the_prior(N):
    """Quantiles: the power of the truth varies far less than the sqrt((3/rho - 1)/N) of draws."""
    powers = [np.mean(make(N=N, rng=s, stratified=True).truth ** 2) for s in range(10)]
    support = [np.mean(make(N=N, rng=s, stratified=True).truth != 0) for s in range(10)]
    chance = 0.3 * np.sqrt((3 / 0.3 - 1) / N)
    assert np.std(powers) < chance / 5
    np.testing.assert_allclose(support, 0.3, atol=2 / N)
    # The outermost quantiles cut the tails beyond 1/2N, a bias of order log(N)/N.
    assert np.mean(powers) == pytest.approx(0.3, abs=3 * np.log(N) / N)


def test_a_stratified_truth_is_in_random_order():
    truth = make(N=2000, stratified=True).truth
    assert abs(np.corrcoef(truth[1:], truth[:-1])[0, 1]) < 4 / np.sqrt(2000)


def test_stratified_signs_are_balanced():
    problem = datasets.glm_stream(
        priors.Rademacher(), channels.Probit(), 1000, 0.1, 1, rng=0, stratified=True
    )
    assert abs(problem.truth.sum()) <= 4
    assert set(np.unique(problem[0].y)) == {-1.0, 1.0}


def test_one_prior_a_coefficient_cannot_be_stratified_but_can_be_drawn():
    prior = priors.Gaussian(mean=np.arange(5.0), var=1e-6)
    with pytest.raises(errors.InvalidInputError, match=r"^stratified: .*pass stratified=False"):
        datasets.glm_stream(prior, CHANNEL, 5, 1.0, 1, rng=0, stratified=True)
    drawn = datasets.glm_stream(prior, CHANNEL, 5, 1.0, 1, rng=0).truth
    np.testing.assert_allclose(drawn, np.arange(5.0), atol=0.01)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"N": 0}, "N"),
        ({"N": 2.5}, "N"),
        ({"alpha_b": 0.0}, "alpha_b"),
        ({"alpha_b": np.nan}, "alpha_b"),
        ({"batches": 0}, "batches"),
        ({"rng": "seed"}, "rng"),
        ({"design": "odd"}, "design"),
        ({"design": 3}, "design"),
    ],
)
def test_bad_arguments_are_named(wrong, name):
    with pytest.raises(errors.InvalidInputError, match=f"^{name}: "):
        make(**wrong)


def test_prior_and_channel_must_be_such():
    with pytest.raises(errors.InvalidTypeError, match=r"^prior: "):
        datasets.glm_stream("sparse", CHANNEL, 10, 1.0, 1)
    with pytest.raises(errors.InvalidTypeError, match=r"^channel: "):
        datasets.glm_stream(PRIOR, PRIOR, 10, 1.0, 1)
    with pytest.raises(errors.InvalidInputError, match=r"^channel: .*\(3,\)"):
        datasets.glm_stream(PRIOR, channels.Gaussian(var=[1.0, 2.0, 3.0]), 10, 1.0, 1)
