"""Models given by formulas: contrasts, later batches, files, refusals."""

import numpy as np
import pytest

pytest.importorskip("formulaic")
import pandas as pd

import miniamp
from miniamp import from_formula
from miniamp.errors import InvalidInputError
from miniamp.estimators import FormulaClassifier, FormulaRegressor


@pytest.fixture
def tips(rng):
    """500 bills: tips grow with the bill, faster for men, and are larger on Sundays."""
    bill = rng.uniform(5.0, 50.0, 500)
    sex, day = rng.choice(["f", "m"], 500), rng.choice(["fri", "sat", "sun"], 500)
    slope = 0.1 + 0.05 * (sex == "m")
    tip = 1.0 + slope * bill + 2.0 * (day == "sun") + 0.3 * rng.normal(size=500)
    return pd.DataFrame({"tip": tip, "bill": bill, "sex": sex, "day": day})


def test_coefficients_are_differences_from_the_reference_level(tips):
    model = from_formula("tip ~ bill * sex + C(day, contr.treatment('sun'))", tips)
    table = model.summary()
    expected = {
        "intercept": 3.0,
        "bill": 0.1,
        "sex[T.m]": 0.0,
        "C(day, contr.treatment('sun'))[T.fri]": -2.0,
        "C(day, contr.treatment('sun'))[T.sat]": -2.0,
        "bill:sex[T.m]": 0.05,
    }
    assert set(table.index) == set(expected)
    for name, value in expected.items():
        assert abs(table.loc[name, "mean"] - value) < 4.0 * table.loc[name, "std"]


@pytest.mark.parametrize(
    "formula", ["tip ~ center(bill) + poly(bill, 2) + sex + day", "np.log(tip) ~ 0 + log(bill):day"]
)
def test_later_batches_use_the_levels_and_transforms_of_the_first(tips, formula, tmp_path):
    model = from_formula(formula, estimator="regressor")
    model.partial_fit(tips[:300])
    model.save(tmp_path / "m.amp")
    again = miniamp.load(tmp_path / "m.amp")
    one = tips[300:301]  # a row with one level of each
    for part in (one, tips[301:]):
        model.partial_fit(part)
        again.partial_fit(part)
    assert isinstance(again, FormulaRegressor)
    assert np.array_equal(model.predict(one), again.predict(one))
    assert np.array_equal(model.coef_, again.coef_)
    residual = np.log(tips.tip) if "log" in formula else tips.tip
    assert np.corrcoef(model.predict(tips), residual)[0, 1] > 0.9


def test_labels_make_a_classifier_and_several_targets_a_table(tips, tmp_path):
    model = from_formula("sex ~ tip + bill + day", tips)
    assert isinstance(model, FormulaClassifier)
    assert model.score(tips, tips.sex) > 0.8
    model.save(tmp_path / "c.amp")
    assert np.array_equal(miniamp.load(tmp_path / "c.amp").predict(tips), model.predict(tips))
    both = from_formula("tip + bill ~ sex", tips)
    assert both.predict(tips).shape == (500, 2)
    assert both.target_names_in_.tolist() == ["tip", "bill"]


def test_unknown_levels_and_missing_values_are_named(tips):
    model = from_formula("tip ~ bill + day", tips)
    later = tips[:3].assign(day=["fri", "mon", "sat"])
    for act in (model.predict, model.partial_fit):
        with pytest.raises(InvalidInputError) as refused:
            act(later)
        assert (refused.value.argument, refused.value.received) == ("day", "the level 'mon'")
    with pytest.raises(InvalidInputError, match="bill: got missing values"):
        model.predict(tips[:3].assign(bill=[1.0, np.nan, 2.0]))
    with pytest.raises(InvalidInputError, match="no column 'day'"):
        model.predict(tips[["bill"]])
    listed = from_formula("tip ~ bill + C(day, levels=['fri', 'mon', 'sat', 'sun'])", tips)
    assert listed.predict(later).shape == (3,)


@pytest.mark.parametrize(
    "formula",
    [
        "tip",
        "tip ~ open('x')",
        "tip ~ (np.load)('x')",
        "tip ~ bill.__class__",
        "tip ~ {bill + 1}",
        "tip ~ np.random.rand(bill)",
        "tip ~ [np][0].load('x')",
    ],
)
def test_formulas_cannot_run_other_code(tips, formula):
    with pytest.raises(InvalidInputError, match="formula"):
        from_formula(formula, tips)


def test_it_can_be_cloned_and_searched(tips):
    from sklearn.base import clone

    model = from_formula("tip ~ bill", estimator="regressor", prior="sparse")
    params = clone(model).get_params()
    assert params["formula"] == "tip ~ bill"
    assert params["prior"] == "sparse"
