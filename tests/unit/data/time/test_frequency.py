"""Frequencies: expected stamps are written by hand from a calendar, or come from pandas, and say which."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.time.frequency import Frequency
from neuro_divergent.data.time.infer import infer


def stamps(*texts: str) -> np.ndarray:
    return np.array(texts, dtype="datetime64[us]")


@pytest.mark.parametrize(
    ("given_as", "kept_as"),
    [
        ("h", "1h"), ("H", "1h"), ("1h", "1h"), ("D", "1d"), ("1d", "1d"), ("B", "1bd"), ("1bd", "1bd"), ("W", "1w"),
        ("W-SUN", "1w"), ("MS", "1mo"), ("M", "1mo:end"), ("ME", "1mo:end"), ("1mo", "1mo"), ("QS", "1q"),
        ("QE", "1q:end"), ("QE-DEC", "1q:end"), ("1q", "1q"), ("YS", "1y"), ("YE", "1y:end"), ("1y", "1y"),
        ("15min", "15m"), ("30T", "30m"), ("s", "1s"), (1, "1i"), (10, "10i"), ("1h30m", "90m"), ("2w", "2w"),
    ],
)  # fmt: skip
def test_spellings_of_pandas_and_polars_are_read_and_kept_in_one_form(given_as: str | int, kept_as: str) -> None:
    frequency = Frequency.parse(given_as)
    assert str(frequency) == kept_as
    assert str(Frequency.parse(kept_as)) == kept_as


@pytest.mark.parametrize("wrong", ["", "fortnight", "0d", "-1h", "D-SUN", "W-FEB", "h:end", None, 1.5, True, -3])
def test_what_is_no_frequency_is_refused_with_examples(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"freq|:end"):
        Frequency.parse(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("freq", "pandas_freq", "start"),
    [
        ("ME", "ME", "2023-11-30"), ("MS", "MS", "2023-11-01"), ("B", "B", "2024-02-27"),
        ("W-SUN", "W-SUN", "2024-01-07"),
        ("QE", "QE", "2023-12-31"), ("YE", "YE", "2020-12-31"), ("15min", "15min", "2024-02-28T23:30"),
        ("2QS", "2QS", "2024-01-01"),
        ("3B", "3B", "2024-02-27"),
    ],
)  # fmt: skip
def test_advancing_agrees_with_pandas(freq: str, pandas_freq: str, start: str) -> None:
    expected = pd.date_range(start, periods=40, freq=pandas_freq).to_numpy().astype("datetime64[us]")
    frequency = Frequency.parse(freq)
    found = frequency.advance(stamps(start), np.arange(40))
    np.testing.assert_array_equal(found, expected)
    steps, good = frequency.positions(stamps(start), expected)
    np.testing.assert_array_equal(steps, np.arange(40))
    assert good.all()


def test_a_monthly_series_on_the_31st_stays_within_its_months() -> None:
    # By hand: 31 January, 29 February of the leap year, 31 March, 30 April.
    found = Frequency.parse("1mo").advance(stamps("2024-01-31"), np.arange(4))
    np.testing.assert_array_equal(found, stamps("2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"))


def test_hours_advance_in_absolute_time_across_both_clock_changes() -> None:
    # Berlin: on 31 March 2024 01:00 UTC clocks jump from 2 to 3; on 27 October 01:00 UTC they go back from 3 to 2.
    hourly = Frequency.parse("1h")
    for day in ("2024-03-31T00:00", "2024-10-27T00:00"):
        found = hourly.advance(stamps(day), np.arange(3), "Europe/Berlin")
        np.testing.assert_array_equal(np.diff(found).astype(int), [3_600_000_000] * 2)


def test_days_keep_the_wall_clock_across_both_clock_changes() -> None:
    # Midnight in Berlin is 23:00 UTC in winter and 22:00 UTC in summer.
    daily = Frequency.parse("1d")
    spring = daily.advance(stamps("2024-03-30T23:00"), np.arange(2), "Europe/Berlin")
    np.testing.assert_array_equal(spring, stamps("2024-03-30T23:00", "2024-03-31T22:00"))
    autumn = daily.advance(stamps("2024-10-26T22:00"), np.arange(2), "Europe/Berlin")
    np.testing.assert_array_equal(autumn, stamps("2024-10-26T22:00", "2024-10-27T23:00"))


def test_a_daily_stamp_in_the_skipped_hour_moves_and_is_still_on_the_grid() -> None:
    daily = Frequency.parse("1d")
    found = daily.advance(stamps("2024-03-30T01:30"), np.arange(3), "Europe/Berlin")  # 02:30 in Berlin
    np.testing.assert_array_equal(found, stamps("2024-03-30T01:30", "2024-03-31T01:30", "2024-04-01T00:30"))
    steps, good = daily.positions(found[:1], found, "Europe/Berlin")
    assert steps.tolist() == [0, 1, 2]
    assert good.all()


def test_off_grid_stamps_are_recognised() -> None:
    monthly = Frequency.parse("MS")
    _, good = monthly.positions(stamps("2024-01-01"), stamps("2024-02-01", "2024-02-02"))
    assert good.tolist() == [True, False]
    _, good = Frequency.parse("B").positions(
        stamps("2024-01-05"), stamps("2024-01-06", "2024-01-08")
    )  # Saturday, Monday
    assert good.tolist() == [False, True]
    _, good = Frequency.parse("2i").positions(np.array([3]), np.array([5, 6]))
    assert good.tolist() == [True, False]


def test_a_named_weekday_or_month_is_a_promise_about_the_data() -> None:
    sundays = Frequency.parse("W-SUN")
    assert sundays.phase_ok(stamps("2024-01-07", "2024-01-08")).tolist() == [True, False]
    quarters = Frequency.parse("QS-FEB")
    assert quarters.phase_ok(stamps("2024-02-01", "2024-05-01", "2024-01-01")).tolist() == [True, True, False]


@pytest.mark.parametrize("freq", ["15min", "h", "6h", "D", "B", "W-WED", "MS", "ME", "QS", "QE", "YS", "YE", "2MS"])
def test_regular_stamps_are_inferred_as_pandas_made_them(freq: str) -> None:
    times = pd.date_range("2023-01-02", periods=30, freq=freq).to_numpy().astype("datetime64[us]")
    expected = Frequency.parse(freq)
    assert str(infer(times, np.array([0]))) == str(Frequency(expected.count, expected.unit, expected.end))


def test_daily_stamps_of_a_zone_are_inferred_on_its_wall_clock() -> None:
    times = pd.date_range("2024-03-25", periods=14, freq="D", tz="Europe/Berlin").tz_convert("UTC").tz_localize(None)
    assert str(infer(times.to_numpy().astype("datetime64[us]"), np.array([0]), "Europe/Berlin")) == "1d"


def test_gaps_do_not_change_the_inferred_frequency() -> None:
    times = pd.date_range("2024-01-01", periods=50, freq="h").to_numpy().astype("datetime64[us]")
    assert str(infer(np.delete(times, [3, 10, 11]), np.array([0]))) == "1h"
    assert infer(times[:3], np.array([0, 1, 2])) is None


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["1h", "15m", "1d", "1w", "1bd", "1mo", "1mo:end", "1q", "1y", "3i"]),
    st.integers(-400, 400),
    st.integers(0, 20_000),
    st.sampled_from([None, "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
def test_positions_undo_advancing(freq: str, steps: int, day: int, zone: str | None) -> None:
    frequency = Frequency.parse(freq)
    start: np.ndarray = (
        np.array([day]) if frequency.integer else np.array([day], "datetime64[D]").astype("datetime64[us]")
    )
    if frequency.unit == "bd":
        zone = None
        start = np.busday_offset(start.astype("datetime64[D]"), 0, roll="forward").astype("datetime64[us]")
    if frequency.end:
        zone = None
        start = ((start.astype("datetime64[M]") + 1).astype("datetime64[D]") - 1).astype("datetime64[us]")
    moved = frequency.advance(start, steps, zone)
    found, good = frequency.positions(start, moved, zone)
    assert found.tolist() == [steps]
    assert good.all()
