"""Splits: nothing at or after the cut is ever seen in training; every series is somewhere."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.split import Split, split_by_date, split_by_series, split_by_time, split_last
from neuro_divergent.data.windows.windows import Windows


def make_store(lengths: list[int], start: Any = None, freq: str = "1i", zone: str | None = None) -> SeriesStore:
    rows = sum(lengths)
    return SeriesStore(
        ids=np.arange(len(lengths)),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        y=np.arange(1, rows + 1, dtype=np.float32),
        future=np.arange(rows, dtype=np.float32)[:, None],
        future_names=("f",),
        start=np.zeros(len(lengths), np.int64) if start is None else np.array(start, dtype="datetime64[us]"),
        freq=freq,
        time_zone=zone,
    )


def poisoned(store: SeriesStore, split: Split) -> SeriesStore:
    """NaN in every row at or after the training side's end."""
    y, future = store.y.copy(), store.future.copy()  # type: ignore[union-attr]
    for s, last in enumerate(split.train[1]):
        y[store.offsets[s] + last : store.offsets[s + 1]] = np.nan
        future[store.offsets[s] + last : store.offsets[s + 1]] = np.nan
    return store.replace(y=y, future=future)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=6),
    st.integers(1, 8),
    st.integers(1, 5),
    st.sampled_from([0.1, 0.2, 0.5, 0.9]),
    st.sampled_from(["time", "last", "date", "series"]),
)
def test_training_never_sees_a_value_at_or_after_the_cut(
    lengths: list[int], L: int, H: int, share: float, kind: str
) -> None:
    store = make_store(lengths)
    split = {
        "time": lambda: split_by_time(store, share, H, lookback=L),
        "last": lambda: split_last(store, 2 * H, horizon=H, lookback=L),
        "date": lambda: split_by_date(store, 20, horizon=H, lookback=L),
        "series": lambda: split_by_series(store, share, seed=1),
    }[kind]()
    train, validation = split
    options: dict[str, Any] = {"lookback": L, "horizon": H, "short": "drop"}
    windows = Windows(poisoned(store, split), target_range=train, **options)
    batch = windows.gather(np.arange(len(windows)))
    for part in (batch.y, batch.target, batch.future):
        assert part is not None
        assert np.isfinite(part.numpy()).all()
    held = Windows(store, target_range=validation, **options)
    everything = set(
        zip(*map(tuple, Windows(store, **options).locate(np.arange(len(Windows(store, **options))))), strict=True)
    )
    first = set(zip(*map(tuple, windows.locate(np.arange(len(windows)))), strict=True))
    second = set(zip(*map(tuple, held.locate(np.arange(len(held)))), strict=True))
    assert not first & second
    assert first | second <= everything
    for s, position in second:
        assert position >= split.train[1][s]  # every step of a validation horizon is later than all of training


def test_by_time_takes_the_last_share_of_each_series() -> None:
    split = split_by_time(make_store([100, 50, 10]), 0.2, 5, lookback=4)
    assert split.train[1].tolist() == [80, 40, 10]  # 10 rows: 5 for validation leave 5, too few for 4 + 5
    assert split.validation[0].tolist() == [80, 40, 10]
    assert split.validation[1].tolist() == [100, 50, 10]
    assert split.too_short == 1


def test_by_time_leaves_room_for_one_horizon() -> None:
    assert split_by_time(make_store([100]), 0.01, 7).train[1].tolist() == [93]


def test_validation_windows_reach_back_across_the_cut() -> None:
    store = make_store([30])
    _, validation = split_last(store, 5, horizon=5)
    batch = Windows(store, lookback=10, horizon=5, target_range=validation).gather(np.array([0]))
    assert batch.y.squeeze().tolist() == list(range(16, 26))
    assert batch.target is not None
    assert batch.target.squeeze().tolist() == list(range(26, 31))


def test_by_date_is_one_date_for_all_series() -> None:
    store = make_store([10, 10, 4], ["2024-01-01", "2024-01-05", "2024-01-01"], "1d")
    for when in ("2024-01-08", dt.datetime(2024, 1, 8), np.datetime64("2024-01-08"), dt.date(2024, 1, 8)):
        split = split_by_date(store, when)
        # 7 days before the 8th, 3 days from the 5th on; the third series is over by then, which is not "too short"
        assert split.train[1].tolist() == [7, 3, 4]
        assert split.too_short == 0
    monthly = make_store([12], ["2023-11-01"], "1mo")
    assert split_by_date(monthly, "2024-03-15").train[1].tolist() == [5]  # November to March


def test_a_date_with_a_zone_is_compared_in_utc() -> None:
    store = make_store([48], ["2024-01-01"], "1h", "Europe/Berlin")
    berlin = dt.timezone(dt.timedelta(hours=1))
    assert split_by_date(store, dt.datetime(2024, 1, 2, tzinfo=berlin)).train[1].tolist() == [23]


def test_by_series_keeps_whole_series_together_and_depends_on_the_seed() -> None:
    store = make_store([10] * 20)
    train, validation = split_by_series(store, 0.25, seed=4)
    assert (validation[1] == 10).sum() == 5
    assert ((train[1] == 10) ^ (validation[1] == 10)).all()
    assert np.array_equal(split_by_series(store, 0.25, seed=4).train[1], train[1])
    assert not np.array_equal(split_by_series(store, 0.25, seed=5).train[1], train[1])


def test_wrong_arguments_are_refused() -> None:
    store = make_store([10])
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(ConfigError, match="share must be between 0 and 1"):
            split_by_time(store, share, 2)
    with pytest.raises(ConfigError, match="steps must be at least the horizon"):
        split_last(store, 2, horizon=3)
    with pytest.raises(DataError, match="at least 2 series"):
        split_by_series(store, 0.5)
    with pytest.raises(ConfigError, match="whole numbers, but got when='2024-01-01'"):
        split_by_date(store, "2024-01-01")
    with pytest.raises(ConfigError, match="when must be a time"):
        split_by_date(make_store([5], ["2024-01-01"], "1d"), "soon")
