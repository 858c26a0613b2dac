"""Times in several columns or across columns, files without names, names of months. Expected values by hand."""

from __future__ import annotations

import io
from datetime import date, datetime, timedelta
from typing import Any

import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.data.read.sniff.times import decide

HOURS = [datetime(2011, 12, 31) + timedelta(hours=number) for number in range(72)]
MONTHS = [date(2010 + number // 12, number % 12 + 1, 1) for number in range(36)]


def read(text: str | bytes, **options: Any) -> nd.TimeSeriesDataFrame:
    data = text.encode() if isinstance(text, str) else text
    return nd.TimeSeriesDataFrame.from_csv(io.BytesIO(data), dtype="float64", **options)


def lines(head: str, rows: list[str]) -> str:
    return "\n".join([head, *rows] if head else rows) + "\n"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["Sat 31 Dec 2011 13:00", "Sun 1 Jan 2012 13:00"], datetime(2011, 12, 31, 13)),
        (["Saturday, December 31, 2011 1:00 PM"], datetime(2011, 12, 31, 13)),
        (["Dec 31, 2011 1:00 PM"], datetime(2011, 12, 31, 13)),
        (["31-Dec-11", "01-Jan-12"], date(2011, 12, 31)),
        (["Sa. 31.12.2011 13:00"], datetime(2011, 12, 31, 13)),
        (["31. Dezember 2011", "3. März 2012"], date(2011, 12, 31)),
        (["janv. 2011", "févr. 2011", "août 2011"], date(2011, 1, 1)),
        (["31 de diciembre de 2011"], date(2011, 12, 31)),
        (["segunda-feira, 2 de janeiro de 2012"], date(2012, 1, 2)),
        (["gen-11", "ott-11"], date(2011, 1, 1)),
        (["1 mei 2012", "2 mrt 2012"], date(2012, 5, 1)),
        (["31.12.2011 13:00 - 31.12.2011 14:00"], datetime(2011, 12, 31, 13)),
        (["2015-51", "2015-52", "2015-53"], date(2015, 12, 14)),
    ],
)
def test_dates_with_names_spans_and_weeks(cells: list[str], expected: date) -> None:
    found = decide(pl.Series("t", cells))
    assert found is not None
    assert found.values[0] == expected
    assert not found.values.null_count()


def test_a_weekday_says_which_number_is_the_month() -> None:
    """2012-01-03 was a Tuesday; 2012-03-01 a Thursday."""
    found = decide(pl.Series("t", ["mar 03/01/2012", "mer 04/01/2012"]))
    assert found is not None
    assert found.values.to_list() == [date(2012, 1, 3), date(2012, 1, 4)]


def test_weeks_are_not_months() -> None:
    assert read("KW;y\n" + "".join(f"2015-{n:02};{n}\n" for n in range(1, 11))).freq == "1w"  # by its name
    assert read("t;y\n" + "".join(f"2015-{n:02};{n}\n" for n in range(1, 11))).freq == "1mo"
    table = read("t;y\n" + "".join(f"2015-{n:02};{n}\n" for n in range(40, 54)))
    later = io.BytesIO(b"t;y\n2016-01;1\n2016-02;2\n")
    assert nd.TimeSeriesDataFrame.from_csv(later, schema=table.schema).to_polars()["t"][0] == date(2016, 1, 4)


@pytest.mark.parametrize(
    ("text", "freq", "first", "parts"),
    [
        (lines("Year,Month,y", [f"{d.year},{d.month},1.5" for d in MONTHS]), "1mo", date(2010, 1, 1), "Year Month"),
        (lines("Monat;Jahr;y", [f"{d.month:02};{d.year};1,5" for d in MONTHS]), "1mo", date(2010, 1, 1), "Jahr Monat"),
        (lines("year,month,y", [f"{d.year},{d:%B},1.5" for d in MONTHS]), "1mo", date(2010, 1, 1), "year month"),
        (
            lines("Jahr;Quartal;y", [f"{2010 + n // 4};Q{n % 4 + 1};{n}" for n in range(20)]),
            "1q",
            date(2010, 1, 1),
            "Jahr Quartal",
        ),
        (
            lines("Jahr;KW;y", [f"2015;{n};{n}" for n in range(1, 54)] + ["2016;1;0"]),
            "1w",
            date(2014, 12, 29),
            "Jahr KW",
        ),
        (
            lines("Date,Hour,y", [f"{d:%m/%d/%Y},{d.hour},1.5" for d in HOURS]),
            "1h",
            datetime(2011, 12, 31),
            "Date Hour",
        ),
        (
            lines("Date,Time,y", [f"{d:%Y-%m-%d},{d:%I:%M %p},1.5" for d in HOURS]),
            "1h",
            datetime(2011, 12, 31),
            "Date Time",
        ),
        (
            lines("Day;HE;y", [f"{d:%Y%m%d};{d.hour + 1:02};1.5" for d in HOURS]),
            "1h",
            datetime(2011, 12, 31),
            "Day HE",
        ),
        (
            lines("year,month,day,hour,y", [f"{d.year},{d.month},{d.day},{d.hour},1.5" for d in HOURS]),
            "1h",
            datetime(2011, 12, 31),
            "year month day hour",
        ),
        (
            lines("Datum;Anfang;Ende;y", [f"{d:%d.%m.%Y};{d:%H:%M};{d.hour + 1:02}:00;1,5" for d in HOURS]),
            "1h",
            datetime(2011, 12, 31),
            "Datum Anfang",
        ),
    ],
)
def test_columns_form_a_time_together(text: str, freq: str, first: date, parts: str) -> None:
    table = read(text)
    assert (table.freq, table.to_polars()["ds"][0], table.report().gap_rows) == (freq, first, 0)
    assert table.schema.time_parts == tuple(parts.split())
    assert "together are the time" in str(table.report())
    again = nd.TimeSeriesDataFrame.from_csv(io.BytesIO(text.encode()), schema=table.schema)
    assert again.fingerprint == table.fingerprint


def test_columns_that_repeat_the_date_are_not_joined() -> None:
    days = [date(2020, 1, 1) + timedelta(days=n) for n in range(40)]
    table = read(lines("date,year,month,y", [f"{d},{d.year},{d.month},{d.day}" for d in days]), target_col="y")
    assert (table.schema.time_col, table.schema.time_parts) == ("date", ())
    stamps = read(lines("stamp,hour,y", [f"{h},{h.hour},1.5" for h in HOURS]))
    assert (stamps.schema.time_col, stamps.schema.target_col) == ("stamp", "y")


def test_the_columns_of_a_time_can_be_said() -> None:
    text = lines("a,b,y", [f"{d.year},{d.month},{n}.5" for n, d in enumerate(MONTHS)])
    table = read(text, time_col=["a", "b"])
    assert table.to_polars()["ds"].to_list() == MONTHS
    frame = pl.read_csv(io.StringIO(text))
    for data in (frame, frame.to_pandas()):
        assert nd.TimeSeriesDataFrame.from_frame(data, time_col=["a", "b"]).freq == "1mo"
    years = read(lines("Year,Month,y", [f"{2000 + n},{n % 12 + 1},{n}" for n in range(20)]), time_col="Year")
    assert years.freq == "1i"


def test_a_model_reads_new_rows_with_the_same_columns() -> None:
    frame = pl.DataFrame({"Year": [d.year for d in MONTHS], "Month": [d.month for d in MONTHS], "y": range(36)})
    data = nd.TimeSeriesDataFrame.from_frame(frame.head(30), time_col=["Year", "Month"])
    fitted = nd.DLinear(h=2, input_size=4).fit(data, nd.TrainingConfig(max_steps=1))
    assert fitted.predict(frame)["ds"].to_list() == [date(2013, 1, 1), date(2013, 2, 1)]


def test_columns_of_a_time_in_parquet_are_found(tmp_path) -> None:
    frame = pl.DataFrame({"Year": [d.year for d in MONTHS], "Month": [d.month for d in MONTHS], "y": range(36)})
    frame.write_parquet(tmp_path / "t.parquet")
    assert nd.TimeSeriesDataFrame.from_parquet(tmp_path / "t.parquet").to_polars()["ds"].to_list() == MONTHS


def test_an_impossible_part_is_named() -> None:
    rows = [f"{d.year},{d.month},1" for d in MONTHS]
    with pytest.raises(nd.DataError, match=r"column 'Month' must hold the month .* but got '13' at row 7"):
        read(lines("Year,Month,y", [*rows[:7], "2010,13,1", *rows[8:]]), time_col=["Year", "Month"])
    with pytest.raises(nd.DataError, match=r"form a time in every row, but got '2011', '2', '30' at row 1"):
        read("year,month,day,y\n2011,2,28,1\n2011,2,30,2\n2011,3,1,3\n", time_col=["year", "month", "day"])
    with pytest.raises(nd.ConfigError, match="list of different columns"):
        read(lines("Year,Month,y", rows), time_col=["Year", "Year"])


def test_an_ambiguous_date_beside_hours_is_asked_about() -> None:
    rows = [f"{day:02}/{month:02}/2020,{hour},1.5" for month in (1, 2) for day in (1, 2) for hour in range(24)]
    with pytest.raises(nd.DataError, match=r"time_format='%d/%m/%Y' or .* with time_format='%m/%d/%Y'"):
        read(lines("date,hour,y", rows))
    assert read(lines("date,hour,y", rows), time_format="%d/%m/%Y", gaps="mask").to_polars()["ds"][24] == datetime(
        2020, 1, 2
    )


def test_the_first_hour_is_remembered() -> None:
    text = lines("date,hour,y", [f"{d:%Y-%m-%d},{d.hour + 1},1.5" for d in HOURS])
    table = read(text)
    assert "hour 1 begins at 00:00" in str(table.report())
    part = lines("date,hour,y", [f"2012-01-03,{hour},1.5" for hour in range(5, 11)])  # alone it decides nothing
    later = nd.TimeSeriesDataFrame.from_csv(io.BytesIO(part.encode()), schema=table.schema)
    assert later.to_polars()["ds"][0] == datetime(2012, 1, 3, 4)


def test_hours_across_are_the_time() -> None:
    """The layout of GEFCom2012: hour 1 is the first one of a day."""
    head = "zone_id,year,month,day," + ",".join(f"h{n}" for n in range(1, 25))
    rows = [f"{z},2004,1,{day}," + ",".join(str(100 * day + n) for n in range(1, 25)) for z in (1, 2) for day in (1, 2)]
    table = read(lines(head, rows))
    assert (table.n_series, table.freq, table.schema.id_col) == (2, "1h", "zone_id")
    first = table.to_polars().filter(pl.col("zone_id") == 1)
    assert first["ds"].to_list() == [datetime(2004, 1, 1) + timedelta(hours=n) for n in range(48)]
    assert first["y"].to_list() == [100.0 * day + n for day in (1, 2) for n in range(1, 25)]
    assert "are the hours of the day" in str(table.report())


def test_days_months_quarters_and_years_across_are_the_time() -> None:
    days = "Jahr;Monat;" + ";".join(f"d{n}" for n in range(1, 32))
    rows = [
        f"2011;{month};" + ";".join(str(n) if n <= last else "" for n in range(1, 32))
        for month, last in (("Januar", 31), ("Februar", 28), ("März", 31))
    ]
    table = read(lines(days, rows))
    assert table.to_polars()["ds"].to_list() == [date(2011, 1, 1) + timedelta(days=n) for n in range(90)]
    with pytest.raises(nd.DataError, match="column 'd29' must be empty in months without that day"):
        read(lines(days, [rows[0], "2011;Februar;" + ";".join(map(str, range(1, 31))) + ";"]))
    spanish = "Año\tEne\tFeb\tMar\tAbr\tMay\tJun\tJul\tAgo\tSep\tOct\tNov\tDic\tTotal"
    months = read(lines(spanish, [f"{y}\t" + "\t".join(map(str, range(1, 13))) + "\t78" for y in (2010, 2011)]))
    assert months.to_polars()["y"].to_list() == [*range(1, 13)] * 2
    assert months.freq == "1mo"
    turned = lines("Month,2010,2011,2012", [f"{m},{m},{100 + m},{200 + m}" for m in range(1, 13)])
    assert read(turned).to_polars()["y"].to_list() == [100.0 * y + m for y in range(3) for m in range(1, 13)]
    quarters = lines("Region|Year|Q1|Q2|Q3|Q4", [f"{r}|{y}|1|2|3|4" for r in "ab" for y in (2010, 2011)])
    assert (read(quarters).n_series, read(quarters).freq) == (2, "1q")


def test_columns_that_only_look_like_hours_stay_columns() -> None:
    rows = [f"2004,1,{day}," + ",".join("1" for _ in range(24)) for day in range(1, 9)]
    table = read(lines("year,month,day," + ",".join(f"zone{n}" for n in range(1, 25)), rows))
    assert (table.n_series, table.freq, table.schema.wide) == (24, "1d", True)
    said = read(lines("year,month,day," + ",".join(f"h{n}" for n in range(1, 25)), rows), wide=True)
    assert (said.n_series, said.freq) == (24, "1d")


def test_a_file_without_names_gets_numbered_columns() -> None:
    rows = [f"2017-07-01T{n:02}:00:00Z\tBTC\t{'NULL' if n % 10 == 0 else n}" for n in range(24)]
    table = read(lines("", rows))
    assert len(table) == 24  # the first row is a row, also with an empty value
    assert (table.schema.time_col, table.schema.target_col) == ("column_1", "column_3")
    assert table.schema.file is not None
    assert table.schema.file.header_line == 0
    assert "no line of column names" in str(table.report())
    assert "header_line=1" in str(table.report())
    with pytest.raises(nd.DataError, match="several: 'column_2', 'column_3'"):
        read(lines("", [f"2020-01-{n:02},{n},{2 * n}" for n in range(1, 20)]))
    joined = read(lines("", [f"{d.year},{d.month},{n}.5" for n, d in enumerate(MONTHS)]))
    assert joined.to_polars()["ds"].to_list() == MONTHS
    counts = read("5,6\n6,7\n7,8\n", header_line=0, time_col="column_1", target_col="column_2")
    assert counts.to_polars()["column_2"].to_list() == [6.0, 7.0, 8.0]


def test_a_first_line_that_may_be_both_is_asked_about() -> None:
    text = "Nord;2011\nSüd;7\nWest;9\n"
    with pytest.raises(nd.DataError, match="may be a row as well") as caught:
        read(text)
    assert [advice.value for advice in caught.value.advice] == [1, 0]


@pytest.mark.parametrize(
    "head",
    ["region;2020-01;2020-02;2020-03;2020-04", "region;2010;2011;2012;2013", "region;Jan-20;Feb-20;Mar-20;Apr-20"],
)
def test_times_as_names_are_names(head: str) -> None:
    table = read(lines(head, ["a;1;2;3;4", "b;5;6;7;8"]))
    assert (table.n_series, len(table)) == (2, 8)


def test_two_lines_of_names() -> None:
    units = read("Datum;Last\n;[MW]\n" + "".join(f"2020-01-{n:02};{n}\n" for n in range(1, 20)))
    assert units.to_polars()["Last"].to_list() == [*range(1, 20)]
    assert "'[MW]'" in str(units.report())
    groups = ";Nord;;Süd;\nDatum;Last;Temp;Last;Temp\n" + "".join(f"2020-01-{n:02};{n};1;2;3\n" for n in range(1, 20))
    assert read(groups, target_col="Nord Last").to_polars()["Nord Last"][4] == 5.0


def test_a_list_with_drawn_lines() -> None:
    rows = [f"|1000 |{d:%d.%m.%Y}| {n},5 |" for n, d in enumerate(HOURS[::24])]
    text = lines("Report", ["", "-" * 30, "|Plant|Pstng Date|Quantity|", "-" * 30, *rows, "-" * 30])
    assert read(text).to_polars()["Quantity"].to_list() == [0.5, 1.5, 2.5]


def test_days_as_workbooks_count_them() -> None:
    """40908 is 2011-12-31 in a workbook."""
    rows = [f"{40908 + n / 24:.6f};{n}" for n in range(30)]
    table = read(lines("Datum;Menge", rows))
    assert (table.freq, table.to_polars()["Datum"][13]) == ("1h", datetime(2011, 12, 31, 13))
    whole = read(lines("Datum;Menge", [f"{40908 + n};{n}" for n in range(30)]))
    assert (whole.freq, whole.to_polars()["Datum"][0]) == ("1d", date(2011, 12, 31))
    assert read(lines("Datum;Menge", [f"{40908 + n};{n}" for n in range(30)]), freq="1i").freq == "1i"
    assert read(lines("step;Menge", [f"{40908 + n};{n}" for n in range(30)]), time_col="step").freq == "1i"


def test_last_sums_below_years_and_months_are_left_out() -> None:
    rows = [f"Paris,{d:%B},{d.year},{n}" for n, d in enumerate(MONTHS)]
    table = read(lines("Store,Month,Year,Units", [*rows, "Total,,,630"]))
    assert len(table) == 36
    assert "the last row is no row of the table: 'Total'" in str(table.report())


def test_percentages_below_zero() -> None:
    table = read("ds;y\n1;(1,88) %\n2;3,5 %\n")
    assert table.to_polars()["y"].to_list() == [-1.88, 3.5]


def test_row_numbers_are_no_target() -> None:
    text = lines(",date,sold", [f"{n},{d},{n * 2}" for n, d in enumerate(MONTHS)])
    assert read(text).schema.target_col == "sold"


@pytest.mark.parametrize("mark", [".", "-", "/"])
def test_the_day_before_a_short_year_is_no_year(mark: str) -> None:
    """30.04.18 is a day in 2018, and not the 18th of April of the year 30."""
    rows = [f"{time.strftime(f'%d{mark}%m{mark}%y %H:%M')};{number}" for number, time in enumerate(HOURS)]
    found = read(lines("Zeitpunkt;Wert", rows)).to_polars()
    assert found["Zeitpunkt"].to_list() == HOURS
    assert (
        nd.TimeSeriesDataFrame.from_frame({"ds": [row.split(";")[0] for row in rows], "y": [1.0, 2.0] * 36})
        .to_polars()["ds"]
        .to_list()
        == HOURS
    )


@pytest.mark.parametrize("form", ["%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%d/%m/%Y %H.%M"])
def test_the_hour_24_is_the_midnight_after_a_day(form: str) -> None:
    """Rows that are stamped with their end: the last one of 31 December has 24:00 of that day."""
    ends = [time + timedelta(hours=1) for time in HOURS]
    cells = [
        (end - timedelta(days=1)).strftime(form.replace("%H", "24")) if end.hour == 0 else end.strftime(form)
        for end in ends
    ]
    rows = [f"{cell};{number}" for number, cell in enumerate(cells)]
    assert sum("24:00" in cell or "24.00" in cell for cell in cells) == 3
    assert read(lines("Zeit;Last", rows)).to_polars()["Zeit"].to_list() == ends


def test_other_minutes_of_hour_24_are_refused() -> None:
    with pytest.raises(nd.DataError, match="24:30"):
        read(lines("ds;y", ["2012-01-01 23:30;1", "2012-01-01 24:30;2", "2012-01-02 01:30;3"]))


def periods(first: date, days: int, odd: dict[date, int]) -> str:
    each = [first + timedelta(days=number) for number in range(days)]
    rows = [f"{day:%d-%b-%Y},{number},{number}" for day in each for number in range(1, odd.get(day, 48) + 1)]
    return lines("Settlement Date,Settlement Period,Demand", rows)


def test_settlement_periods_are_half_hours() -> None:
    found = read(periods(date(2012, 2, 1), 3, {}))
    assert found.freq == "30m"
    assert found.to_polars()["ds"][0] == datetime(2012, 2, 1)
    assert found.to_polars()["ds"][-1] == datetime(2012, 2, 3, 23, 30)


@pytest.mark.parametrize(
    ("change", "count", "row", "utc"),
    [
        (date(2012, 3, 25), 46, 48 + 2, datetime(2012, 3, 25, 1)),  # period 3 begins at 02:00 of summer time
        (date(2012, 10, 28), 50, 48 + 49, datetime(2012, 10, 28, 23, 30)),  # period 50 begins at 23:30 of winter time
    ],
)
def test_settlement_periods_count_through_a_change_of_the_clock(
    change: date, count: int, row: int, utc: datetime
) -> None:
    text = periods(change - timedelta(days=1), 3, {change: count})
    with pytest.raises(
        nd.DataError, match=rf"got {count} on {change}. If the clock changed on that day, say time_zone"
    ):
        read(text)
    frame = pl.read_csv(text.encode())
    for found in (
        read(text, time_zone="Europe/London"),
        nd.TimeSeriesDataFrame.from_frame(
            frame,
            time_col=["Settlement Date", "Settlement Period"],
            target_col="Demand",
            time_zone="Europe/London",
        ),
    ):
        times = found.to_polars()["ds"].dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        assert len(times) == 96 + count
        assert times[row] == utc
        assert (times.diff().drop_nulls() == timedelta(minutes=30)).all()


def test_the_target_and_the_time_zone_are_asked_for_together() -> None:
    text = periods(date(2012, 3, 24), 3, {date(2012, 3, 25): 46}).replace("\n", ",1.5\n").replace("Demand,1.5", "A,B")
    with pytest.raises(nd.DataError, match="2 answers") as caught:
        read(text)
    assert {"data.time_zone", "data.target_col"} <= {advice.field for advice in caught.value.advice}
