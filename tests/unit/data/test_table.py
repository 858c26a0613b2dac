"""TimeSeriesDataFrame: loading in every form, giving back, cutting."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.core.errors import ConfigError, DataError, DataFileError
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame


def daily(**series: list[float | None]) -> pl.DataFrame:
    """A long table; each series starts on 1 January 2024."""
    parts = [
        pl.DataFrame(
            {"unique_id": name, "ds": pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, len(y)), eager=True), "y": y}
        )
        for name, y in series.items()
    ]
    return pl.concat(parts, how="vertical_relaxed")


TABLE = daily(a=[1.0, 2.0, 3.0], b=[10.0, 20.0])


def identical(one: TimeSeriesDataFrame, other: TimeSeriesDataFrame) -> bool:
    return one.fingerprint == other.fingerprint


@pytest.mark.parametrize(
    ("make", "library"),
    [
        (lambda t: t, "polars"),
        (lambda t: t.lazy(), "polars"),
        (lambda t: t.to_pandas(), "pandas"),
        (lambda t: t.to_arrow(), "pyarrow"),
        (lambda t: t.to_dict(as_series=False), "dict"),
        (lambda t: {name: column.to_numpy() for name, column in t.to_dict().items()}, "dict"),
    ],
)
def test_every_library_gives_the_same_store(make: Any, library: str) -> None:
    data = TimeSeriesDataFrame.from_frame(make(TABLE))
    assert data.library == library
    assert data.ids.tolist() == ["a", "b"]
    assert data.store.offsets.tolist() == [0, 3, 5]
    assert data.store.y.tolist() == [1, 2, 3, 10, 20]
    assert data.store.y.dtype == np.float32
    assert data.store.mask is None
    assert data.freq == "1d"
    assert data.store.start.tolist() == [datetime(2024, 1, 1)] * 2
    returned = data.as_input_library(data.to_polars())
    assert type(returned).__module__.split(".")[0] == {"dict": "builtins"}.get(library, library)


def test_csv_and_parquet_in_every_form_give_the_same_store(tmp_path: Path) -> None:
    TABLE.write_csv(tmp_path / "t.csv")
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + TABLE.write_csv().encode())
    (tmp_path / "semi.csv").write_text(TABLE.write_csv(separator=";"), encoding="utf-16")
    TABLE.write_parquet(tmp_path / "t.parquet")
    parts = tmp_path / "parts"
    parts.mkdir()
    TABLE.head(2).write_parquet(parts / "1.parquet")
    TABLE.tail(3).write_parquet(parts / "2.parquet")
    hive = tmp_path / "hive"
    TABLE.write_parquet(hive, partition_by="unique_id", mkdir=True)
    expected = TimeSeriesDataFrame.from_frame(TABLE)
    loaded = [
        TimeSeriesDataFrame.from_csv(tmp_path / "t.csv"),
        TimeSeriesDataFrame.from_csv(tmp_path / "bom.csv"),
        TimeSeriesDataFrame.from_csv(tmp_path / "semi.csv", separator=";", encoding="utf-16"),
        TimeSeriesDataFrame.from_parquet(tmp_path / "t.parquet"),
        TimeSeriesDataFrame.from_parquet(str(parts / "*.parquet")),
        TimeSeriesDataFrame.from_parquet(parts),
        TimeSeriesDataFrame.from_parquet(hive),
    ]
    assert [identical(data, expected) for data in loaded] == [True] * 7


def test_a_file_is_read_in_pieces_with_runs_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pl.concat([daily(**{f"s{i}": [float(i)] * (3 + i)}) for i in range(6)])
    table.write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr("neuro_divergent.data.read.build.CHUNK", 4)
    pieces = TimeSeriesDataFrame.from_parquet(tmp_path / "t.parquet")
    assert identical(pieces, TimeSeriesDataFrame.from_frame(table))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"unique_id,ds,y\n", "only a header"),
        (b"\n\n", "column names"),
        (b"unique_id,ds,y\na,2024-01-01,1\na,2024-01-02\n", "row 1 .line 3. has 2"),
        (b"unique_id,ds,y\na,2024-01-01,1\na,2024-01-02,3,4\n", "row 1 .line 3. has 4"),
        (b"\xff\xfeu\x00", "only a header"),
        (b"unique_id,y,y\na,1,2\n", "'y' more than once"),
        (b"unique_id,ds,y\na,2024-01-01,\x001\n", "zero byte on line 2"),
    ],
)
def test_a_broken_csv_file_is_refused_by_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataFileError, match=message):
        TimeSeriesDataFrame.from_csv(tmp_path / "t.csv")


def test_files_that_are_not_there_or_not_files_are_refused(tmp_path: Path) -> None:
    for load in (TimeSeriesDataFrame.from_csv, TimeSeriesDataFrame.from_parquet):
        with pytest.raises(DataFileError, match="there is none"):
            load(tmp_path / "absent")
    with pytest.raises(DataFileError, match="directory"):
        TimeSeriesDataFrame.from_csv(tmp_path)
    with pytest.raises(DataFileError, match="there are none"):
        TimeSeriesDataFrame.from_parquet(tmp_path)
    with pytest.raises(DataFileError, match="there are none"):
        TimeSeriesDataFrame.from_parquet(str(tmp_path / "*.parquet"))
    (tmp_path / "t.parquet").write_bytes(b"PAR1 this is not Parquet PAR1")
    with pytest.raises(DataFileError, match="cannot be read"):
        TimeSeriesDataFrame.from_parquet(tmp_path / "t.parquet")


def test_a_csv_column_that_turns_to_text_late_is_an_error_with_row_and_value(tmp_path: Path) -> None:
    rows = "".join(f"a,{i},{i}.5\n" for i in range(20_000)) + "a,20000,oops\n"
    (tmp_path / "t.csv").write_text("unique_id,ds,y\n" + rows)
    with pytest.raises(DataError, match=r"column 'y' .*'oops' at series 'a', row 20000"):
        TimeSeriesDataFrame.from_csv(tmp_path / "t.csv")


def test_a_table_without_ids_is_one_series_named_after_the_target() -> None:
    data = TimeSeriesDataFrame.from_frame({"when": [1, 2, 3], "load": [1, 2, 3]}, time_col="when", target_col="load")
    assert data.ids.tolist() == ["load"]
    assert data.to_polars().columns == ["when", "load"]


def test_wide_tables_become_one_series_per_column() -> None:
    wide = pl.DataFrame({"date": [1, 2], "B": [3.0, 4.0], "A": [1, 2], "holiday": [0, 1]})
    data = TimeSeriesDataFrame.from_frame(wide, wide=True, time_col="date", future=("holiday",))
    assert data.ids.tolist() == ["A", "B"]
    assert data.store.y.tolist() == [1, 2, 3, 4]
    assert data.store.future is not None
    assert data.store.future[:, 0].tolist() == [0, 1, 0, 1]
    again = TimeSeriesDataFrame.from_frame(data.to_polars(), schema=data.schema)
    assert identical(again, data)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"timestamp": [datetime(2024, 1, 1)], "y": [1.0]}, "'timestamp'.*time_col='timestamp'"),
        ({"ds": [1, 2], "sales": [1.0, 2.0]}, "target_col='sales'"),
        ({"ds": [], "y": []}, "only a header"),
        ({}, "columns"),
    ],
)
def test_columns_are_never_guessed_but_proposed(table: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        TimeSeriesDataFrame.from_frame(table)


def test_unknown_options_and_libraries_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean freq"):
        TimeSeriesDataFrame.from_frame(TABLE, frec="1d")  # type: ignore[call-arg]
    with pytest.raises(DataError, match="polars, pandas or pyarrow"):
        TimeSeriesDataFrame.from_frame(7)
    with pytest.raises(ConfigError, match="Use one of the two"):
        TimeSeriesDataFrame.from_frame(TABLE, schema=DataSchema(), freq="1d")


@settings(max_examples=50, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 5), st.booleans())
def test_shuffled_rows_give_identical_bits(random: Any, series: int, gaps: bool) -> None:
    table = pl.concat(
        [daily(**{f"s{i}": [random.random() for _ in range(random.randint(2, 9))]}) for i in range(series)]
    )
    table = table.with_columns(pl.Series("x", [random.random() for _ in range(len(table))]))
    if gaps:
        table = table.filter(pl.Series([random.random() < 0.8 for _ in range(len(table))]))
        table = table if len(table) else daily(a=[1.0]).with_columns(x=0.0)
    order = list(range(len(table)))
    random.shuffle(order)
    options: Any = {"future": ("x",), "freq": "1d", "missing": "forward"}
    one = TimeSeriesDataFrame.from_frame(table, **options)
    other = TimeSeriesDataFrame.from_frame(table[order], **options)
    assert identical(one, other)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.floats(-(2.0**100), 2.0**100, width=32)), min_size=1, max_size=8),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["1d", "1h", "1mo", "1bd", "1w"]),
    st.sampled_from([None, "Europe/Berlin"]),
)
def test_to_polars_gives_back_what_was_loaded(series: list[list[float | None]], freq: str, zone: str | None) -> None:
    parts = []
    for number, y in enumerate(series):
        ds = pd.date_range(
            "2024-03-28 00:00", periods=len(y), freq={"1d": "D", "1h": "h", "1mo": "MS", "1bd": "B", "1w": "W"}[freq]
        )
        parts.append(
            pl.DataFrame(
                {
                    "unique_id": number,
                    "ds": pl.Series(ds.to_numpy().astype("datetime64[us]")),
                    "y": pl.Series(y, dtype=pl.Float32),
                }
            )
        )
    table = pl.concat(parts)
    if zone and freq != "1h":
        table = table.with_columns(pl.col("ds").dt.replace_time_zone(zone))
    data = TimeSeriesDataFrame.from_frame(table, freq=freq)
    assert data.to_polars().equals(table, null_equal=True)
    assert identical(TimeSeriesDataFrame.from_frame(data.to_pandas(), schema=data.schema), data)


def test_time_stamps_come_back_in_their_own_type() -> None:
    for column in (
        pl.Series([1, 2], dtype=pl.Int32),
        pl.Series([1, 2], dtype=pl.UInt8),
        pl.Series([0, 86_400_000]).cast(pl.Datetime("ms")),
        pl.Series([0, 86_400_000_000_000]).cast(pl.Datetime("ns", "UTC")),
        pl.Series([0, 1]).cast(pl.Date),
    ):
        data = TimeSeriesDataFrame.from_frame({"ds": column, "y": [1.0, 2.0]})
        assert data.to_polars()["ds"].dtype == column.dtype
        assert data.future_times(1).dtype == column.dtype


def test_horizon_times_follow_each_series() -> None:
    data = TimeSeriesDataFrame.from_frame(TABLE)
    assert [str(day) for day in data.future_times(2)] == ["2024-01-04", "2024-01-05", "2024-01-03", "2024-01-04"]
    assert [str(day) for day in data.times(1, 1, 3)] == ["2024-01-02", "2024-01-03", "2024-01-04"]
    assert len(data.times(0)) == 3
    assert data.id_column(2).to_list() == ["a", "a", "b", "b"]


def test_cuts_keep_times_values_and_masks() -> None:
    data = TimeSeriesDataFrame.from_frame(daily(a=[None, 2.0, 3.0], b=[10.0, 20.0]))
    tail = data.tail(2)
    assert tail.to_polars().rows() == data.to_polars().filter(pl.col("y").is_not_null()).rows()
    assert tail.store.mask is None
    dropped = data.drop_last(1)
    assert dropped.to_polars()["y"].to_list() == [None, 2.0, 10.0]
    assert data.head(1).to_polars()["y"].to_list() == [None, 10.0]
    assert data.select(["b"]).to_polars().rows() == data.to_polars().filter(unique_id="b").rows()
    with pytest.raises(DataError, match="'b'"):
        data.drop_last(2)
    with pytest.raises(DataError, match="'z'"):
        data.select(["z"])
    with pytest.raises(ConfigError, match="at least 1"):
        data.tail(0)


def test_fingerprints_differ_when_anything_does() -> None:
    data = TimeSeriesDataFrame.from_frame(TABLE)
    variants = [
        TABLE.with_columns(pl.col("y") + 1),
        TABLE.with_columns(pl.col("ds").dt.offset_by("1d")),
        TABLE.with_columns(pl.col("unique_id") + "x"),
        TABLE.with_columns(pl.when(pl.col("y") == 2).then(None).otherwise(pl.col("y")).alias("y")),
    ]
    prints = {TimeSeriesDataFrame.from_frame(table).fingerprint for table in variants} | {data.fingerprint}
    assert len(prints) == 5


def test_the_table_says_what_it_is() -> None:
    data = TimeSeriesDataFrame.from_frame(daily(a=[1.0, None, 3.0]).with_columns(x=1.0), future=("x",))
    assert repr(data) == "TimeSeriesDataFrame: 1 series, 3 rows, freq 1d, future: x, 1 rows masked"
    assert "<b>TimeSeriesDataFrame</b>" in data._repr_html_()
    assert "frequency 1d (inferred)" in str(data.report())


def test_pandas_indexes_with_names_are_columns() -> None:
    frame = TABLE.to_pandas().set_index(["unique_id", "ds"])
    assert identical(TimeSeriesDataFrame.from_frame(frame), TimeSeriesDataFrame.from_frame(TABLE))
    periods = pd.DataFrame({"ds": pd.period_range("2024-01", periods=3, freq="M"), "y": [1.0, 2.0, 3.0]})
    assert TimeSeriesDataFrame.from_frame(periods).freq == "1mo"
    assert pa.table({"ds": [1], "y": [1.0]}).num_rows == 1


def test_a_store_on_disk_is_the_same_table(tmp_path: Path) -> None:
    table = TABLE.with_columns(x=pl.col("y") * 2, kind=pl.lit("k"))
    data = TimeSeriesDataFrame.from_frame(table, future=("x",), categorical=("kind",))
    data.store.save(tmp_path / "store")
    opened = TimeSeriesDataFrame.from_store(SeriesStore.open(tmp_path / "store"), data.schema)
    assert identical(opened, data)
    assert opened.to_polars().equals(data.to_polars())
    plain = TimeSeriesDataFrame.from_store(data.store)
    assert plain.to_polars()["kind"].to_list() == ["k"] * 5
    assert plain.future_times(1).to_list() == [datetime(2024, 1, 4), datetime(2024, 1, 3)]


def test_a_csv_keeps_the_offset_of_its_time_stamps(tmp_path: Path) -> None:
    stamps = ["2024-01-01T00:00:00+01:00", "2024-01-01T01:00:00+01:00"]
    (tmp_path / "t.csv").write_text(f"ds,y\n{stamps[0]},1.0\n{stamps[1]},2.0\n")
    read = TimeSeriesDataFrame.from_csv(tmp_path / "t.csv")
    assert [time.isoformat() for time in read.to_polars()["ds"]] == stamps
    assert identical(read, TimeSeriesDataFrame.from_frame({"ds": stamps, "y": [1.0, 2.0]}))


@pytest.mark.parametrize("cells", [["1,5", "NA", "-,25"], ["1"] * 10_001 + ["2,5", ""]])
def test_decimal_commas_are_read_beside_words_and_after_whole_numbers(tmp_path: Path, cells: list[str]) -> None:
    rows = "\n".join(f"{number};{cell};north, {number}" for number, cell in enumerate(cells))
    (tmp_path / "t.csv").write_text(f"ds;y;place\n{rows}\n")
    read = TimeSeriesDataFrame.from_csv(
        tmp_path / "t.csv", separator=";", decimal_comma=True, future="place", categorical="place"
    )
    expected = [None if cell in ("NA", "") else float(cell.replace(",", ".")) for cell in cells]
    assert read.to_polars()["y"].to_list() == expected
    assert read.schema.categories["place"][0] == "north, 0"


@pytest.mark.parametrize("odd", ["1.5", "1.00,5", "about 3"])
def test_a_cell_that_does_not_go_with_decimal_commas_is_named(tmp_path: Path, odd: str) -> None:
    (tmp_path / "t.csv").write_text("ds;y\n" + "".join(f"{n};3,5\n" for n in range(20)) + f"20;{odd}\n")
    said = re.escape(
        f"column 'y' must hold numbers written so that 1234,5 is the number 1234.5, but got '{odd}' at row 20"
    )
    with pytest.raises(DataError, match=said):
        TimeSeriesDataFrame.from_csv(tmp_path / "t.csv", separator=";", decimal_comma=True)


@pytest.mark.parametrize(("said", "wanted"), [({}, "utf-8"), ({"encoding": "ascii"}, "line 2 .*encoding='utf-8'")])
def test_an_encoding_that_is_said_is_not_guessed(tmp_path: Path, said: dict[str, str], wanted: str) -> None:
    (tmp_path / "t.csv").write_text("ds,y,ä\n1,2,ö\n2,3,ö\n".replace("ä", "a"))
    if not said:
        assert TimeSeriesDataFrame.from_csv(tmp_path / "t.csv").schema.file.encoding == wanted
        return
    with pytest.raises(DataFileError, match=wanted):
        TimeSeriesDataFrame.from_csv(tmp_path / "t.csv", **said)
