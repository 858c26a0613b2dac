"""Weights by column, horizon, recency and function, around any loss."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import MAE, RMSE, DistributionLoss, ImplicitQuantile, Loss, MQLoss, Weighted

TARGET = torch.zeros(2, 3, 1)
WINDOW = Batch(y=torch.zeros(2, 4, 1), weight=torch.full((2, 3, 1), 2.0))
AGE = np.array([3, 2, 1, 0, 1, 0])
TIME = np.array(
    ["2024-01-06", "2024-01-07", "2024-01-08", "2024-01-09", "2024-01-08", "2024-01-09"], dtype="datetime64[us]"
)
VALUE = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def large_ones(time: npt.NDArray[np.generic], value: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    return np.where(value > 4, 10.0, 1.0) * np.where(time >= np.datetime64("2024-01-08"), 2.0, 1.0)


def test_every_loss_uses_the_weight_column_when_there_is_one() -> None:
    assert MAE().importance(TARGET) is None
    assert MAE().importance(TARGET, WINDOW._replace(weight=None)) is None
    assert MAE().importance(TARGET, WINDOW) is WINDOW.weight
    assert Weighted(loss=MAE(), by="column").importance(TARGET, WINDOW) is WINDOW.weight


def test_by_column_needs_the_column() -> None:
    with pytest.raises(ConfigError, match="needs a weight column"):
        Weighted(loss=MAE(), by="column").importance(TARGET, WINDOW._replace(weight=None))


def test_by_horizon() -> None:
    listed = Weighted(loss=MAE(), by="horizon", weights=[1, 2, 4]).importance(TARGET)
    assert listed is not None
    assert listed.shape == (1, 3, 1)
    assert listed.flatten().tolist() == [1, 2, 4]
    decayed = Weighted(loss=MAE(), by="horizon", decay=0.5).importance(TARGET, WINDOW)
    assert decayed is not None
    assert decayed[0].flatten().tolist() == [2, 1, 0.5]  # times the column's 2
    with pytest.raises(ConfigError, match="one entry per horizon step, h=3, but got 2"):
        Weighted(loss=MAE(), by="horizon", weights=[1, 2]).importance(TARGET)
    with pytest.raises(ConfigError, match=r"needs targets \[B, H"):
        Weighted(loss=MAE(), by="horizon", decay=0.5).importance(torch.zeros(4))


def test_by_recency_halves_per_half_life_within_each_series() -> None:
    weights = Weighted(loss=MAE(), by="recency", half_life=2).row_weights(AGE, TIME, VALUE)
    assert weights is not None
    assert weights.tolist() == pytest.approx([2**-1.5, 0.5, 2**-0.5, 1, 2**-0.5, 1])
    assert MAE().row_weights(AGE, TIME, VALUE) is None


def test_by_a_function_of_time_and_value() -> None:
    weights = Weighted(loss=MAE(), by=large_ones).row_weights(AGE, TIME, VALUE)
    assert weights is not None
    assert weights.tolist() == [1, 1, 2, 2, 20, 20]


@pytest.mark.parametrize("answer", [np.array([1.0]), np.full(6, -1.0), np.full(6, np.nan)])
def test_a_function_must_give_usable_weights(answer: npt.NDArray[np.float64]) -> None:
    with pytest.raises(ConfigError, match="one finite number of at least 0"):
        Weighted(loss=MAE(), by=lambda time, value: answer).row_weights(AGE, TIME, VALUE)


def test_weights_compose() -> None:
    loss = Weighted(loss=Weighted(loss=MAE(), by=large_ones), by="recency", half_life=1)
    weights = loss.row_weights(AGE, TIME, VALUE)
    assert weights is not None
    assert weights.tolist() == pytest.approx([1 / 8, 1 / 4, 1, 2, 10, 20])
    both = Weighted(loss=Weighted(loss=MAE(), by="horizon", decay=0.5), by="horizon", weights=[1, 1, 8])
    found = both.importance(TARGET)
    assert found is not None
    assert found.flatten().tolist() == [1, 0.5, 2]


def test_everything_else_is_the_inner_losss() -> None:
    loss = Weighted(loss=DistributionLoss(distribution="Poisson", level=[50]), by="recency", half_life=9)
    inner = loss.loss
    raw = torch.tensor([[0.5], [3.0]])
    assert (loss.units, loss.task, loss.outputs, loss.probabilistic) == ("original", "regression", 1, True)
    assert loss.levels == (0.25, 0.5, 0.75)
    torch.testing.assert_close(loss.values(raw, torch.tensor([1.0, 2.0])), inner.values(raw, torch.tensor([1.0, 2.0])))
    torch.testing.assert_close(loss.point(raw), inner.point(raw))
    torch.testing.assert_close(loss.quantiles(raw, torch.tensor([0.5])), inner.quantiles(raw, torch.tensor([0.5])))
    assert loss.sample(raw, 3).shape == (3, 2)
    one, two = torch.tensor(4.0), torch.tensor(2.0)
    torch.testing.assert_close(loss.unscale(raw, one, two), inner.unscale(raw, one, two))
    assert Weighted(loss=RMSE()).finish(torch.tensor(9.0)).item() == 3
    assert isinstance(Weighted(loss=ImplicitQuantile()).head(), torch.nn.Module)
    assert Weighted(loss=MQLoss()).head() is None


def test_a_function_is_stored_by_reference_and_handed_back() -> None:
    loss = Weighted(loss=MQLoss(quantiles=[0.2, 0.8]), by=large_ones)
    assert Loss.from_json(loss.to_json(), using={"large_ones": large_ones}) == loss
    with pytest.raises(ConfigError, match="Give it: using="):
        Loss.from_json(loss.to_json())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"by": "horizon"}, "needs weights or decay"),
        ({"by": "horizon", "weights": [1], "decay": 0.5}, "needs weights or decay"),
        ({"by": "recency"}, "needs half_life"),
        ({"by": "recency", "half_life": 3, "decay": 0.5}, "needs half_life"),
        ({"by": "column", "decay": 0.5}, "takes no weights"),
        ({"by": large_ones, "half_life": 1}, "a function takes no weights"),
        ({"by": "horizon", "weights": [0, 0]}, "not all 0"),
        ({"by": "weekday"}, "by must be"),
    ],
)
def test_fields_that_do_not_belong_together_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Weighted(loss=MAE(), **fields)
