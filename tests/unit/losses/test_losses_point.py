"""Point losses against hand calculations; e = forecast - target."""

from __future__ import annotations

import math

import pytest
import torch

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import (
    MAE,
    MAPE,
    MASE,
    MSE,
    RMSE,
    SMAPE,
    FreDF,
    Huber,
    LogCosh,
    Loss,
    RelativeMSE,
    Tukey,
)


def values(loss: Loss, forecast: list[float], target: list[float]) -> list[float]:
    output = torch.tensor(forecast, dtype=torch.float64)[:, None]
    return loss.values(output, torch.tensor(target, dtype=torch.float64)).tolist()


@pytest.mark.parametrize(
    ("loss", "expected"),
    [  # by hand, for e = 0, 0.5, -2
        (MSE(), [0, 0.25, 4]),
        (MAE(), [0, 0.5, 2]),
        (Huber(delta=1.0), [0, 0.125, 1.5]),
        (Huber(delta=3.0), [0, 0.125, 2.0]),
        (Tukey(c=1.0), [0, (1 - 0.75**3) / 6, 1 / 6]),
        (LogCosh(), [0, math.log(math.cosh(0.5)), math.log(math.cosh(2))]),
    ],
    ids=lambda value: value.kind if isinstance(value, Loss) else "",
)
def test_values_by_hand(loss: Loss, expected: list[float]) -> None:
    assert values(loss, [1.0, 1.5, -1.0], [1.0, 1.0, 1.0]) == pytest.approx(expected, abs=1e-15)


def test_log_cosh_does_not_overflow() -> None:
    assert values(LogCosh(), [1e6, -1e6], [0.0, 0.0]) == pytest.approx([1e6 - math.log(2)] * 2)


def test_percentages_by_hand_and_at_zero() -> None:
    assert values(MAPE(), [3.0, 5.0, 0.0], [2.0, -4.0, 0.0]) == pytest.approx([50.0, 225.0, 0.0])
    assert values(MAPE(), [3.0], [0.0]) == [0.0]  # no percentage of nothing, and it does not count
    assert MAPE().counted(torch.tensor([2.0, 0.0, -4.0])).tolist() == [True, False, True]
    assert values(SMAPE(), [3.0, 0.0, 5.0, -1.0], [1.0, 0.0, 0.0, 1.0]) == pytest.approx([100.0, 0.0, 200.0, 200.0])


def test_rmse_is_the_root_of_the_mean_and_flat_at_a_perfect_forecast() -> None:
    loss = RMSE()
    output = torch.tensor([[3.0], [-4.0]], requires_grad=True)
    assert loss.finish(loss.values(output, torch.zeros(2)).mean()).item() == pytest.approx(math.sqrt(12.5))
    loss.finish(loss.values(output, output.detach()[:, 0]).mean()).backward()
    assert output.grad is not None
    assert output.grad.tolist() == [[0.0], [0.0]]


def window(y: list[float], mask: list[bool] | None = None) -> Batch:
    seen = None if mask is None else torch.tensor(mask)[None, :, None]
    return Batch(y=torch.tensor(y)[None, :, None], mask=seen)


def test_mase_divides_by_the_seasonal_naive_error_of_the_lookback() -> None:
    target, output = torch.tensor([[[5.0], [1.0]]]), torch.tensor([[[[2.0]], [[2.0]]]])
    # |3-1|, |2-3|, |6-2| = 2, 1, 4 → mean 7/3; seasonal by 2: |2-1|, |6-3| → mean 2
    batch = window([1.0, 3.0, 2.0, 6.0])
    assert MASE().values(output, target, batch).flatten().tolist() == pytest.approx([9 / 7, 3 / 7])
    assert MASE(seasonality=2).values(output, target, batch).flatten().tolist() == pytest.approx([1.5, 0.5])


def test_mase_leaves_out_pairs_with_a_missing_value() -> None:
    target, output = torch.tensor([[[5.0]]]), torch.tensor([[[[2.0]]]])
    batch = window([1.0, 1e9, 2.0, 6.0], [True, False, True, True])  # only |6-2| = 4 is left
    assert MASE().values(output, target, batch).item() == pytest.approx(0.75)


def test_mase_of_a_flat_lookback_divides_by_its_level_or_by_one() -> None:
    target, output = torch.tensor([[[5.0]]]), torch.tensor([[[[2.0]]]])
    assert MASE().values(output, target, window([4.0, 4.0, 4.0])).item() == pytest.approx(0.75)
    assert MASE().values(output, target, window([0.0, 0.0, 0.0])).item() == pytest.approx(3.0)


def test_mase_says_what_it_needs() -> None:
    output, target = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1)
    with pytest.raises(ConfigError, match="lookback longer than its seasonality"):
        MASE(seasonality=3).values(output, target, window([1.0, 2.0, 3.0]))
    with pytest.raises(ConfigError, match="for forecasting only"):
        MASE().values(output, target)


def test_relative_mse_of_the_naive_forecast_is_one() -> None:
    target = torch.tensor([[[5.0], [1.0], [99.0]]])
    batch = window([1.0, 3.0, 7.0], [True, True, False])._replace(target_mask=torch.tensor([[[True], [True], [False]]]))
    naive = torch.full((1, 3, 1, 1), 3.0)  # the last observed value
    values = RelativeMSE().values(naive, target, batch).flatten()
    assert values[:2].mean().item() == pytest.approx(1.0)
    half = RelativeMSE().values(torch.tensor([[[[4.0]], [[2.0]], [[0.0]]]]), target, batch).flatten()
    assert half[:2].tolist() == pytest.approx([0.25, 0.25])  # errors 1 against naive errors 2


def test_fredf_by_hand() -> None:
    # e = (1, 3): rfft = (4, -2), mean absolute 3; alpha 0.25: 0.75 + 0.75·e²
    output, target = torch.tensor([[[[2.0]], [[4.0]]]]), torch.tensor([[[1.0], [1.0]]])
    assert FreDF(alpha=0.25).values(output, target).flatten().tolist() == pytest.approx([1.5, 7.5])
    assert FreDF(alpha=0).values(output, target).flatten().tolist() == pytest.approx([1.0, 9.0])


def test_fredf_refuses_targets_without_a_horizon() -> None:
    with pytest.raises(ConfigError, match="with a horizon"):
        FreDF().values(torch.zeros(3, 1), torch.zeros(3))


def test_fields_are_checked() -> None:
    for wrong in (lambda: Huber(delta=0), lambda: Tukey(c=-1), lambda: MASE(seasonality=0), lambda: FreDF(alpha=2)):
        with pytest.raises(ConfigError, match="must be"):
            wrong()


def test_percentage_and_scaled_losses_are_in_original_units() -> None:
    assert {loss.kind for loss in (MAPE(), SMAPE(), MASE(), RelativeMSE()) if loss.units == "original"} == {
        "MAPE",
        "SMAPE",
        "MASE",
        "RelativeMSE",
    }
    assert MSE().units == MAE().units == FreDF().units == "scaled"
