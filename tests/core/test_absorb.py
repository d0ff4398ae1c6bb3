import numpy as np
import pytest

from miniamp import Info, Posterior, Stop, absorb, channels, designs, errors, evidence, priors
from miniamp.absorb import Step, WholeEvidence, met

N, M = 60, 90
PRIOR = priors.GaussBernoulli(rho=0.3)
CHANNEL = channels.Gaussian(var=1e-3)


@pytest.fixture
def rows(rng):
    """One batch of sparse regression, N=60, M=90."""
    x = PRIOR.sample(rng, N)
    Phi = rng.normal(size=(M, N)) / np.sqrt(N)
    return Phi, CHANNEL.sample(rng, Phi @ x)


@pytest.fixture
def batch(rows):
    return evidence.Batch(*rows, CHANNEL)


@pytest.fixture
def belief():
    return Posterior(PRIOR, N)


def everything_of(belief):
    return [np.array(a) for a in (belief.tilt.A, belief.tilt.B, belief.mean, belief.var)]


def test_gives_a_belief_and_an_account_of_it(belief, batch):
    new, info = absorb(belief, batch)
    assert isinstance(new, Posterior)
    assert isinstance(info, Info)
    assert info.converged is True
    assert 1 < info.iterations < 500
    assert info.trace.shape == (info.iterations,)
    assert info.trace[-1] < 1e-8 <= info.trace[-2]
    assert 0.4 < info.health < 2.0  # chi-squared over 90 degrees of freedom, four deviations
    assert info.remedy == ""


def test_the_given_belief_and_rows_stay_as_they_are(belief, batch, rows):
    before, Phi, y = everything_of(belief), rows[0].copy(), rows[1].copy()
    new, _ = absorb(belief, batch)
    for was, now in zip(before, everything_of(belief), strict=True):
        np.testing.assert_array_equal(was, now)
    np.testing.assert_array_equal(rows[0], Phi)
    np.testing.assert_array_equal(rows[1], y)
    assert np.all(new.tilt.A > 0.0)


def test_the_answer_is_the_exact_posterior_mean_of_ridge_regression(rng):
    # AMP's mean is exact for Gaussian prior and channel whatever the size, once it converges.
    Phi = rng.normal(size=(M, N)) / np.sqrt(N)
    y = rng.normal(size=M)
    belief, _ = absorb(
        Posterior(priors.Gaussian(var=2.0), N),
        evidence.Batch(designs.Averaged(Phi), y, channels.Gaussian(var=0.5)),
        Stop(tol=1e-13, max_iter=2000),
    )
    exact = np.linalg.solve(Phi.T @ Phi / 0.5 + np.eye(N) / 2.0, Phi.T @ y / 0.5)
    np.testing.assert_allclose(belief.mean, exact, atol=0.05)


def test_the_same_evidence_gives_the_same_belief(belief, batch):
    one, two = absorb(belief, batch)[0], absorb(belief, batch)[0]
    np.testing.assert_array_equal(one.tilt.B, two.tilt.B)


def test_batches_start_without_memory_of_another(belief, rows, rng):
    """Errata B2: the Onsager term of a foreign matrix must not enter a new batch's first step."""
    first = evidence.Batch(*rows, CHANNEL)
    second = evidence.Batch(rng.normal(size=(M, N)) / np.sqrt(N), rows[1], CHANNEL)
    after_first, _ = absorb(belief, first, Stop(max_iter=1))
    streamed, _ = absorb(after_first, second, Stop(max_iter=1))
    fresh = Posterior(PRIOR, N, tilt=after_first.tilt)
    alone, _ = absorb(fresh, second, Stop(max_iter=1))
    np.testing.assert_array_equal(streamed.tilt.B, alone.tilt.B)


@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_hitting_max_iter_is_reported_and_no_error(belief, batch, max_iter):
    new, info = absorb(belief, batch, Stop(max_iter=max_iter, tol=0.0))
    assert (info.iterations, info.converged) == (max_iter, False)
    assert np.isfinite(new.mean).all()


def test_a_looser_tolerance_stops_earlier(belief, batch):
    loose, tight = (absorb(belief, batch, Stop(tol=tol))[1] for tol in (1e-3, 1e-10))
    assert loose.iterations < tight.iterations
    np.testing.assert_array_equal(loose.trace, tight.trace[: loose.iterations])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_tolerance_is_relative_to_the_scale_of_the_signal(rows, scale):
    Phi, y = rows
    batch = evidence.Batch(Phi, y * scale, channels.Gaussian(var=1e-3 * scale**2))
    prior = priors.GaussBernoulli(rho=0.3, var=scale**2)
    _, info = absorb(Posterior(prior, N), batch)
    _, unit = absorb(Posterior(PRIOR, N), evidence.Batch(Phi, y, CHANNEL))
    assert info.iterations == unit.iterations
    np.testing.assert_allclose(info.trace, unit.trace, rtol=1e-5, atol=1e-14)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_iter": 0}, "max_iter: got 0, expected a whole number >= 1"),
        ({"max_iter": 2.5}, "max_iter: got 2.5 of type float"),
        ({"max_iter": "many"}, "max_iter: got 'many' of type str"),
        ({"tol": -1e-3}, "tol: got -0.001, expected a finite number >= 0"),
        ({"tol": np.nan}, "tol: got nan, expected finite numbers"),
        ({"tol": [1e-3, 1e-4]}, "tol: got an array of shape"),
        ({"tol": "tiny"}, "tol: got 'tiny' of type str"),
    ],
)
def test_stop_refuses_nonsense(wrong, message):
    with pytest.raises(errors.InvalidInputError) as caught:
        Stop(**wrong)
    assert str(caught.value).startswith(message)


def test_stop_takes_numpy_numbers():
    assert Stop(max_iter=np.int64(3), tol=np.float32(0.5)) == Stop(max_iter=3, tol=0.5)


def test_rows_for_another_belief_are_refused(batch):
    with pytest.raises(errors.InvalidInputError, match=r"^Phi: got 60 columns, expected 61"):
        absorb(Posterior(PRIOR, N + 1), batch)


def test_things_that_are_no_evidence_are_refused(belief, rows):
    with pytest.raises(errors.InvalidTypeError, match=r"^evidence: got tuple.*evidence\.Batch"):
        absorb(belief, rows)


def test_things_that_are_no_stop_are_refused(belief, batch):
    with pytest.raises(errors.InvalidTypeError, match=r"^stop: got 10, expected a Stop"):
        absorb(belief, batch, 10)


class TestIllBatches:
    """A batch that contradicts itself: noise a hundred thousand times what the channel says."""

    @pytest.fixture
    def ill(self, rng):
        Phi = rng.normal(size=(M, N)) / np.sqrt(N)
        y = 30.0 * rng.normal(size=M)
        return evidence.Batch(Phi, y, channels.Gaussian(var=1e-4))

    def test_is_tried_again_twice_and_then_refused(self, belief, ill):
        with (
            pytest.warns(errors.ConflictWarning) as warned,
            pytest.raises(errors.ConflictError) as caught,
        ):
            absorb(belief, ill)
        attempts = [str(w.message).rpartition("with ")[2] for w in warned]
        assert attempts == ["damping", "scalar variances"]
        assert caught.value.health > 10.0
        assert caught.value.iteration >= 1
        assert caught.value.batch is None
        assert "the belief is unchanged" in str(caught.value)

    @pytest.mark.filterwarnings("ignore::miniamp.errors.ConflictWarning")
    def test_leaves_the_belief_as_it_was(self, batch, belief, ill):
        belief, _ = absorb(belief, batch)
        before = everything_of(belief)
        with pytest.raises(errors.ConflictError):
            absorb(belief, ill)
        for was, now in zip(before, everything_of(belief), strict=True):
            np.testing.assert_array_equal(was, now)

    def test_one_iteration_cannot_have_converged_falsely(self, belief, ill):
        _, info = absorb(belief, ill, Stop(max_iter=1))
        assert info.health > 10.0

    def test_advice_names_what_was_seen_in_the_rows(self, belief, rng):
        Phi = rng.normal(size=(M, N)) / np.sqrt(N)
        Phi[:, 7] = Phi[:, 3]
        batch = evidence.Batch(Phi, 30.0 * rng.normal(size=M), channels.Gaussian(var=1e-4))
        with (
            pytest.warns(errors.ConflictWarning),
            pytest.raises(errors.ConflictError, match="repeats"),
        ):
            absorb(belief, batch)


class Scripted(WholeEvidence):
    """Evidence that gives the health figures it was told to, attempt after attempt."""

    rows = 10_000

    def __init__(self, healths, change=0.0):
        self.healths, self.change = healths, change

    def start(self, belief):
        return 0, None

    def refine(self, belief, estimate, memory):
        change = self.change if estimate >= 1 else 1.0
        return Step(f"tilt {self.healths[0]}", estimate + 1, memory, change, self.healths[0])

    def remedies(self):
        for k in range(1, len(self.healths)):
            yield f"remedy {k}", Scripted(self.healths[k:], self.change)

    def conclude(self, belief, step):
        return (*belief, step.tilt)

    def diagnosis(self):
        return "scripted"


def test_a_sound_batch_is_taken_at_once():
    belief, info = absorb((), Scripted([1.2, 99.0]))
    assert belief == ("tilt 1.2",)
    assert info.remedy == ""


def test_the_first_remedy_that_works_is_taken_and_nothing_of_the_failure_is_kept():
    with pytest.warns(errors.ConflictWarning) as warned:
        belief, info = absorb((), Scripted([17.0, 40.0, 1.1]))
    assert belief == ("tilt 1.1",)
    assert (info.remedy, info.health) == ("remedy 2", 1.1)
    assert len(warned) == 2


def test_a_change_that_is_not_finite_stops_at_once_and_is_ill():
    with pytest.raises(errors.ConflictError) as caught:
        absorb((), Scripted([1.0], change=np.nan))
    assert caught.value.iteration == 2


class Share(float):
    """A belief that is only how much of the past counts."""

    def scaled(self, factor):
        return Share(self * factor)


class TooMuchPast(Scripted):
    """Evidence that cannot be computed with more than a share of the past, and prefers 0.01."""

    def __init__(self, most):
        super().__init__([1.0])
        self.most = most

    def refine(self, belief, estimate, memory):
        change = 0.0 if belief <= self.most else np.nan
        return Step(float(belief), estimate + 1, memory, change, 1.0)

    def left_out_scores(self, step):
        return np.full(5, -abs(np.log(step.tilt / 0.01)))

    def conclude(self, belief, step):
        return belief


@pytest.mark.parametrize(("most", "kept"), [(0.5, 0.01), (0.005, 0.001)])
def test_a_batch_that_cannot_be_computed_with_the_past_takes_the_best_share_of_it(most, kept):
    belief, info = absorb(Share(1.0), TooMuchPast(most), forget=0.99, on_conflict="adapt")
    assert belief == pytest.approx(0.99 * kept)
    assert [entry.kind for entry in info.adapted] == ["forgotten"]


def test_slack_stops_where_the_changes_that_are_left_are_small():
    """Changes that halve leave as much to go as the last one was."""
    halving = [0.5**t for t in range(30)]
    ends = [t for t in range(1, 30) if met(Stop(slack=0.01), halving[:t], uncertainty=0.1)]
    assert ends[0] == 11  # 2^-10 is the first below 0.001
    assert ends == list(range(11, 30))
    assert not met(Stop(), halving[:26], uncertainty=0.1)
    assert not met(Stop(slack=0.01), halving[:20], uncertainty=0.0)


def test_slack_does_not_take_a_plateau_for_the_end():
    """Near a threshold the error e moves like de/dt = -(e - 1)^2 - 1e-4: slowly, then away."""
    error, changes = 2.0, []
    while error > 0.5:
        changes.append((error - 1.0) ** 2 + 1e-4)
        error -= changes[-1]
    assert min(changes) < 1.1e-4
    assert not any(met(Stop(slack=0.01), changes[:t], 1.0) for t in range(1, len(changes)))


@pytest.mark.parametrize(("noise", "alpha"), [(1e-2, 0.5), (1e-8, 0.6)])
def test_slack_saves_iterations_and_not_accuracy(noise, alpha, rng):
    """N=1000; the error may differ by (0.01 + its share of chance), taken as 3 %."""
    size, channel = 1000, channels.Gaussian(var=noise)
    x = PRIOR.sample(rng, size)
    Phi = rng.normal(size=(int(alpha * size), size)) / np.sqrt(size)
    batch = evidence.Batch(designs.Averaged(Phi), channel.sample(rng, Phi @ x), channel)
    start = Posterior(PRIOR, size)
    (long, far), (short, soon) = absorb(start, batch), absorb(start, batch, Stop(slack=0.01))
    assert soon.converged
    assert soon.iterations < 0.85 * far.iterations
    np.testing.assert_array_equal(soon.trace, far.trace[: soon.iterations])  # the same iterates
    errors = [np.mean(np.square(one.mean - x)) for one in (long, short)]
    assert errors[1] == pytest.approx(errors[0], rel=0.03)


@pytest.mark.filterwarnings("ignore::miniamp.errors.ConflictWarning")
def test_a_batch_in_conflict_may_be_skipped(belief, batch, rng):
    ill = evidence.Batch(batch.design, 1e4 * batch.y, CHANNEL)
    after, info = absorb(belief, ill, on_conflict="skip", forget=0.5)
    assert after is belief
    assert [entry.kind for entry in info.adapted] == ["skipped"]
    after, info = absorb(belief, batch, on_conflict="skip")
    assert after is not belief
    assert info.adapted == ()


def test_an_unknown_policy_is_refused(belief, batch):
    with pytest.raises(errors.InvalidInputError, match=r"^on_conflict: got 'ignore'"):
        absorb(belief, batch, on_conflict="ignore")


def test_a_batch_far_too_noisy_is_absorbed_with_the_noise_that_it_shows(belief, rows):
    Phi, y = rows
    noisy = y + 3.0 * np.random.default_rng(5).normal(size=M)
    ours, info = absorb(belief, evidence.RobustBatch(Phi, noisy, CHANNEL), on_conflict="adapt")
    entry = info.adapted[0]
    assert entry.kind == "noise"
    assert 3000.0 < entry.factor < 20000.0  # the noise is 9 and not 1e-3
    right, _ = absorb(belief, evidence.RobustBatch(Phi, noisy, channels.Gaussian(9.0)))
    assert np.sqrt(np.mean(np.square(ours.mean - right.mean))) < 0.3
