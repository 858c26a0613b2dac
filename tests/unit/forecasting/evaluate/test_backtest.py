"""`backtest` is one window of `cross_validation`: the same forecasts, and the same scores."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd

CONFIG = nd.TrainingConfig(max_steps=8, seed=1)
H = 6


def panel(last=(80, 80)) -> pl.DataFrame:
    """Two series with a period of 12; some targets are missing, most of them in the last window of the first."""
    frames = []
    for number, stop in enumerate(last):
        step = np.arange(20 * number, stop)
        y = 20.0 * (number + 1) + 5 * np.sin(2 * np.pi * step / 12) + np.cos(1.7 * step)
        frames.append(pl.DataFrame({"unique_id": f"s{number}", "ds": step, "y": y}))
    missing = pl.col("ds").is_in([30, 31, 55]) | ((pl.col("unique_id") == "s0") & (pl.col("ds") >= last[0] - 4))
    return pl.concat(frames).with_columns(y=pl.when(missing).then(None).otherwise(pl.col("y")))


def by_hand(frame: pl.DataFrame, forecasts: np.ndarray, season: int) -> float:
    """MASE as Hyndman & Koehler (2006) define it for many series, with nothing of the library.

    Every observed value of the last window counts once: its absolute error, divided by the mean absolute difference of
    values one season apart in the rows of its series before that window.
    """
    ratios = []
    for number, part in enumerate(frame.partition_by("unique_id", maintain_order=True)):
        y = part["y"].to_list()
        past, future = y[:-H], y[-H:]
        pairs = [(a, b) for a, b in zip(past, past[season:], strict=False) if a is not None and b is not None]
        scale = sum(abs(a - b) for a, b in pairs) / len(pairs)
        ratios += [abs(a - f) / scale for a, f in zip(future, forecasts[number], strict=True) if a is not None]
    return sum(ratios) / len(ratios)


def test_one_mase_for_backtest_cross_validation_evaluate_and_by_hand_where_targets_are_missing():
    frame = panel()
    data = nd.TimeSeriesDataFrame.from_frame(frame)
    model = nd.MLP(h=H, input_size=12, hidden_size=8)
    result = nd.backtest([model], data, CONFIG)
    windows = nd.cross_validation([model], data, config=CONFIG, n_windows=1)
    evaluated = result.fitted["MLP"].evaluate(data, season=result.season)
    naive = result.naive_name
    for score, name in zip(result.scores, (naive, "MLP"), strict=True):
        expected = by_hand(frame, result.forecasts[name], result.season)
        assert score.name == name
        assert score.mase == windows.evaluation[name, "mase"] == evaluated[name, "mase"]
        assert score.mase == pytest.approx(expected, rel=1e-6)  # the store holds float32
        assert score.mae == windows.evaluation[name, "mae"]


def test_the_arrays_are_those_of_the_last_window():
    data = nd.TimeSeriesDataFrame.from_frame(panel())
    model = nd.MLP(h=H, input_size=12, hidden_size=8)
    result = nd.backtest([model], data, CONFIG)
    assert np.isnan(result.actual[0, -4:]).all()
    assert result.actual[1].tolist() == data.store.y[-H:].tolist()
    assert result.shown.store.lengths.tolist() == [74, 54]
    direct = model.fit(data.drop_last(H), CONFIG)
    assert result.forecasts["MLP"].tolist() == direct.forecast_values(direct.data)[:, :, 0].tolist()


def test_a_multivariate_model_is_tested_at_one_time_like_in_cross_validation():
    """Series s0 ends 10 steps before s1: inside the last window of the table it has no row, so it is not scored."""
    data = nd.TimeSeriesDataFrame.from_frame(panel(last=(70, 80)))
    model = nd.TSMixer(h=H, input_size=12)
    result = nd.backtest([model], data, CONFIG)
    windows = nd.cross_validation([model], data, config=CONFIG, n_windows=1)
    assert np.isnan(result.actual[0]).all()
    assert result.shown.store.lengths.tolist() == [70, 54]
    assert result.scores[1].mase == windows.evaluation["TSMixer", "mase"]


def test_models_are_told_apart_by_name():
    data = nd.TimeSeriesDataFrame.from_frame(panel())
    model = nd.MLP(h=H, input_size=12, hidden_size=8)
    with pytest.raises(nd.ConfigError, match="different names"):
        nd.backtest([model, model], data, CONFIG)
