"""Point figures against hand calculations, for numpy, torch and lists."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent import metrics
from neuro_divergent.core.errors import DataError
from neuro_divergent.metrics import (
    METRICS,
    POINT_METRICS,
    accuracy,
    bias,
    bias_percent,
    directional_accuracy,
    mae,
    mape,
    mse,
    r2,
    rmse,
    smape,
)

ACTUAL = np.array([[1.0, 2.0, 4.0], [10.0, 0.0, 5.0]])
FORECAST = np.array([[2.0, 2.0, 1.0], [5.0, 0.0, 10.0]])


def test_by_hand_overall() -> None:
    # errors 1, 0, -3, -5, 0, 5
    assert mae(ACTUAL, FORECAST) == pytest.approx(14 / 6)
    assert mse(ACTUAL, FORECAST) == pytest.approx(60 / 6)
    assert rmse(ACTUAL, FORECAST) == pytest.approx(math.sqrt(10))
    assert bias(ACTUAL, FORECAST) == pytest.approx(-2 / 6)
    assert bias_percent([0, 10, 30, np.nan], [0, 8, 24, 9]) == pytest.approx(100 * (32 / 40 - 1)), "Σf / Σy - 1"
    assert bias_percent([-10, 10], [-8, 10]) == pytest.approx(10), "too high by 2 of 20"
    assert np.isnan(bias_percent([0.0, 0.0], [1.0, 1.0]))
    # 100, 0, 75, 50, left out, 100
    assert mape(ACTUAL, FORECAST) == pytest.approx(325 / 5)
    # 200·(1/3, 0, 3/5, 5/15, 0 for 0/0, 5/15)
    assert smape(ACTUAL, FORECAST) == pytest.approx(200 * (1 / 3 + 3 / 5 + 1 / 3 + 1 / 3) / 6)


def test_one_function_serves_series_steps_and_all() -> None:
    assert mae(ACTUAL, FORECAST, axis=1) == pytest.approx([4 / 3, 10 / 3])
    assert mae(ACTUAL, FORECAST, axis=0) == pytest.approx([3, 0, 4])
    assert mae(ACTUAL, FORECAST, axis=(0, 1)) == mae(ACTUAL, FORECAST)
    assert isinstance(mae(ACTUAL, FORECAST), float)


def test_missing_actuals_and_masked_values_are_left_out() -> None:
    actual = ACTUAL.copy()
    actual[0, 2] = np.nan
    assert mae(actual, FORECAST) == pytest.approx(11 / 5)
    assert mae(ACTUAL, FORECAST, mask=[[True, True, False], [True] * 3]) == pytest.approx(11 / 5)
    assert mse(actual, FORECAST, mask=np.array([True, False, True]), axis=1) == pytest.approx([1, 25])
    assert math.isnan(mae([np.nan], [1.0]))


def test_a_missing_forecast_is_not_forgiven() -> None:
    assert math.isnan(mae([1.0, 2.0], [1.0, np.nan]))
    assert math.isnan(r2([1.0, 2.0], [1.0, np.nan]))
    assert math.isnan(directional_accuracy([1.0, 2.0, 3.0], [1.0, np.nan, 3.0]))
    assert mae([1.0, np.nan], [2.0, np.nan]) == 1.0


def test_torch_tensors_and_lists_are_taken() -> None:
    left, right = torch.tensor(ACTUAL, dtype=torch.float32, requires_grad=True), torch.tensor(FORECAST)
    assert rmse(left, right) == pytest.approx(rmse(ACTUAL.tolist(), FORECAST.tolist()))
    assert mae(left, right, mask=torch.tensor([[True, True, False], [True, True, True]])) == pytest.approx(11 / 5)


def test_sums_are_in_double_precision() -> None:
    actual = np.full(1_000_000, 16_777_216, dtype=np.float32)
    assert mae(actual, np.zeros_like(actual)) == 16_777_216.0


def test_shapes_must_agree() -> None:
    with pytest.raises(DataError, match=r"the same shape, but got \(2, 3\) and \(3,\)"):
        mae(ACTUAL, FORECAST[0])


def test_r2() -> None:
    # by hand: y = 1, 2, 4 has variation 42/9; errors 1, 0, -3
    assert r2(ACTUAL, FORECAST, axis=1)[0] == pytest.approx(1 - 10 / (42 / 9))
    assert r2(ACTUAL, ACTUAL) == 1
    assert r2([3.0, 3.0], [3.0, 3.0]) == 1
    assert r2([3.0, 3.0], [3.0, 4.0]) == 0
    assert r2([1.0, 2.0, np.nan, 4.0], [2.0, 2.0, 9.0, 1.0]) == pytest.approx(1 - 10 / (42 / 9))


def test_directional_accuracy_by_hand() -> None:
    actual, forecast = [3.0, 5.0, 4.0, 4.0], [2.0, 4.0, 6.0, 4.0]
    # from 3: up and up; from 5: down and up; from 4: still and still
    assert directional_accuracy(actual, forecast) == pytest.approx(2 / 3)
    # from 1: up and up
    assert directional_accuracy(actual, forecast, last=[1.0]) == pytest.approx(3 / 4)
    assert directional_accuracy([actual, actual], [forecast, actual], axis=1) == pytest.approx([2 / 3, 1])


def test_accuracy() -> None:
    assert accuracy([0, 1, 2, 2], [0, 1, 1, 2]) == 0.75
    assert accuracy(torch.tensor([0, 1]), torch.tensor([1, 1]), mask=[False, True]) == 1.0


def test_tables_name_what_is_exported() -> None:
    assert set(METRICS) < set(metrics.__all__)
    assert all(METRICS[name] is getattr(metrics, name) for name in METRICS)
    assert {METRICS[name](ACTUAL, ACTUAL) for name in POINT_METRICS} == {0.0, 1.0}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.booleans()), min_size=1, max_size=30))
def test_masking_equals_dropping(rows: list[tuple[float, float, bool]]) -> None:
    actual, forecast, keep = (np.array(part) for part in zip(*rows, strict=True))
    for name in ("mae", "mse", "mape", "smape", "bias", "r2"):
        masked = METRICS[name](actual, forecast, mask=keep)
        dropped = METRICS[name](actual[keep], forecast[keep])
        assert masked == pytest.approx(dropped, nan_ok=True, rel=1e-6)
        if name == "smape" and keep.any():
            assert 0 <= masked <= 200 + 1e-9
