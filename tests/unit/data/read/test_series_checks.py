"""Every check of a table: its policy, its count in the report, its message. Expected values are by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.table import TimeSeriesDataFrame

load = TimeSeriesDataFrame.from_frame


def one(y: list[Any], ds: list[Any] | None = None, **more: list[Any]) -> dict[str, Any]:
    return {"unique_id": ["a"] * len(y), "ds": ds or list(range(len(y))), "y": y, **more}


def values(data: TimeSeriesDataFrame) -> list[float | None]:
    return data.to_polars(filled=True)["y"].to_list()


def test_duplicates_are_refused_or_merged_and_counted() -> None:
    table = one([1.0, 2.0, 4.0, 5.0], [0, 1, 1, 2])
    with pytest.raises(DataError, match=r"column 'ds' has 1 again at series 'a', row 2.*duplicates="):
        load(table)
    last = load(table, duplicates="last")
    assert values(last) == [1, 4, 5]
    assert last.report().duplicate_rows == 1
    assert values(load(table, duplicates="mean")) == [1, 3, 5]
    assert values(load(one([1.0, 2.0, None], [0, 1, 1]), duplicates="mean")) == [1, 2]
    assert values(load(one([1.0, 2.0, None], [0, 1, 1]), duplicates="last")) == [1, None]


def test_the_mean_of_duplicates_does_not_depend_on_the_order_of_rows() -> None:
    random = np.random.default_rng(1)
    y, ds = random.normal(size=60), np.repeat(np.arange(6), 10)
    order = random.permutation(60)
    first = load({"ds": ds, "y": y}, duplicates="mean", dtype="float64")
    second = load({"ds": ds[order], "y": y[order]}, duplicates="mean", dtype="float64")
    assert first.fingerprint == second.fingerprint
    np.testing.assert_allclose(first.store.y, y.reshape(6, 10).mean(axis=1), rtol=1e-6)


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ("mask", [1, None, None, 4, 6]),
        ("forward", [1, 1, 1, 4, 6]),
        ("backward", [1, 4, 4, 4, 6]),
        ("linear", [1, 2, 3, 4, 6]),
        ("zero", [1, 0, 0, 4, 6]),
        ("mean", [1, 1, 1, 4, 6]),  # of the values before
    ],
)
def test_gaps_are_opened_up_masked_or_filled(gaps: Any, expected: list[float | None]) -> None:
    data = load(one([1.0, 4.0, 6.0], [0, 3, 4]), gaps=gaps, freq="1i")
    assert values(data) == expected
    assert data.to_polars()["y"].to_list() == [1, None, None, 4, 6]  # what was observed stays apart
    report = data.report()
    assert (report.gap_rows, report.gaps_by_series) == (2, {"a": 2})
    assert report.filled == (0 if gaps == "mask" else 2)
    assert report.masked == (2 if gaps == "mask" else 0)


def test_gaps_can_be_refused() -> None:
    with pytest.raises(DataError, match="2 rows are missing: column 'ds' jumps to 3 at series 'a', row 1"):
        load(one([1.0, 4.0, 6.0], [0, 3, 4]), gaps="error", freq=1)


def test_missing_targets_are_masked_filled_or_refused_and_counted_per_series() -> None:
    table = {"unique_id": list("aaabbb"), "ds": [0, 1, 2] * 2, "y": [None, 2.0, float("nan"), 1.0, None, 3.0]}
    data = load(table)
    assert values(data) == [None, 2, None, 1, None, 3]
    assert data.report().missing_by_series == {"a": 2, "b": 1}
    assert (data.report().missing, data.report().masked) == (3, 3)
    assert values(load(table, missing="forward")) == [None, 2, 2, 1, 1, 3]
    assert values(load(table, missing="linear")) == [None, 2, 2, 1, 2, 3]  # open at the end: nothing to aim at
    assert values(load(table, missing="backward")) == [2, 2, 2, 1, 3, 3]
    assert values(load(table, missing="mean")) == [None, 2, 2, 1, 1, 3]
    with pytest.raises(DataError, match=r"column 'y' .*3 empty ones, the first at series 'a', row 0"):
        load(table, missing="error")


def test_a_panel_like_the_load_forecasting_contest_counts_each_zone() -> None:
    # 20 zones of hourly load; the same 8 weeks (1,344 hours) are empty in each.
    hours, zones = 4000, 20
    y = np.random.default_rng(0).random((zones, hours)).astype(np.float32)
    y[:, 1000:2344] = np.nan
    start = np.datetime64("2004-01-01T00", "ms")
    table = pl.DataFrame(
        {
            "unique_id": np.repeat([f"zone{z + 1}" for z in range(zones)], hours),
            "ds": np.tile(start + np.arange(hours).astype("timedelta64[h]"), zones),
            "y": y.reshape(-1),
        }
    )
    report = load(table).report()
    assert report.missing_by_series == dict.fromkeys(sorted(f"zone{z + 1}" for z in range(zones)), 1344)
    assert report.freq == "1h"
    assert report.gap_rows == 0


def test_infinities_are_refused_by_name_or_masked() -> None:
    table = one([1.0, float("inf"), 3.0])
    with pytest.raises(DataError, match="column 'y' must be finite, but got inf at series 'a', row 1"):
        load(table)
    data = load(table, infinities="mask")
    assert values(data) == [1, None, 3]
    assert data.report().infinite == 1
    with pytest.raises(DataError, match="column 'x' must be finite"):
        load(one([1.0, 2.0], x=[1.0, float("-inf")]), future=("x",), infinities="mask")


@pytest.mark.parametrize("missing", ["mask", "error", "zero", "linear"])
def test_infinite_targets_are_masked_whatever_is_done_about_empty_ones(missing: Any) -> None:
    data = load(one([1.0, float("inf"), 3.0]), infinities="mask", missing=missing)
    assert data.to_polars()["y"].to_list() == [1.0, None, 3.0]
    assert (data.report().infinite, data.report().missing) == (1, 0)
    twice = {"ds": [0, 0, 1], "y": [float("-inf"), 2.0, 3.0]}
    assert load(twice, infinities="mask", missing=missing, duplicates="mean").store.y.tolist() == [2.0, 3.0]


def test_magnitudes_stay_finite_or_are_refused_by_name() -> None:
    assert load(one([1e30, 1e-30])).store.y.tolist() == pytest.approx([1e30, 1e-30], rel=1e-6)
    with pytest.raises(DataError, match=r"column 'y' must fit float32.*1e\+39 at series 'a', row 1.*dtype=\"float64\""):
        load(one([1.0, 1e39]))
    assert load(one([1.0, 1e39]), dtype="float64").store.y.tolist() == [1.0, 1e39]
    tiny = load(one([1.0, 1e-60]))
    assert tiny.report().vanished == {"y": 1}


def test_numbers_as_text_are_converted_and_counted_other_text_is_refused() -> None:
    data = load(one(["1", " 2.5 ", "", "NA", "1e3"]))
    assert values(data) == [1, 2.5, None, None, 1000]
    assert data.report().text_numbers == {"y": 3}
    assert data.report().missing == 2
    with pytest.raises(DataError, match=r"column 'y' .* 'two' at series 'a', row 1"):
        load(one(["1", "two"]))


def test_constant_and_empty_series_are_counted_kept_dropped_or_refused() -> None:
    table = {"unique_id": list("aabbcc"), "ds": [0, 1] * 3, "y": [1.0, 1.0, None, None, 1.0, 2.0]}
    report = load(table).report()
    assert report.constant_series == ("a",)
    assert report.all_missing_series == ("b",)
    data = load(table, constant="drop", all_missing="drop")
    assert data.ids.tolist() == ["c"]
    assert data.report().dropped_series == ("a", "b")
    with pytest.raises(DataError, match="'a'"):
        load(table, constant="error")
    with pytest.raises(DataError, match="'b'"):
        load(table, all_missing="error")


def test_short_series_are_refused_by_name_dropped_or_padded() -> None:
    table = {"unique_id": list("aab"), "ds": [5, 6, 9], "y": [1.0, 2.0, 3.0]}
    with pytest.raises(DataError, match=r"at least 2 rows.*'b'"):
        load(table, min_length=2)
    assert load(table, min_length=2, short="drop").ids.tolist() == ["a"]
    padded = load(table, min_length=3, short="pad")
    assert padded.to_polars().rows() == [
        ("a", 4, None),
        ("a", 5, 1),
        ("a", 6, 2),
        ("b", 7, None),
        ("b", 8, None),
        ("b", 9, 3),
    ]
    assert padded.report().padded_rows == 3
    assert load(table).with_min_length(2, "drop").ids.tolist() == ["a"]
    with pytest.raises(ConfigError, match="short"):
        load(table).with_min_length(2, "shrink")


def test_unsorted_rows_are_sorted_and_counted() -> None:
    data = load(one([2.0, 1.0, 3.0], [1, 0, 2]))
    assert values(data) == [1, 2, 3]
    assert data.report().unsorted_rows == 1
    assert load(one([1.0, 2.0])).report().unsorted_rows == 0


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", None], "empty cell at row 1"),
        ([1.5, 2.5], "text or whole numbers"),
        (["a", "x" * 2000], "longer than 1,000"),
        ([True, False], "text or whole numbers"),
    ],
)
def test_ids_must_name_every_row(ids: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load({"unique_id": ids, "ds": [0, 1], "y": [1.0, 2.0]})


def test_integer_ids_sort_as_numbers() -> None:
    data = load({"unique_id": [10, 9], "ds": [0, 0], "y": [1.0, 2.0]}, freq=1)
    assert data.ids.tolist() == [9, 10]


@pytest.mark.parametrize(
    ("ds", "options", "message"),
    [
        (["2024-01-01", "2024-01-02", None], {}, "empty cell at series 'a', row 2"),
        (["2024-01-01", "2024-01-02", "soon"], {}, "'soon' at series 'a', row 2"),
        (["the first", "the second", "the third"], {}, "time_format="),
        (["01-02-2024", "05-02-2024", "06-03-2024"], {}, "2024-02-01 with time_format='%d-%m-%Y' or 2024-01-02 with"),
        ([0.5, 1.0, 2.0], {}, "0.5 at series 'a', row 0"),
        (["2024-01-01", "2024-01-02", "2024-01-03"], {"freq": "MS"}, "2024-01-02 at series 'a', row 1.*freq=\"1d\""),
        (["2024-01-01", "2024-01-08", "2024-01-15"], {"freq": "W-SUN"}, "2024-01-01"),
        ([datetime(2024, 1, 1), datetime(2024, 1, 1, 1), datetime(2024, 1, 1, 1, 7)], {"freq": "h"}, "row 2"),
        ([1, 2, 3], {"freq": "1d"}, 'freq="1i"'),
        (["2024-01-01", "2024-01-02", "2024-01-03"], {"freq": "1i"}, "time stamps"),
        (["2024-01-01T00:00Z", "2024-01-01T01:00+02:00", "2024-01-01T02:00Z"], {}, "mix time zones.*row 1"),
        (["2024-01-01T00:00Z", "2024-01-01T01:00", "2024-01-01T02:00Z"], {}, "mix time zones.*row 1"),
        (["2024-01-01 00:00+01", "2024-01-01 01:00+01", "2024-01-01 02:00+02"], {}, r"zones.*\+0200 at .*row 2"),
        (["2024-01-01 00:00-01", "2024-01-01 01:00-01", "2024-01-01"], {}, "row 2"),
        (["2024-01-01", "2024-01-02", "2024-01-03"], {"time_zone": "Mars/Olympus"}, "time_zone must be"),
        (["2024-03-31 01:00", "2024-03-31 02:00", "2024-03-31 03:00"], {"time_zone": "Europe/Berlin"}, "row 1.*skips"),
        ([timedelta(1), timedelta(2), timedelta(3)], {}, "must hold time stamps"),
    ],
)
def test_time_stamps_that_cannot_be_right_are_refused(ds: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(one([1.0, 2.0, 3.0], ds), **options)


@pytest.mark.parametrize(
    ("ds", "freq"),
    [
        (["2024-01-01", "2024-01-02"], "1d"),
        (["2024-01-01 00:00", "2024-01-01 01:00"], "1h"),
        (["2024-01-01T00:00:00", "2024-01-01T00:15:00"], "15m"),
        (["2024-01", "2024-02"], "1mo"),
        (["2024/01/01", "2024/01/08"], "1w"),
        (["2024-01-01T00:00:00.5", "2024-01-01T00:00:01.0"], "500ms"),
        (["1", "2"], "1i"),
        ([date(2024, 1, 31), date(2024, 2, 29)], "1mo:end"),
        (["2024-01-01T00:00Z", "2024-01-01T01:00Z"], "1h"),
    ],
)
def test_time_stamps_are_read_from_text(ds: list[Any], freq: str) -> None:
    assert load(one([1.0, 2.0], ds)).freq == freq


def test_a_time_format_reads_local_writing() -> None:
    data = load(one([1.0, 2.0], ["31.12.2023", "01.01.2024"]), time_format="%d.%m.%Y")
    assert data.to_polars()["ds"].to_list() == [date(2023, 12, 31), date(2024, 1, 1)]


def test_naive_stamps_of_a_zone_pass_both_clock_changes() -> None:
    autumn = ["2024-10-27 01:00", "2024-10-27 02:00", "2024-10-27 02:00", "2024-10-27 03:00"]
    data = load(one([1.0, 2.0, 3.0, 4.0], autumn), time_zone="Europe/Berlin")
    assert data.freq == "1h"
    assert len(data) == 4
    assert data.store.time_zone == "Europe/Berlin"
    spring = ["2024-03-31 01:00", "2024-03-31 03:00", "2024-03-31 04:00"]
    assert len(load(one([1.0, 2.0, 3.0], spring), time_zone="Europe/Berlin")) == 3
    with pytest.raises(DataError, match="time_zone="):
        load(one([1.0, 2.0, 3.0, 4.0], autumn))


def test_the_repeated_hour_of_rows_that_go_back_in_time_is_in_their_order() -> None:
    newest_first = ["2024-10-27 03:00", "2024-10-27 02:00", "2024-10-27 02:00", "2024-10-27 01:00"]
    data = load(one([4.0, 3.0, 2.0, 1.0], newest_first), time_zone="Europe/Berlin")
    assert data.store.y.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_offsets_of_summer_and_winter_are_one_zone_when_it_is_named() -> None:
    ds = ["2024-03-31T00:00+01:00", "2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00"]
    data = load(one([1.0, 2.0, 3.0], ds), time_zone="Europe/Berlin")
    assert (data.freq, len(data)) == ("1h", 3)
    fixed = load(one([1.0, 2.0], ["2024-01-01T00:00+02:00", "2024-01-01T01:00+02:00"]))
    assert fixed.to_polars()["ds"][0].isoformat() == "2024-01-01T00:00:00+02:00"


@pytest.mark.parametrize(
    ("ds", "expected"),
    [
        ("2024-01-01 00:00:00+00", "2024-01-01T00:00:00+00:00"),
        ("2024-01-01 00:00:00.000+01", "2024-01-01T00:00:00+01:00"),
        ("2024-01-01T00:00-05", "2024-01-01T00:00:00-05:00"),
        ("2024-01-01 00:00:00 +0100", "2024-01-01T00:00:00+01:00"),
        ("2024-01-01+01", "2024-01-01T00:00:00+01:00"),
        ("2024-01-01T00:00:00+05:30", "2023-12-31T18:30:00+00:00"),
        ("2024-01-01T00:00:00z", "2024-01-01T00:00:00+00:00"),
    ],
)
def test_offsets_are_read_as_databases_and_scripts_write_them(ds: str, expected: str, tmp_path: Path) -> None:
    """The first is how PostgreSQL writes a timestamptz. Half hours have no zone of their own and are kept in UTC."""
    stamps = [ds.replace("01-01", f"01-0{day}") for day in (1, 2, 3)]
    (tmp_path / "t.csv").write_text("ds,y\n" + "".join(f"{stamp},1.0\n" for stamp in stamps))
    read = TimeSeriesDataFrame.from_csv(tmp_path / "t.csv", freq="1d")
    assert read.to_polars()["ds"][0].isoformat() == expected


def test_one_offset_may_be_written_in_several_ways() -> None:
    ds = ["2024-01-01 00:00Z", "2024-01-01 01:00+00", "2024-01-01 02:00 -0000", "2024-01-01 03:00+00:00"]
    expected = [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(4)]
    assert load(one([1.0] * 4, ds)).to_polars()["ds"].to_list() == expected
    ds = ["2024-03-31 00:00+01", "2024-03-31 01:00+0100", "2024-03-31 03:00+02"]
    berlin = load(one([1.0] * 3, ds), time_zone="Europe/Berlin")
    assert [time.isoformat() for time in berlin.to_polars()["ds"]] == [
        "2024-03-31T00:00:00+01:00",
        "2024-03-31T01:00:00+01:00",
        "2024-03-31T03:00:00+02:00",
    ]


def test_series_of_different_frequencies_and_outlying_stamps_are_refused() -> None:
    hours = [datetime(2024, 1, 1) + timedelta(hours=i) for i in range(30)]
    days = [datetime(2024, 1, 1) + timedelta(days=i) for i in range(10)]
    mixed = {"unique_id": ["a"] * 30 + ["b"] * 10, "ds": hours + days, "y": [1.0] * 40}
    with pytest.raises(DataError, match="one frequency, but series 'b'"):
        load(mixed)
    assert len(load(mixed, freq="1h")) == 30 + 9 * 24 + 1
    with pytest.raises(DataError, match="would add"):
        load({"ds": [*hours, datetime(2900, 1, 1)], "y": [1.0] * 31}, freq="1h")


def test_one_row_per_series_needs_a_given_frequency() -> None:
    table = {"unique_id": ["a", "b"], "ds": ["2024-01-01", "2024-01-01"], "y": [1.0, 2.0]}
    with pytest.raises(DataError, match=r'Give it, e\.g\. freq="1d"'):
        load(table)
    assert load(table, freq="1d").store.lengths.tolist() == [1, 1]
