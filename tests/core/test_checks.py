import numpy as np
import pytest

from miniamp import checks, errors


@pytest.mark.parametrize("value", [3, np.int32(3), np.uint8(3), np.array(3)])
def test_count_takes_whole_numbers_of_any_kind(value):
    assert checks.count("n", value) == 3
    assert type(checks.count("n", value)) is int


@pytest.mark.parametrize("value", [3.0, "3", None, [3, 4], 1 + 2j])
def test_count_refuses_what_is_no_whole_number(value):
    with pytest.raises(
        errors.InvalidTypeError, match=r"^n: .*expected a whole number >= 1; pass an int"
    ):
        checks.count("n", value)


def test_count_keeps_its_bound():
    assert checks.count("n", 0, least=0) == 0
    with pytest.raises(errors.InvalidInputError, match="got 1, expected a whole number >= 2"):
        checks.count("n", 1, least=2)


def test_numeric_gives_float64():
    array = checks.numeric("y", [1, 2, 3])
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, [1.0, 2.0, 3.0])


def test_numeric_does_not_copy_what_fits():
    given = np.arange(3.0)
    assert checks.numeric("y", given) is given


@pytest.mark.parametrize("value", ["text", ["a", "b"], [[1, 2], [3]], object(), {"a": 1}, [1j]])
def test_numeric_refuses_other_types(value):
    with pytest.raises(errors.InvalidTypeError, match=r"^y: got .*expected real numbers"):
        checks.numeric("y", value)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ([0.0, np.nan, np.inf], "nan at index 1 and 1 more"),
        ([[0.0, 1.0], [-np.inf, 2.0]], r"-inf at index \(1, 0\)"),
        (np.nan, "got nan, expected"),
        ([None, 1.0], "nan at index 0"),
    ],
)
def test_numeric_says_where_the_first_bad_entry_is(value, where):
    with pytest.raises(errors.InvalidInputError, match=where):
        checks.numeric("y", value)


def test_parameter_is_a_read_only_copy():
    given = np.array([1.0, 2.0])
    kept = checks.parameter("var", given)
    given[0] = -5.0
    assert kept[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 7.0


@pytest.mark.parametrize(
    ("bounds", "value", "expected"),
    [
        ({"least": 0.0}, -0.1, ">= 0"),
        ({"above": 0.0}, 0.0, "> 0"),
        ({"most": 1.0}, [0.5, 1.5], "<= 1"),
        ({"least": 0.0, "most": 1.0}, 2.0, ">= 0 and <= 1"),
    ],
)
def test_parameter_says_its_range(bounds, value, expected):
    with pytest.raises(
        errors.InvalidInputError, match=f"^p: .*expected a finite number {expected}"
    ):
        checks.parameter("p", value, **bounds)


@pytest.mark.parametrize(
    ("bounds", "value"),
    [({"least": 0.0}, 0.0), ({"above": 0.0}, 1e-300), ({"most": 1.0}, 1.0)],
)
def test_parameter_takes_the_edge_of_its_range(bounds, value):
    assert checks.parameter("p", value, **bounds) == value


def test_parameter_has_at_most_one_dimension():
    with pytest.raises(errors.InvalidInputError, match=r"shape \(2, 2\).*ravel"):
        checks.parameter("p", np.ones((2, 2)))


def test_number_is_one_number():
    assert checks.number("p", np.float32(0.5)) == 0.5
    with pytest.raises(errors.InvalidInputError, match="expected one number; pass a scalar"):
        checks.number("p", [0.5])


@pytest.mark.parametrize("shape", [(), (4,)])
def test_fitting_hyper_parameters_pass(shape):
    checks.fits("prior", shape, 4)


@pytest.mark.parametrize("shape", [(1,), (3,), (5,), (4, 1)])
def test_other_hyper_parameters_do_not(shape):
    with pytest.raises(errors.InvalidInputError, match="4 coefficients"):
        checks.fits("prior", shape, 4)


def test_vector_has_one_dimension_and_its_length():
    np.testing.assert_array_equal(checks.vector("y", [1, 2], size=2), [1.0, 2.0])
    with pytest.raises(errors.InvalidInputError, match=r"^y: got shape \(2, 1\)"):
        checks.vector("y", [[1.0], [2.0]])
    with pytest.raises(errors.InvalidInputError, match=r"^y: got 2 values, expected 3 values"):
        checks.vector("y", [1.0, 2.0], size=3)


def test_generator_takes_one_a_seed_or_nothing():
    own = np.random.default_rng(0)
    assert checks.generator("rng", own) is own
    assert checks.generator("rng", 7).random() == np.random.default_rng(7).random()
    assert checks.generator("rng", None).random() != checks.generator("rng", None).random()


@pytest.mark.parametrize("value", ["seed", -1, 1.5])
def test_generator_refuses_the_rest(value):
    with pytest.raises(errors.InvalidTypeError, match=r"^rng: .*default_rng"):
        checks.generator("rng", value)
