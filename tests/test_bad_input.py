"""Bad input at every public entry: a named error in plain words, before anything has changed."""

import numpy as np
import pytest
import scipy.sparse

from miniamp import Posterior, absorb, channels, designs, errors, evidence, priors, stream

M, N = 6, 4
CHANNEL = channels.Gaussian(var=0.1)


def good():
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(M, N)) / 2.0
    return Phi, Phi @ np.ones(N)


def with_entry(array, value):
    array = array.copy()
    array.flat[2] = value
    return array


PHI, Y = good()

#: Ways to see rows: each takes a belief, Phi, y and a channel, and gives the new belief.
ENTRIES = {
    "absorb Batch": lambda b, Phi, y, c: absorb(b, evidence.Batch(Phi, y, c))[0],
    "stream Batch": lambda b, Phi, y, c: next(stream(b, [evidence.Batch(Phi, y, c)]))[0],
    "absorb Averaged": lambda b, Phi, y, c: absorb(b, evidence.Batch(designs.Averaged(Phi), y, c))[
        0
    ],
    "absorb Dense": lambda b, Phi, y, c: absorb(b, evidence.Batch(designs.Dense(Phi), y, c))[0],
    "MeanFieldBatch": lambda b, Phi, y, c: absorb(b, evidence.MeanFieldBatch(Phi, y, c))[0],
    "RobustBatch": lambda b, Phi, y, c: absorb(b, evidence.RobustBatch(Phi, y, c))[0],
    "adf": lambda b, Phi, y, c: evidence.adf(b, Phi, y, c)[0],
}

#: What is wrong, the arguments that have it, and the argument that the error must name.
BAD = {
    "nan in Phi": (with_entry(PHI, np.nan), Y, CHANNEL, "Phi"),
    "inf in Phi": (with_entry(PHI, np.inf), Y, CHANNEL, "Phi"),
    "inf and -inf in Phi": (with_entry(-np.sign(PHI) * np.inf, 0.0), Y, CHANNEL, "Phi"),
    "float32 nan in Phi": (with_entry(PHI.astype(np.float32), np.nan), Y, CHANNEL, "Phi"),
    "Phi of one dimension": (PHI[0], Y, CHANNEL, "Phi"),
    "Phi of three dimensions": (PHI[None], Y, CHANNEL, "Phi"),
    "no rows": (PHI[:0], Y[:0], CHANNEL, "Phi"),
    "no columns": (PHI[:, :0], Y, CHANNEL, "Phi"),
    "text": (PHI.astype(str), Y, CHANNEL, "Phi"),
    "complex Phi": (PHI + 1j, Y, CHANNEL, "Phi"),
    "objects": (PHI.astype(object), Y, CHANNEL, "Phi"),
    "dates": (PHI.astype("datetime64[s]"), Y, CHANNEL, "Phi"),
    "ragged rows": ([[1.0, 2.0], [3.0]], Y, CHANNEL, "Phi"),
    "None for Phi": (None, Y, CHANNEL, "Phi"),
    "too few columns": (PHI[:, :3], Y, CHANNEL, "Phi"),
    "too many columns": (np.hstack([PHI, PHI]), Y, CHANNEL, "Phi"),
    "sparse with nan": (scipy.sparse.csr_array(with_entry(PHI, np.nan)), Y, CHANNEL, "Phi"),
    "sparse without rows": (scipy.sparse.csr_array(PHI[:0]), Y[:0], CHANNEL, "Phi"),
    "sparse with too few columns": (scipy.sparse.csr_array(PHI[:, :3]), Y, CHANNEL, "Phi"),
    "nan in y": (PHI, with_entry(Y, np.nan), CHANNEL, "y"),
    "inf in y": (PHI, with_entry(Y, -np.inf), CHANNEL, "y"),
    "too few y": (PHI, Y[:-1], CHANNEL, "y"),
    "too many y": (PHI, np.append(Y, 1.0), CHANNEL, "y"),
    "y of two dimensions": (PHI, Y[:, None], CHANNEL, "y"),
    "one number for y": (PHI, 1.0, CHANNEL, "y"),
    "text for y": (PHI, ["a"] * M, CHANNEL, "y"),
    "complex y": (PHI, Y + 1j, CHANNEL, "y"),
    "None for y": (PHI, None, CHANNEL, "y"),
    "no channel": (PHI, Y, None, "channel"),
    "a number for a channel": (PHI, Y, 0.1, "channel"),
    "a prior for a channel": (PHI, Y, priors.Gaussian(), "channel"),
    "a channel class": (PHI, Y, channels.Gaussian, "channel"),
    "noise of other rows": (PHI, Y, channels.Gaussian(var=np.ones(M + 1)), "channel"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("entry", ENTRIES)
def test_bad_rows_are_refused_by_name_and_change_nothing(entry, what):
    Phi, y, channel, name = BAD[what]
    belief = Posterior(priors.Gaussian(), N)
    before = belief.tilt
    with pytest.raises(errors.InvalidInputError) as caught:
        ENTRIES[entry](belief, Phi, y, channel)
    message = str(caught.value)
    assert message.startswith(f"{name}: got "), message
    assert "expected" in message
    assert ";" in message, "the remedy is missing"
    assert belief.tilt is before


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    "kind", [np.asarray, np.float32, np.asfortranarray, list, scipy.sparse.csr_array]
)
def test_good_rows_of_any_kind_are_taken(entry, kind):
    if kind is scipy.sparse.csr_array and entry == "absorb Dense":
        kind = np.asarray
    belief = ENTRIES[entry](Posterior(priors.Gaussian(), N), kind(PHI), Y, CHANNEL)
    expected = ENTRIES[entry](Posterior(priors.Gaussian(), N), PHI, Y, CHANNEL)
    np.testing.assert_allclose(belief.mean, expected.mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("entry", ["absorb Batch", "absorb Averaged", "adf"])
@pytest.mark.parametrize("label", [0.0, 2.0, 0.5])
def test_labels_other_than_signs_are_refused(entry, label):
    labels = with_entry(np.sign(Y), label)
    with pytest.raises(errors.InvalidInputError, match=r"^y: got the label .*-1 and \+1"):
        ENTRIES[entry](Posterior(priors.Rademacher(), N), PHI, labels, channels.Probit())


@pytest.mark.parametrize(
    ("Phi", "channel", "name"),
    [
        (with_entry(PHI, np.nan), CHANNEL, "Phi"),
        (PHI[:, :2], CHANNEL, "Phi"),
        (PHI[:0], CHANNEL, "Phi"),
        (PHI, "gaussian", "channel"),
    ],
)
def test_forecast_checks_its_rows_too(Phi, channel, name):
    with pytest.raises(errors.InvalidInputError, match=f"^{name}: got "):
        evidence.forecast(Posterior(priors.Gaussian(), N), Phi, channel)


@pytest.mark.parametrize("damping", [-0.1, 1.0, 2.0, np.nan, "half", [0.1, 0.2]])
def test_damping_is_a_share(damping):
    with pytest.raises(errors.InvalidInputError, match=r"^damping: got "):
        evidence.Batch(PHI, Y, CHANNEL, damping=damping)


def test_every_error_is_of_one_family_and_of_the_builtin_one_too():
    assert issubclass(errors.InvalidInputError, ValueError)
    assert issubclass(errors.InvalidTypeError, TypeError)
    assert issubclass(errors.MissingExtraError, ImportError)
    assert issubclass(errors.ConflictError, ArithmeticError)
    for kind in (
        errors.InvalidInputError,
        errors.InvalidTypeError,
        errors.MissingExtraError,
        errors.ConflictError,
    ):
        assert issubclass(kind, errors.MiniampError)
