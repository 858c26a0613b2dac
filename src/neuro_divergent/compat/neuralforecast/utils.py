"""The small tables of neuralforecast's documentation, and how intervals are asked for."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.extras import require
from neuro_divergent.data.samples import air_passengers
from neuro_divergent.forecasting.predict import conformal as intervals

AirPassengers = air_passengers()["y"].to_numpy().astype(np.float32)
"""The 144 monthly counts."""


def PredictionIntervals(  # noqa: N802  (their spelling)
    n_windows: int = 2,
    method: Literal["conformal_distribution", "conformal_error", "adaptive"] = "conformal_distribution",
    step_size: int = 1,
) -> intervals.PredictionIntervals:
    """How a model that forecasts a point gets intervals: errors are measured on the last `n_windows` windows."""
    if n_windows < 2:
        raise ConfigError(f"n_windows must be at least 2 to measure a spread, but got n_windows={n_windows}")
    return intervals.PredictionIntervals(n_windows=n_windows, method=method, step_size=step_size)


def generate_series(
    n_series: int,
    freq: str = "D",
    min_length: int = 50,
    max_length: int = 500,
    equal_ends: bool = False,
    seed: int = 0,
) -> Any:
    """A pandas frame of seasonal series of random lengths; the values are ours, not those of neuralforecast.

    Args:
        n_series: how many.
        freq: distance of two rows, as pandas spells it.
        min_length: of the shortest.
        max_length: of the longest.
        equal_ends: whether they end at the same time instead of beginning at it.
        seed: of the draws.
    """
    pd = _pandas()
    draw = np.random.default_rng(seed)
    frames = []
    for number, length in enumerate(draw.integers(min_length, max_length + 1, n_series)):
        times = pd.date_range("2000-01-01", periods=max_length, freq=freq)
        times = times[-length:] if equal_ends else times[:length]
        season = np.arange(length) % 7
        frames.append(pd.DataFrame({"unique_id": number, "ds": times, "y": season + draw.uniform(0.0, 0.5, length)}))
    return pd.concat(frames, ignore_index=True)


def _pandas() -> Any:
    require("pandas", extra="pandas", purpose="This table")
    import pandas as pd

    return pd


def _air_passengers_df() -> Any:
    pd = _pandas()
    times = pd.date_range("1949-01-31", periods=len(AirPassengers), freq="ME")
    return pd.DataFrame({"unique_id": np.ones(len(AirPassengers)), "ds": times, "y": AirPassengers})


def _air_passengers_panel() -> Any:
    pd = _pandas()
    first = _air_passengers_df().assign(unique_id="Airline1")
    second = first.assign(unique_id="Airline2", y=first["y"] + np.float32(300))
    panel = pd.concat([first, second], ignore_index=True)
    panel["trend"] = np.arange(len(panel))
    panel["y_[lag12]"] = panel.groupby("unique_id")["y"].shift(12).fillna(panel["y"])
    return panel


def _air_passengers_static() -> Any:
    return _pandas().DataFrame({"unique_id": ["Airline1", "Airline2"], "airline1": [0, 1], "airline2": [1, 0]})


_TABLES = {
    "AirPassengersDF": _air_passengers_df,
    "AirPassengersPanel": _air_passengers_panel,
    "AirPassengersStatic": _air_passengers_static,
}


def __getattr__(name: str) -> Any:
    if name in _TABLES:  # made when asked for, so that pandas is needed only then
        return _TABLES[name]()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
