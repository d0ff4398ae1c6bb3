"""Every check that scikit-learn has for estimators, without an expected failure."""

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from miniamp.estimators import MiniAMPClassifier, MiniAMPRegressor

pytestmark = [
    # The checks feed data that no model describes; saying so is what the warnings are for.
    pytest.mark.filterwarnings("ignore::miniamp.estimators.HealthWarning"),
    pytest.mark.filterwarnings("ignore::miniamp.errors.ConflictWarning"),
]


@pytest.mark.slow
@parametrize_with_checks(
    [cls(prior="auto", forget="auto") for cls in (MiniAMPRegressor, MiniAMPClassifier)]
)
def test_every_check_of_what_is_learned(estimator, check):
    check(estimator)


@parametrize_with_checks([MiniAMPRegressor(), MiniAMPClassifier()])
def test_every_check(estimator, check):
    check(estimator)
