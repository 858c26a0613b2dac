"""What residuals are said to show: the tests against scipy, their verdicts over series whose nature is known."""

import numpy as np
import pytest
from scipy import stats

from neuro_divergent.forecasting.evaluate.residuals import (
    bias_of,
    chi_square_p,
    dependence_of,
    ljung_box,
    student_p,
)


def autoregressive(rng, count, share, lag=1):
    y = rng.standard_normal(count + 200)
    for step in range(lag, len(y)):
        y[step] += share * y[step - lag]
    return y[200:]


def test_p_values_agree_with_scipy():
    for t, degrees in ((0.0, 3), (1.7, 1), (-2.5, 12), (30.0, 4)):
        assert student_p(t, degrees) == pytest.approx(2 * stats.t.sf(abs(t), degrees), rel=1e-9)
    for value, degrees in ((0.5, 1), (31.4, 24), (8.0, 10)):
        assert chi_square_p(value, degrees) == pytest.approx(stats.chi2.sf(value, degrees), rel=1e-9)


def test_bias_of_equal_groups_is_the_t_test_of_their_means():
    rng = np.random.default_rng(0)
    errors = rng.normal(0.4, 1.0, (8, 5))
    actual = np.full_like(errors, 10.0)
    group = np.repeat(np.arange(8), 5).reshape(8, 5)
    found = bias_of(errors, actual, group)
    assert found.percent == pytest.approx(-100 * errors.sum() / 400)
    assert found.p_value == pytest.approx(stats.ttest_1samp(errors.mean(axis=1), 0.0).pvalue, rel=1e-9)
    errors[0, 0] = np.nan
    assert np.isfinite(bias_of(errors, actual, group).p_value)
    assert bias_of(errors[:1], actual[:1], group[:1]).p_value is None


def test_a_small_mean_error_beside_a_large_spread_is_a_bias():
    """Sales of one a day, forecast as 0.62: the sum is 38 % too low, the mean error is well inside the spread."""
    rng = np.random.default_rng(1)
    actual = rng.poisson(1.0, (400, 7)).astype(float)
    forecast = np.full_like(actual, 0.62)
    found = bias_of(actual - forecast, actual, np.arange(400)[:, None].repeat(7, axis=1))
    assert found.percent == pytest.approx(-38, abs=2)
    assert found.significant


def test_no_bias_is_called_one_as_often_as_the_level_says():
    """300 unbiased samples whose groups err together: false alarms are binomial(300, 0.05), its 99.99 % quantile."""
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(12), 6)
    alarms = 0
    for _ in range(300):
        errors = rng.standard_normal(12)[group] + rng.standard_normal(72)
        alarms += bias_of(errors, np.ones(72), group).significant
    assert alarms <= stats.binom.ppf(0.9999, 300, 0.05)
    assert alarms >= stats.binom.ppf(0.0001, 300, 0.05)


def test_ljung_box_by_hand():
    """n = 100, r = (0.2, -0.1): Q = 100·102·(0.04/99 + 0.01/98) = 5.1620…; its chi-square value is scipy's."""
    r = np.array([0.2, -0.1])
    assert ljung_box(r, 100) == pytest.approx(100 * 102 * (0.04 / 99 + 0.01 / 98))
    assert chi_square_p(ljung_box(r, 100), 2) == pytest.approx(stats.chi2.sf(5.16203, 2), rel=1e-4)


def test_the_autocorrelation_of_one_series_by_hand():
    """1, -1, 1, -1, …: neighbours are opposite, (n-1)/n of the sum of squares, plus the share (n-1)/n² of the mean."""
    found = dependence_of([np.tile([1.0, -1.0], 10)], 2)
    assert found.correlation == pytest.approx([-19 / 20 + 19 / 400, 18 / 20 + 18 / 400])
    assert found.count == pytest.approx(20)


SERIES = {
    "opposite neighbours": (lambda rng: autoregressive(rng, 106, -0.4), True),
    "like neighbours": (lambda rng: autoregressive(rng, 106, 0.5), True),
    "a season": (lambda rng: autoregressive(rng, 200, 0.6, lag=12), True),
    "a trend": (lambda rng: rng.standard_normal(100) + np.linspace(-2, 2, 100), True),
    "with gaps": (lambda rng: np.where(rng.random(200) < 0.1, np.nan, autoregressive(rng, 200, 0.6)), True),
}


@pytest.mark.parametrize("kind", SERIES)
def test_dependent_errors_are_found(kind):
    make, wanted = SERIES[kind]
    found = [dependence_of([make(np.random.default_rng(seed))], 24).significant for seed in range(20)]
    assert sum(found) >= 18 if wanted else sum(found) <= 3, sum(found)


def test_one_strong_neighbour_is_enough():
    """Lag 1 at -0.29 outside ±0.19 (n = 106) is not independence, whatever the 23 other lags say together."""
    errors = np.random.default_rng(3).standard_normal(106)
    found = dependence_of([errors], 24)
    strong = found.correlation.copy()
    strong[0] = -0.29
    found = type(found)(strong, 106.0)
    assert found.bound == pytest.approx(0.19, abs=0.001)
    assert 1 in found.outside
    assert found.p_first == pytest.approx(2 * stats.norm.sf(0.29 * np.sqrt(106)), rel=1e-9)
    assert found.significant


@pytest.mark.parametrize(
    ("series", "together", "lags"), [(1, 0.0, 24), (5, 0.0, 10), (5, 0.95, 20)], ids=["one", "five", "five together"]
)
def test_independent_errors_are_called_dependent_as_rarely_as_the_level_says(series, together, lags):
    """Of 200 panels of white noise, also of series that err together, at most binomial(200, 0.05) are wrong."""
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        common = rng.standard_normal(70)
        errors = [np.sqrt(together) * common + np.sqrt(1 - together) * rng.standard_normal(70) for _ in range(series)]
        alarms += dependence_of(errors, lags).significant
    assert alarms <= stats.binom.ppf(0.999, 200, 0.05), alarms
