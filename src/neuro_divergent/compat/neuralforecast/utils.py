"""The small tables of neuralforecast's documentation, and its settings of intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from neuro_divergent.compat.neuralforecast.simulation import (
    DEFAULT_QUANTILE_GRID,
    VALID_SIMULATION_METHODS,
    estimate_ar1_rho,
    extract_y_hist,
    gaussian_copula_sample,
    interp_2d,
    sample_from_quantiles,
    schaake_shuffle_sample,
)
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.extras import require
from neuro_divergent.data.samples import air_passengers
from neuro_divergent.forecasting.predict import conformal as intervals

__all__ = [
    "DEFAULT_QUANTILE_GRID",
    "VALID_SIMULATION_METHODS",
    "AirPassengers",
    "PredictionIntervals",
    "augment_calendar_df",
    "estimate_ar1_rho",
    "extract_y_hist",
    "gaussian_copula_sample",
    "generate_series",
    "get_indexer_raise_missing",
    "interp_2d",
    "level_to_quantiles",
    "quantiles_to_level",
    "sample_from_quantiles",
    "schaake_shuffle_sample",
]

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
    n_temporal_features: int = 0,
    n_static_features: int = 0,
    equal_ends: bool = False,
    seed: int = 0,
) -> Any:
    """A pandas frame of seasonal series of random lengths; the values are ours, not those of neuralforecast.

    Args:
        n_series: how many series.
        freq: the time between two rows, as pandas writes it.
        min_length: length of the shortest series.
        max_length: length of the longest series.
        n_temporal_features: columns temporal_0, ...: a category of each series; the first one scales its values.
        n_static_features: columns static_0, ... of a second frame, which is returned beside the first one.
        equal_ends: whether series end at the same time instead of beginning at it.
        seed: seed of the draws.
    """
    pd = _pandas()
    draw = np.random.default_rng(seed)
    season = 12 if freq.startswith("M") else 7
    times = pd.date_range("2000-01-01", periods=max_length, freq=freq)
    frames = []
    for number, length in enumerate(draw.integers(min_length, max_length + 1, n_series)):
        own = times[-length:] if equal_ends else times[:length]
        values = np.arange(length) % season + draw.uniform(0.0, 0.5, length)
        kinds = draw.integers(0, 101, n_temporal_features)
        columns = {f"temporal_{i}": kind for i, kind in enumerate(kinds)}
        values = values * (1 + kinds[0]) if n_temporal_features else values
        frames.append(pd.DataFrame({"unique_id": number, "ds": own, "y": values} | columns))
    series = pd.concat(frames, ignore_index=True)
    kinds_of = {f"temporal_{i}": pd.CategoricalDtype(range(101)) for i in range(n_temporal_features)}
    series = series.astype({"unique_id": pd.CategoricalDtype(range(n_series), ordered=True)} | kinds_of)
    if not n_static_features:
        return series
    static = pd.DataFrame(
        draw.uniform(size=(n_series, n_static_features)), columns=[f"static_{i}" for i in range(n_static_features)]
    )
    return series, static.assign(unique_id=pd.Categorical(range(n_series), ordered=True))


_CALENDAR: dict[str, Callable[[Any], Any]] = {
    "minutesecond": lambda times: times.second / 59,
    "hourminute": lambda times: times.minute / 59,
    "dayhour": lambda times: times.hour / 23,
    "weekday": lambda times: times.day_of_week / 6,
    "monthday": lambda times: (times.day - 1) / 30,
    "yearday": lambda times: (times.day_of_year - 1) / 365,
    "month": lambda times: (times.month - 1) / 11,
    "yearweek": lambda times: (times.isocalendar().week.to_numpy() - 1) / 52,
}
"""Columns that go from 0 at the start of a period to 1 at its end."""

_DAY = ["weekday", "monthday", "yearday"]
_BY_FREQUENCY = {
    "Q": ["month"],
    "M": ["month"],
    "MS": ["month"],
    "W": ["monthday", "yearweek"],
    "D": _DAY,
    "B": _DAY,
    "H": ["dayhour", *_DAY],
    "T": ["hourminute", "dayhour", *_DAY],
    "S": ["minutesecond", "hourminute", "dayhour", *_DAY],
}


def augment_calendar_df(df: Any, freq: str = "H") -> tuple[Any, list[str]]:
    """A pandas frame with calendar columns from -0.5 to 0.5, and their names: freq is Q, M, MS, W, D, B, H, T or S."""
    if freq not in _BY_FREQUENCY:
        raise ConfigError(f"freq must be one of {', '.join(_BY_FREQUENCY)}, but got freq={freq!r}")
    pd = _pandas()
    times, names = pd.DatetimeIndex(pd.to_datetime(df["ds"])), list(_BY_FREQUENCY[freq])
    columns = {name: np.asarray(_CALENDAR[name](times), dtype=float) - 0.5 for name in names}
    return df.assign(**columns), names


def level_to_quantiles(level: Sequence[float]) -> list[float]:
    """The two quantiles that bound each central interval, in increasing order."""
    return sorted({share for item in level for share in ((50 - item / 2) / 100, (50 + item / 2) / 100)})


def quantiles_to_level(quantiles: Sequence[float]) -> list[float]:
    """The central intervals that quantiles bound, in increasing order."""
    return sorted({round(abs(100 - 200 * share), 2) for share in quantiles})


def get_indexer_raise_missing(idx: Any, vals: Sequence[Any]) -> list[int]:
    """The positions of values in a pandas index."""
    places = idx.get_indexer(vals)
    missing = [value for value, place in zip(vals, places, strict=True) if place < 0]
    if missing:
        raise ConfigError(f"the index must have every value, but lacks {missing}")
    return list(places)


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
    if name in _TABLES:  # made on demand, so that pandas is needed only then
        return _TABLES[name]()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
