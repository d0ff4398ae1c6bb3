import numpy as np
import pytest

from miniamp import channels, errors, priors


def test_shape_says_what_is_shared():
    assert priors.GaussBernoulli(rho=0.2).shape == ()
    assert priors.GaussBernoulli(rho=[0.2, 0.3], var=2.0).shape == (2,)


def test_part_of_the_coordinates_keeps_its_own_and_shares_the_rest():
    prior = priors.GaussBernoulli(rho=[0.1, 0.2, 0.3], mean=5.0)
    part = prior.at(slice(1, None), 3)
    np.testing.assert_array_equal(part.rho, [0.2, 0.3])
    assert part.mean == 5.0


def test_where_all_is_shared_a_part_is_the_whole():
    channel = channels.Gaussian(var=0.5)
    assert channel.at(slice(3, 9)) is channel


def test_a_changed_copy_leaves_the_original():
    prior = priors.GaussBernoulli(rho=0.1, var=2.0)
    other = prior.replaced(rho=0.4)
    assert (float(prior.rho), float(other.rho), float(other.var)) == (0.1, 0.4, 2.0)


def test_a_changed_copy_is_checked_like_a_new_one():
    with pytest.raises(errors.InvalidInputError, match=r"^rho: "):
        priors.GaussBernoulli(rho=0.1).replaced(rho=1.4)


def test_equal_means_same_kind_and_same_numbers():
    assert priors.Gaussian(var=2.0) == priors.Gaussian(var=2.0)
    assert priors.Gaussian(var=2.0) != priors.Gaussian(var=3.0)
    assert priors.Gaussian(mean=0.0, var=2.0) != channels.Gaussian(var=2.0)
    assert priors.Gaussian(var=[1.0, 2.0]) != priors.Gaussian(var=1.0)


def test_hyper_parameters_cannot_be_overwritten_in_place():
    with pytest.raises(ValueError, match="read-only"):
        priors.Gaussian(var=[1.0, 2.0]).var[0] = -1.0


def test_the_name_shows_the_numbers():
    assert repr(priors.Gaussian(mean=0.5)) == "Gaussian(mean=0.5, var=1)"
    assert repr(priors.Gaussian(var=np.ones(100))) == "Gaussian(mean=0, var=<100 values>)"


def test_a_change_is_relative_to_the_hyper_parameter_itself():
    noise = channels.Gaussian(var=1e-7)
    assert noise.change_from(channels.Gaussian(var=1e-6)) == pytest.approx(9.0)
    assert priors.Gaussian(var=2e-6).change_from(priors.Gaussian(var=1e-6)) == pytest.approx(0.5)
    # A mean near zero has no size of its own.
    moved = priors.Gaussian(mean=1e-9, var=1.0).change_from(priors.Gaussian(mean=-1e-9, var=1.0))
    assert moved == pytest.approx(2e-9)
