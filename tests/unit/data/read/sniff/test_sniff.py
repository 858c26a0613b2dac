"""Marks, dates, header lines and roles: what decides, what is asked, and what is refused. Expected values by hand."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from datetime import date, timedelta
from typing import Any

import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.data.read.sniff import unpack

DAYS = [date(2024, 1, 1) + timedelta(days=number) for number in range(20)]


def read(text: str | bytes, **options: Any) -> nd.TimeSeriesDataFrame:
    data = text.encode() if isinstance(text, str) else text
    return nd.TimeSeriesDataFrame.from_csv(io.BytesIO(data), dtype="float64", **options)


def column(cells: list[str], separator: str = ";") -> str:
    return f"ds{separator}y\n" + "".join(f'{number}{separator}"{cell}"\n' for number, cell in enumerate(cells))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1.234,56", "7,5", "12"], [1234.56, 7.5, 12.0]),
        (["1,234.56", "7.5", "12"], [1234.56, 7.5, 12.0]),
        (["1 234,56", "-7,5"], [1234.56, -7.5]),
        (["1\u00a0234,56", "1\u202f000"], [1234.56, 1000.0]),
        (["1'234.56", "1’000"], [1234.56, 1000.0]),
        (["1,234", "987", "12,345"], [1234.0, 987.0, 12345.0]),  # the mark follows the size
        (["1.234", "987", "12.345"], [1234.0, 987.0, 12345.0]),
        (["1,234", "0,987"], [1.234, 0.987]),  # thousands do not begin with 0
        (["1,234", "12345"], [1.234, 12345.0]),  # thousands would have their mark
        (["1,234,567", "1,234"], [1234567.0, 1234.0]),
        (["$1,200.50", "(3.25)", "4.5-"], [1200.5, -3.25, -4.5]),
        (["12,5 %", "3 %"], [12.5, 3.0]),
        (["1,5e3", "2,5E-1"], [1500.0, 0.25]),
        (["3,5", "-", "..", "n/a"], [3.5, None, None, None]),
    ],
)
@pytest.mark.parametrize("separator", [";", ","])
def test_marks_are_decided_by_all_cells(cells: list[str], expected: list[float | None], separator: str) -> None:
    if separator == "," and cells == ["1.234", "987", "12.345"]:
        expected = [1.234, 987.0, 12.345]  # where commas separate cells, a point is the decimal mark
    assert read(column(cells, separator)).to_polars()["y"].to_list() == expected


@pytest.mark.parametrize(
    ("cells", "said", "values"),
    [
        (["1,234", "5,678"], {"thousands": ","}, [1234.0, 5678.0]),
        (["1,234", "5,678"], {"decimal_comma": True}, [1.234, 5.678]),
        (["1.234", "5.678"], {"thousands": "."}, [1234.0, 5678.0]),
        (["1.234", "5.678"], {"decimal_comma": False}, [1.234, 5.678]),
    ],
)
def test_marks_that_no_cell_decides_are_asked_about(
    cells: list[str], said: dict[str, Any], values: list[float]
) -> None:
    with pytest.raises(nd.DataError, match=r"may be 1234 or 1\.234 and no other cell decides") as caught:
        read(column(cells))
    assert {advice.field for advice in caught.value.advice} == {"data.thousands", "data.decimal_comma"}
    assert read(column(cells), **said).to_polars()["y"].to_list() == values


def test_two_decimal_marks_in_one_file_are_refused() -> None:
    with pytest.raises(nd.DataError, match=r"one decimal mark, but got '1,5' in column 'x' and '2.5' in column 'y'"):
        read("ds;x;y\n1;1,5;2.5\n2;1,5;2.5\n")


def test_codes_with_leading_zeros_stay_text() -> None:
    table = read("ds;sku;y\n1;007;1\n2;007;2\n1;008;1\n2;008;2\n")
    assert table.to_polars()["sku"].to_list() == ["007", "007", "008", "008"]


@pytest.mark.parametrize(
    ("cells", "form", "first"),
    [
        (["03/04/2020", "13/04/2020"], "%d/%m/%Y", date(2020, 4, 3)),  # a later row says which is the day
        (["03/04/2020", "03/13/2020"], "%m/%d/%Y", date(2020, 3, 4)),
        (["01/02/2020", "01/03/2020", "01/04/2020", "01/01/2021"], None, None),
        ([f"01/{month:02}/2020" for month in range(1, 13)] + ["01/01/2021"], "%d/%m/%Y", date(2020, 1, 1)),
        (["01/02/2020", "02/02/2020", "03/02/2020", "04/02/2020"], None, None),  # days, or months: both are even
        (["1998 Q1", "1998 Q2"], "%Y Q%q", date(1998, 1, 1)),
        (["Q1/1998", "Q2/1998"], "Q%q/%Y", date(1998, 1, 1)),
        (["2020-W01", "2020-W02"], "%G-W%V", date(2019, 12, 30)),
        (["Jan 2020", "Feb 2020"], "%b %Y", date(2020, 1, 1)),
        (["20200131", "20200229"], "%Y%m%d", date(2020, 1, 31)),
    ],
)
def test_dates_are_decided_by_all_rows(cells: list[str], form: str | None, first: date | None) -> None:
    text = "ds;y\n" + "".join(f"{cell};{number}\n" for number, cell in enumerate(cells))
    if form is None:
        with pytest.raises(nd.DataError, match=r"2020-02-01 with time_format='%d/%m/%Y' or 2020-01-02 with") as caught:
            read(text)
        assert [advice.value for advice in caught.value.advice] == ["%d/%m/%Y", "%m/%d/%Y"]
        assert read(text, time_format="%d/%m/%Y").to_polars()["ds"][0] == date(2020, 2, 1)
        return
    table = read(text)
    assert table.to_polars()["ds"][0] == first
    assert table.schema.file is not None
    assert table.schema.file.time_format == form
    assert any(form in assumption.what for assumption in table.report().assumptions)


def test_text_in_a_frame_is_decided_in_the_same_way() -> None:
    table = nd.TimeSeriesDataFrame.from_frame({"ds": ["30.12.2020", "31.12.2020"], "y": [1.0, 2.0]})
    assert table.to_polars()["ds"].to_list() == [date(2020, 12, 30), date(2020, 12, 31)]
    assert "%d.%m.%Y" in str(table.report())


@pytest.mark.parametrize("as_text", [False, True])
def test_whole_numbers_in_a_frame_are_dated_in_the_same_way(as_text: bool) -> None:
    keys = [int(f"{day:%Y%m%d}") for day in (date(2024, 1, 30) + timedelta(days=n) for n in range(20))]
    frame = pl.DataFrame({"ds": [str(key) for key in keys] if as_text else keys, "y": [float(n) for n in range(20)]})
    data = nd.TimeSeriesDataFrame.from_frame(frame)
    assert (data.report().freq, len(data.to_polars())) == ("1d", 20)
    assert "'20240130' is 2024-01-30" in str(data.report())
    counted = nd.TimeSeriesDataFrame.from_frame(frame.head(2), freq="1i")  # said: steps, as 20240130 and 20240131 are
    assert counted.to_polars()["ds"].to_list() == [20240130, 20240131]


def test_milliseconds_in_a_frame_are_times_and_a_future_table_is_read_alike() -> None:
    hours = [1_700_000_000_000 // 3_600_000 * 3_600_000 + 3_600_000 * n for n in range(60)]
    frame = pl.DataFrame({"ds": hours, "y": [float(n % 5) for n in range(60)], "x": [1.0] * 60})
    data = nd.TimeSeriesDataFrame.from_frame(frame.head(57), future=["x"])
    assert data.report().freq == "1h"
    fitted = nd.DLinear(h=3, input_size=6).fit(data, nd.TrainingConfig(max_steps=1))
    ahead = fitted.predict(future=frame.tail(3).drop("y"))
    assert ahead["ds"].dt.epoch("ms").to_list() == hours[-3:]


def test_a_form_is_taken_for_whole_numbers_in_a_frame() -> None:
    frame = pl.DataFrame({"ds": list(range(2000, 2020)), "y": [1.0] * 20})
    assert nd.TimeSeriesDataFrame.from_frame(frame, time_format="%Y").report().freq == "1y"


def test_whole_numbers_that_only_count_stay_numbers() -> None:
    for first in (0, 1, 1000, 99_999_990):
        table = read("ds,y\n" + "".join(f"{first + number},1.5\n" for number in range(20)))
        assert table.freq == "1i", first
    assert read("ds,y\n1577836800,1\n1577840400,2\n").freq == "1h"
    assert read("ds,y\n1577836800,1\n1577840400,2\n", freq="1i").freq == "1i"


def test_years_are_counted_or_dated() -> None:
    text = "year,y\n" + "".join(f"{1990 + number},{number}\n" for number in range(20))
    assert read(text).to_polars()["year"][0] == 1990
    assert read(text, time_format="%Y").to_polars()["year"][0] == date(1990, 1, 1)


def test_titles_blank_lines_and_sums_are_left_out_and_listed() -> None:
    rows = "".join(f"{day:%d.%m.%Y};1.00{number % 10},5\n" for number, day in enumerate(DAYS))
    text = f"Report;;\nmade on 1.2.2024\n\nDay;Sold;\n{rows}Total;99.999,5\n\nSource: the office; see page 3\n"
    table = read(text.replace(",5\n", ",5;\n"))
    assert table.to_polars()["Sold"].to_list() == [1000.5 + number % 10 for number in range(20)]
    said = str(table.report())
    for part in ("line 4 names the columns", "'Total'", "1.234,5 is the number 1234.5", "';' separates the cells"):
        assert part in said


def test_a_comma_in_every_cell_does_not_separate() -> None:
    """Cut at commas, each row would have two cells as well; only the header says otherwise."""
    assert read("day;y\n2024-01-01;1,5\n2024-01-02;2,5\n").to_polars()["y"].to_list() == [1.5, 2.5]


def test_everything_that_is_open_is_asked_at_once() -> None:
    rows = "".join(f"0{day % 9 + 1}/0{day % 7 + 1}/2020;1,234;5,678\n" for day in range(30))
    with pytest.raises(nd.DataError) as caught:
        read(f"day;x;z\n{rows}")
    said = str(caught.value)
    assert "needs 3 answers" in said
    for part in ("no other cell decides", "one column to forecast", "which part is the month"):
        assert part in said
    asked = {advice.field for advice in caught.value.advice}
    assert {"data.thousands", "data.target_col", "data.time_format"} <= asked


def test_a_target_whose_marks_are_open_is_not_asked_for() -> None:
    text = "Day,Load (kW)\n" + "".join(f'{day},"13,{500 + n}"\n' for n, day in enumerate(DAYS))
    with pytest.raises(nd.DataError, match=r"^column 'Load .kW.' must show which mark is the decimal one") as raised:
        read(text)
    assert "one column to forecast" not in str(raised.value)
    assert read(text, thousands=",").to_polars()["Load (kW)"][1] == 13501.0


def test_a_file_takes_a_static_table() -> None:
    text = "unique_id,ds,y\n" + "".join(f"a,{day},{n}\n" for n, day in enumerate(DAYS))
    data = read(text, static=pl.DataFrame({"unique_id": ["a"], "size": [3.0]}))
    assert data.schema.static == ("size",)


def test_roles_are_found_and_listed() -> None:
    rows = [(store, item, day, n) for store in (1, 2) for item in "ab" for n, day in enumerate(DAYS)]
    text = "store,item,date,sales,price\n" + "".join(f"{s},{i},{d},{n},2.5\n" for s, i, d, n in rows)
    table = read(text)
    assert table.schema.id_columns == ("store", "item")
    assert (table.schema.time_col, table.schema.target_col) == ("date", "sales")
    assert table.to_polars().columns[:4] == ["store", "item", "date", "sales"]
    assert "together name the series (otherwise say id_col=...)" in str(table.report())


@pytest.mark.parametrize("names", [["north", "south"], ["demand", "sales"]])
def test_several_possible_targets_are_asked_about(names: list[str]) -> None:
    text = f"date,{','.join(names)}\n" + "".join(f"{day},1,2\n" for day in DAYS)
    with pytest.raises(nd.DataError, match=f"several: '{names[0]}', '{names[1]}'.*wide=True"):
        read(text)
    assert read(text, wide=True).n_series == 2


def test_columns_of_one_pattern_are_series() -> None:
    table = read("date,meter_1,meter_2,meter_3\n" + "".join(f"{day},1,2,3\n" for day in DAYS))
    assert table.ids.tolist() == ["meter_1", "meter_2", "meter_3"]
    assert "(wide)" in str(table.report())


def test_a_table_with_its_times_in_the_header_is_turned() -> None:
    years = range(2000, 2010)
    text = "Country,Code," + ",".join(map(str, years)) + "\nChad,TD," + ",".join("1" for _ in years)
    text += "\nPeru,PE," + ",".join(str(year) for year in years) + "\n"
    table = read(text)
    assert table.ids.tolist() == ["Chad", "Peru"]
    assert table.select(["Peru"]).to_polars()["y"].to_list() == [float(year) for year in years]
    again = nd.TimeSeriesDataFrame.from_csv(io.BytesIO(text.encode()), schema=table.schema)
    assert again.fingerprint == table.fingerprint


def test_a_new_file_is_read_like_the_first_or_sniffed() -> None:
    first = read("ds;y\n" + "".join(f"{day:%d/%m/%Y};1.{day.day:03},5\n" for day in DAYS))
    assert first.schema.file is not None
    # Nothing in these rows says which number is the day, or which mark the decimal one.
    alike = io.BytesIO(b"ds;y\n03/04/2024;1,234\n05/06/2024;2,345\n")
    rows = nd.TimeSeriesDataFrame.from_csv(alike, schema=first.schema.replace(freq=None)).to_polars()
    assert rows["ds"][0] == date(2024, 4, 3)
    assert rows["y"][0] == 1.234
    other = io.BytesIO(b"ds,y\n2024-04-03,1234.5\n2024-04-04,2.5\n")
    rows = nd.TimeSeriesDataFrame.from_csv(other, schema=first.schema).to_polars()
    assert rows["y"].to_list() == [1234.5, 2.5]


def test_how_a_file_is_written_is_saved_with_the_model(tmp_path) -> None:
    text = "ds;y\n" + "".join(f"{day:%d/%m/%Y};{day.day},5\n" for day in DAYS)
    fitted = nd.DLinear(h=2, input_size=4).fit(read(text), nd.TrainingConfig(max_steps=1))
    fitted.save(tmp_path / "model")
    file = nd.load(tmp_path / "model").data.schema.file
    assert file == nd.FileFormat(separator=";", decimal=",", time_format="%d/%m/%Y")
    assert nd.FileFormat.from_dict(file.to_dict()) == file


def test_compressed_files_are_limited(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(unpack, "FREE_UNPACKED", 10_000)
    monkeypatch.setattr(unpack, "MAX_RATIO", 2)
    text = b"ds,y\n" + b"1,1\n" * 100_000
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.csv", text)
    pl.DataFrame({"ds": range(50_000), "y": [0] * 50_000}).write_csv(tmp_path / "t.zst", compression="zstd")
    for packed in (gzip.compress(text), archive.getvalue(), (tmp_path / "t.zst").read_bytes()):
        with pytest.raises(nd.DataError, match="bytes when it is decompressed, but has more"):
            read(packed)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(b"ds,y\n1,2\n", mtime=0)[:-9], "ends too early"),
        (b"\x1f\x8b" + zlib.compress(b"ds,y\n"), "damaged"),
        (b"PK\x03\x04 this is none", "readable zip file"),
        (b"\x28\xb5\x2f\xfd\x00", "zstandard file, but is damaged"),
    ],
)
def test_damaged_archives_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(nd.DataError, match=said):
        read(data)


def test_a_zip_file_holds_one_table() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.csv", "ds,y\n1,2\n")
        file.writestr("b.csv", "ds,y\n1,2\n")
    with pytest.raises(nd.DataError, match=r"it has 2 files \(a.csv, b.csv\)"):
        read(archive.getvalue())


def test_a_text_stream_is_refused() -> None:
    with pytest.raises(nd.DataError, match="binary mode"):
        nd.TimeSeriesDataFrame.from_csv(io.StringIO("ds,y\n1,2\n"))  # type: ignore[arg-type]


def test_categories_of_a_parquet_file_name_series(tmp_path: Any) -> None:
    frame = pl.DataFrame({"Close": [float(n) for n in range(40)], "Symbol": ["a", "b"] * 20, "Day": sorted(DAYS * 2)})
    for kind in (pl.Categorical, pl.Enum(["a", "b"])):
        frame.with_columns(pl.col("Symbol").cast(kind)).write_parquet(tmp_path / "prices.parquet")
        found = nd.TimeSeriesDataFrame.from_parquet(tmp_path / "prices.parquet")
        assert found.n_series == 2
        assert found.to_polars()["Symbol"].unique(maintain_order=True).cast(pl.String).to_list() == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "reader"),
    [
        ('{"ds": "2024-01-01", "y": 1}\n{"ds": "2024-01-02", "y": 2}\n', "read_ndjson"),
        ('[{"ds": "2024-01-01", "y": 1},\n {"ds": "2024-01-02", "y": 2}]', "read_json"),
    ],
)
def test_json_is_named_and_the_advice_works(text: str, reader: str) -> None:
    with pytest.raises(nd.DataError, match=rf"got JSON. Convert it with polars: pl\.{reader}\("):
        read(text)
    assert getattr(pl, reader)(io.BytesIO(text.encode()))["y"].to_list() == [1, 2]
