import gc
import itertools
import subprocess
import sys
import weakref

import numpy as np
import pytest

from miniamp import Posterior, Stop, absorb, channels, datasets, errors, evidence, priors, stream

N = 50
PRIOR = priors.GaussBernoulli(rho=0.3)
CHANNEL = channels.Gaussian(var=1e-3)


@pytest.fixture
def problem():
    return datasets.glm_stream(PRIOR, CHANNEL, N, alpha_b=0.4, batches=6, rng=3)


def batches(problem):
    return (evidence.Batch(Phi, y, CHANNEL) for Phi, y in problem)


def test_streaming_is_absorbing_one_after_the_other(problem):
    belief = Posterior(PRIOR, N)
    streamed = stream(belief, batches(problem))
    for Phi, y in problem:
        belief, info = absorb(belief, evidence.Batch(Phi, y, CHANNEL))
        other, other_info = next(streamed)
        np.testing.assert_array_equal(belief.mean, other.mean)
        np.testing.assert_array_equal(belief.var, other.var)
        assert info.iterations == other_info.iterations


def test_one_batch_streamed_equals_offline_exactly(problem):
    Phi, y = (np.concatenate(parts) for parts in zip(*problem, strict=True))
    offline, _ = absorb(Posterior(PRIOR, N), evidence.Batch(Phi, y, CHANNEL))
    ((streamed, _),) = stream(Posterior(PRIOR, N), [evidence.Batch(Phi, y, CHANNEL)])
    np.testing.assert_array_equal(streamed.tilt.A, offline.tilt.A)
    np.testing.assert_array_equal(streamed.tilt.B, offline.tilt.B)


def test_nothing_happens_before_it_is_asked_for(problem):
    asked = []

    def noticed():
        for k, batch in enumerate(batches(problem)):
            asked.append(k)
            yield batch

    streamed = stream(Posterior(PRIOR, N), noticed())
    assert asked == []
    next(streamed)
    assert asked == [0]
    next(streamed)
    assert asked == [0, 1]


def test_a_batch_is_let_go_before_the_next_is_made(problem):
    seen = 0

    def watched():
        nonlocal seen
        for k in range(len(problem)):
            batch = evidence.Batch(*problem[k], CHANNEL)
            rows = weakref.ref(batch)
            yield batch
            del batch
            gc.collect()
            assert rows() is None, f"batch {k} is still held"
            seen += 1

    for _ in stream(Posterior(PRIOR, N), watched()):
        pass
    assert seen == 6


def test_an_endless_stream_is_fine():
    def endless():
        rng = np.random.default_rng(0)
        while True:
            Phi = rng.normal(size=(10, N)) / np.sqrt(N)
            yield evidence.Batch(Phi, Phi[:, 0], CHANNEL)

    *_, (belief, _) = itertools.islice(stream(Posterior(PRIOR, N), endless()), 30)
    assert belief.mean[0] == pytest.approx(1.0, abs=0.2)


def test_no_batches_no_beliefs():
    assert list(stream(Posterior(PRIOR, N), [])) == []


@pytest.mark.filterwarnings("ignore::miniamp.errors.ConflictWarning")
def test_an_ill_batch_names_its_place_in_the_stream(problem):
    def with_one_bad():
        for k, (Phi, y) in enumerate(problem):
            yield evidence.Batch(Phi, 1e4 * y if k == 2 else y, CHANNEL)

    beliefs = []
    with pytest.raises(errors.ConflictError, match=r"^batch 2, evidence: ") as caught:
        beliefs.extend(belief for belief, _ in stream(Posterior(PRIOR, N), with_one_bad()))
    assert caught.value.batch == 2
    assert isinstance(caught.value.__cause__, errors.ConflictError)
    # What was learned before is still good, and can be gone on from.
    assert len(beliefs) == 2
    resumed, _ = absorb(beliefs[-1], evidence.Batch(*problem[2], CHANNEL))
    assert problem.mse(resumed.mean) < problem.mse(beliefs[-1].mean)


def test_stop_applies_to_every_batch(problem):
    infos = [info for _, info in stream(Posterior(PRIOR, N), batches(problem), Stop(max_iter=2))]
    assert [info.iterations for info in infos] == [2] * 6


MANY_BATCHES = """
import resource
import numpy as np
from miniamp import Posterior, Stop, channels, datasets, evidence, priors, stream

prior, channel = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-3)
problem = datasets.glm_stream(prior, channel, 100, alpha_b=0.1, batches=10_000, rng=0)
batches = (evidence.Batch(Phi, y, channel) for Phi, y in problem)
for k, _ in enumerate(stream(Posterior(prior, 100), batches, Stop(max_iter=3))):
    if k in (500, 9_999):
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs the resource module of Unix")
def test_ten_thousand_batches_leave_resident_memory_flat():
    """Peak memory of a process of its own: what came before in this one would hide a leak."""
    run = subprocess.run(
        [sys.executable, "-c", MANY_BATCHES], capture_output=True, text=True, check=True
    )
    early, late = (int(line) for line in run.stdout.split())
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in kB elsewhere
    assert (late - early) * unit < 20e6
