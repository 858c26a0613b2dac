"""Scaled and probabilistic figures against hand calculations and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.metrics import (
    coverage,
    crps_quantiles,
    interval_score,
    mase,
    naive_scale,
    owa,
    pinball,
    rmsse,
    scaled_crps,
    smape,
)

HISTORY = np.array([[1.0, 3.0, 2.0, 6.0], [0.0, 10.0, 0.0, 10.0]])
ACTUAL = np.array([[5.0, 1.0], [10.0, 0.0]])
FORECAST = np.array([[2.0, 2.0], [5.0, 5.0]])


def test_naive_scale_by_hand() -> None:
    assert naive_scale(HISTORY) == pytest.approx(np.array([[7 / 3], [10.0]]))
    assert naive_scale(HISTORY, 2)[0, 0] == pytest.approx(2.0)
    assert naive_scale(HISTORY, squared=True)[0, 0] == pytest.approx(21 / 3)
    assert naive_scale([1.0, np.nan, 2.0, 6.0])[0] == pytest.approx(4.0)
    with pytest.raises(DataError, match="less than the history's length"):
        naive_scale([1.0, 2.0], 2)


def test_mase_and_rmsse_by_hand() -> None:
    # errors 3, 1 over 7/3 and 5, 5 over 10
    assert mase(ACTUAL, FORECAST, history=HISTORY, axis=1) == pytest.approx([2 / (7 / 3), 0.5])
    assert mase(ACTUAL, FORECAST, history=HISTORY) == pytest.approx((2 / (7 / 3) + 0.5) / 2)
    assert rmsse(ACTUAL, FORECAST, history=HISTORY, axis=1) == pytest.approx([math.sqrt(5 / 7), 0.5])
    assert mase(ACTUAL, FORECAST, scale=[[7 / 3], [10.0]], axis=1) == pytest.approx([6 / 7, 0.5])


def test_a_history_without_naive_error_is_left_out() -> None:
    # with a season of 2 the second history repeats itself exactly
    assert mase(ACTUAL, FORECAST, history=HISTORY, seasonality=2) == pytest.approx(1.0)
    assert np.isnan(mase(ACTUAL, FORECAST, history=HISTORY, seasonality=2, axis=1)[1])
    assert np.isnan(rmsse(ACTUAL, FORECAST, history=HISTORY, seasonality=2, axis=1)[1])


def test_scaled_figures_need_one_source_of_scale() -> None:
    with pytest.raises(ConfigError, match="history or scale"):
        mase(ACTUAL, FORECAST)
    with pytest.raises(ConfigError, match="history or scale"):
        rmsse(ACTUAL, FORECAST, history=HISTORY, scale=1.0)


def test_owa_is_one_for_the_naive_forecast_itself() -> None:
    naive = np.array([[6.0, 6.0], [10.0, 10.0]])
    assert owa(ACTUAL, naive, naive, history=HISTORY) == pytest.approx(1.0)
    # by hand from its definition
    expected = smape(ACTUAL, FORECAST) / smape(ACTUAL, naive)
    expected += mase(ACTUAL, FORECAST, history=HISTORY) / mase(ACTUAL, naive, history=HISTORY)
    assert owa(ACTUAL, FORECAST, naive, history=HISTORY) == pytest.approx(expected / 2)


def test_pinball_by_hand() -> None:
    assert pinball([3.0, 0.0], [1.0, 1.0], q=0.8) == pytest.approx((1.6 + 0.2) / 2)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        pinball([1.0], [1.0], q=1.0)


def test_crps_from_quantiles_approaches_the_exact_one() -> None:
    levels = (np.arange(2000) + 0.5) / 2000
    forecast = stats.norm(1, 2).ppf(levels)[None]
    z = (2.5 - 1) / 2  # closed form of a normal forecast, Gneiting & Raftery 2007
    exact = 2 * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / math.sqrt(math.pi))
    assert crps_quantiles([2.5], forecast, levels=levels) == pytest.approx(exact, rel=1e-3)
    assert scaled_crps([2.5], forecast, levels=levels) == pytest.approx(exact / 2.5, rel=1e-3)


def test_scaled_crps_by_hand_and_masked() -> None:
    actual, forecast = np.array([2.0, -4.0, np.nan]), np.array([[1.0, 3.0], [0.0, 0.0], [9.0, 9.0]])
    # levels 0.25, 0.75: pinball (0.25, 0.25), (3, 1) → CRPS 0.5, 4; over |2| + |-4|
    assert scaled_crps(actual, forecast, levels=[0.25, 0.75]) == pytest.approx(4.5 / 6)
    assert math.isnan(scaled_crps([0.0], [[1.0]], levels=[0.5]))
    with pytest.raises(DataError, match=r"shape \(3, 2\) for 2 levels"):
        scaled_crps(actual, forecast[:, :1], levels=[0.25, 0.75])


def test_coverage_and_interval_score_by_hand() -> None:
    actual, low, high = [1.0, 5.0, 9.0, np.nan], [0.0, 5.0, 10.0, 0.0], [2.0, 6.0, 12.0, 0.0]
    assert coverage(actual, low, high) == pytest.approx(2 / 3)
    # widths 2, 1, 2; the third is 1 below: 2 / 0.2 · 1
    assert interval_score(actual, low, high, level=80) == pytest.approx((2 + 1 + 12) / 3)
    with pytest.raises(ConfigError, match="between 0 and 100"):
        interval_score(actual, low, high, level=100)


def test_interval_score_prefers_the_true_interval() -> None:
    draws = stats.norm.rvs(size=20_000, random_state=0)
    scores = []
    for width in (0.8, 1.2816, 2.0):
        low, high = np.full_like(draws, -width), np.full_like(draws, width)
        scores.append(interval_score(draws, low, high, level=80))
    assert np.argmin(scores) == 1
    assert coverage(draws, np.full_like(draws, -1.2816), np.full_like(draws, 1.2816)) == pytest.approx(0.8, abs=0.01)
