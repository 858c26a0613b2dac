"""A filled row is shown to a model as its past; it is never learned, scored or taken for the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.forecasting.fit.fit import fit

FILLS = ("zero", "forward", "mean", "linear", "backward")
H, LOOKBACK, ROWS = 3, 6, 120


def walk(seed: int = 0) -> pl.DataFrame:
    """A random walk of which a third is empty."""
    rng = np.random.default_rng(seed)
    y = pl.Series(rng.normal(size=ROWS).cumsum() + 20).set(pl.Series(rng.random(ROWS) < 0.35), None)
    return pl.DataFrame({"ds": range(ROWS), "y": y})


def load(frame: pl.DataFrame, method: Any) -> nd.TimeSeriesDataFrame:
    return nd.TimeSeriesDataFrame.from_frame(frame, freq=1, missing=method)


def config(**changes: Any) -> nd.TrainingConfig:
    settings: dict[str, Any] = {"max_steps": 3, "validation_split": None, "progress": False, "loss": nd.MAE()}
    return nd.TrainingConfig(**settings | changes)


MODEL = nd.MLP(h=H, input_size=LOOKBACK, hidden_size=4, scaler="identity", alias="net")


def mean_error(forecasts: pl.DataFrame, frame: pl.DataFrame) -> float:
    """By hand: the mean absolute error over the rows that were observed."""
    rows = forecasts.drop("y").join(frame, on="ds").drop_nulls("y")
    return float((rows["y"] - rows["net"]).abs().mean())  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["zero", "mean", "linear"])
def test_only_observed_rows_are_scored_and_validated_on(method: str) -> None:
    frame = walk()
    data = load(frame, method)
    folds = nd.cross_validation([MODEL], data, config=config(), n_windows=6, metrics=["mae"])
    assert folds.frame["y"].null_count() == frame[-6 * H :]["y"].null_count() > 0
    assert folds.evaluation["net", "mae"] == pytest.approx(mean_error(folds.frame, frame), rel=1e-5)

    fitted = MODEL.fit(data.drop_last(30), config())
    scores = fitted.evaluate(data.tail(30 + LOOKBACK), metrics=["mae"])
    assert scores["net", "mae"] == pytest.approx(mean_error(scores.frame, frame), rel=1e-5)

    # The loss of the last validation is the error of the final weights at every window of the last fifth.
    held = MODEL.fit(data, config(validation_split=0.2, early_stopping=None))
    inside = held.predict_insample(step_size=1).filter(pl.col("cutoff") >= ROWS * 4 // 5 - 1)
    expected = mean_error(inside, frame)
    assert held.history.validation_loss[-1] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("method", FILLS)
def test_rows_of_the_validation_part_do_not_reach_the_weights_through_a_fill(method: str) -> None:
    frame = walk().with_columns(y=pl.when(pl.col("ds").is_between(90, 101)).then(None).otherwise("y"))
    other = frame.with_columns(y=pl.when(pl.col("ds") >= 96).then(pl.col("y") * 100).otherwise("y"))
    settings = config(validation_split=0.2, early_stopping=None, max_steps=20)
    first, second = (MODEL.fit(load(rows, method), settings) for rows in (frame, other))
    assert first.history.validation_loss != second.history.validation_loss
    for name, tensor in first.module.state_dict().items():
        assert torch.equal(tensor, second.module.state_dict()[name]), name


@pytest.mark.parametrize("method", FILLS)
def test_a_table_that_is_cut_trains_to_the_same_bits_as_one_that_ends_there(method: str) -> None:
    frame = walk()
    ends = int(frame["y"].is_null().arg_true()[-3]) + 1  # inside of a gap
    first = MODEL.fit(load(frame, method).head(ends), config())
    second = MODEL.fit(load(frame[:ends], method), config())
    for name, tensor in first.module.state_dict().items():
        assert torch.equal(tensor, second.module.state_dict()[name]), name


@pytest.mark.parametrize("method", FILLS)
@pytest.mark.parametrize("scaler", [None, "standard"])
def test_a_loaded_model_fills_as_the_saved_one(method: str, scaler: str | None, tmp_path: Any) -> None:
    """The table ends in a gap that is longer than the window, so what fills it lies before the rows that are kept."""
    frame = walk().with_columns(y=pl.when(pl.col("ds") < ROWS - LOOKBACK - 2).then("y"))
    fitted = fit(MODEL, load(frame, method), config(), local_scaler=scaler)
    fitted.save(tmp_path / "model")
    loaded = nd.load(tmp_path / "model")
    assert loaded.predict().equals(fitted.predict())
    assert loaded.predict(frame).equals(fitted.predict(frame))
    assert loaded.predict(h=2 * H).equals(fitted.predict(h=2 * H))
