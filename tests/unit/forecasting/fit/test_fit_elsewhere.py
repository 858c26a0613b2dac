"""Trainings in other processes: the forecasters of serial ones, bit for bit, with the whole table and history."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import neuro_divergent as nd

CONFIG = nd.TrainingConfig(max_epochs=2, compile=False, batch_size=32)
MODELS = [
    nd.MLP(h=4, input_size=12, hidden_size=8),
    nd.DLinear(h=4, input_size=12),
    nd.LSTM(h=4, input_size=12, hidden_size=4),
]


@pytest.fixture(scope="module")
def executor() -> Any:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def table() -> nd.TimeSeriesDataFrame:
    return nd.TimeSeriesDataFrame.from_frame(nd.samples.air_passengers())


def same(one: nd.Forecaster, other: nd.Forecaster) -> None:
    assert one.predict().equals(other.predict())
    assert one.history.step_loss == other.history.step_loss
    assert one.config == other.config
    assert one.data.store.lengths.tolist() == other.data.store.lengths.tolist()


def test_members_are_those_of_a_serial_run(executor: Any, table: nd.TimeSeriesDataFrame) -> None:
    serial = nd.fit_many(MODELS, table, CONFIG, stacked=False)
    for one, other in zip(serial, nd.fit_many(MODELS, table, CONFIG, executor=executor), strict=True):
        same(one, other)
        cut = other.predict(table.drop_last(4))  # it has the table, not only its end
        assert cut.equals(one.predict(table.drop_last(4)))


def test_categories_validation_and_intervals_come_back(executor: Any) -> None:
    """A table with a categorical column whose last value is not in the training rows."""
    rows = 80
    frame = pl.DataFrame(
        {
            "unique_id": ["a"] * rows,
            "ds": range(rows),
            "y": [float(i % 7) for i in range(rows)],
            "kind": ["x" if i % 2 else "z" for i in range(rows - 2)] + ["new"] * 2,
        }
    )
    table = nd.TimeSeriesDataFrame.from_frame(frame, categorical=["kind"], historical=["kind"])
    model = nd.MLP(h=4, input_size=12, hidden_size=8)
    options: dict[str, Any] = {"prediction_intervals": nd.PredictionIntervals(n_windows=2)}
    serial, other = (
        nd.fit_many([model, model], table, CONFIG, seeds=[1, 2], **options, **where)
        for where in ({"stacked": False}, {"executor": executor})
    )
    assert serial[1].predict(level=[80]).equals(other[1].predict(level=[80]))
    assert serial[1].data.store.categories == other[1].data.store.categories


def test_many_models_and_an_ensemble_of_seeds(executor: Any, table: nd.TimeSeriesDataFrame) -> None:
    serial, other = (
        nd.NeuralForecast(MODELS[:2], local_scaler_type="standard").fit(table, CONFIG, **where)
        for where in ({}, {"executor": executor})
    )
    assert serial.predict().equals(other.predict())
    one, two = (
        nd.seed_ensemble(MODELS[0], table, CONFIG, seeds=2, **where)
        for where in ({"stacked": False}, {"executor": executor})
    )
    assert one.predict().equals(two.predict())


def test_a_failed_member_leaves_the_others(executor: Any, table: nd.TimeSeriesDataFrame) -> None:
    with pytest.raises(nd.MembersFailedError, match=r"training 1 of 2 failed: .*lookback 400") as caught:
        nd.fit_many([nd.MLP(h=4, input_size=400), MODELS[1]], table, CONFIG, executor=executor)
    assert caught.value.forecasters[1].predict().height == 4
    assert ("data.short", "drop") in caught.value.advice


def test_a_run_directory_is_resumed(executor: Any, table: nd.TimeSeriesDataFrame, tmp_path: Path) -> None:
    configs = [CONFIG.replace(checkpoints=nd.Checkpoints(tmp_path / name)) for name in "ab"]
    first = nd.fit_many(MODELS[:2], table, configs, executor=executor)
    longer = nd.fit_many(MODELS[:2], table, configs, executor=executor, resume="auto", resume_with={"max_epochs": 3})
    assert [len(one.history.epochs) for one in (*first, *longer)] == [2, 2, 3, 3]


def test_what_cannot_travel_is_refused(executor: Any, table: nd.TimeSeriesDataFrame) -> None:
    class Own(nd.NLinear):
        """A model of a notebook."""

        kind = "OwnOfANotebook"

    Own.__module__ = "__main__"
    own = CONFIG.replace(loss=lambda output, target: (output - target).abs())
    with pytest.raises(nd.ConfigError, match="cannot contain your own callables"):
        nd.fit_many(MODELS[:1], table, own, executor=executor)
    with pytest.raises(nd.ConfigError, match=r"classes of your script or notebook.*Put them into a module"):
        nd.fit_many([Own(h=4, input_size=8)], table, CONFIG, executor=executor)
    with pytest.raises(nd.ConfigError, match=r"classes of your script or notebook"):
        nd.cross_validation(Own(h=4, input_size=8), table, CONFIG, n_windows=2, refit=True, executor=executor)
    with pytest.raises(nd.ConfigError, match="each one runs in a process of its own"):
        nd.fit_many(MODELS[:2], table, CONFIG, executor=executor, stacked=True)
