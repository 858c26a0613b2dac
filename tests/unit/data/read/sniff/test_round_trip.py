"""A known table written in random combinations of styles is read back with the same values."""

from __future__ import annotations

import bz2
import gzip
import io
import zipfile
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuro_divergent as nd

DAILY = ["%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%Y%m%d", "%d %b %Y", "%b %d, %Y", "%d-%b-%y"]
HOURLY = [
    "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p", "%d/%m/%Y %H:%M:%S", "epoch:s",
    "epoch:ms", "epoch:us", "epoch:ns",
]  # fmt: skip
MONTHLY = ["%Y-%m", "%b %Y", "%B %Y", "%m/%Y", "%Y%m", "%b-%y", "%YM%m"]
UNITS = {"epoch:s": 1, "epoch:ms": 10**3, "epoch:us": 10**6, "epoch:ns": 10**9}


@dataclass(frozen=True)
class Style:
    separator: str
    decimal: str
    thousands: str
    form: str
    encoding: str
    title: bool
    footer: bool
    packing: str


@st.composite
def styles(draw: st.DrawFn) -> Style:
    decimal = draw(st.sampled_from([".", ","]))
    thousands = draw(st.sampled_from([mark for mark in ("", ",", ".", " ", "'") if mark != decimal]))
    return Style(
        separator=draw(st.sampled_from([",", ";", "\t", "|"])),
        decimal=decimal,
        thousands=thousands,
        form=draw(st.sampled_from([*DAILY, *HOURLY, *MONTHLY, "quarter", "week", "year"])),
        encoding=draw(st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "utf-16"])),
        title=draw(st.booleans()),
        footer=draw(st.booleans()),
        packing=draw(st.sampled_from(["", "gzip", "zip"])),
    )


def stamps_of(form: str, count: int) -> list[date | datetime | int]:
    if form == "year":
        return [1950 + number for number in range(count)]
    if form in MONTHLY:
        return [date(2015 + number // 12, number % 12 + 1, 1) for number in range(count)]
    if form == "quarter":
        return [date(1998 + number // 4, 3 * (number % 4) + 1, 1) for number in range(count)]
    if form == "week":
        return [date(2020, 1, 6) + timedelta(weeks=number) for number in range(count)]
    if form in HOURLY:
        return [datetime(2023, 12, 30, 5) + timedelta(hours=number) for number in range(count)]
    return [date(2023, 12, 20) + timedelta(days=number) for number in range(count)]


def written_stamp(stamp: date | datetime | int, form: str) -> str:
    if isinstance(stamp, int):
        return str(stamp)
    if form == "quarter":
        return f"{stamp.year} Q{(stamp.month + 2) // 3}"
    if form == "week":
        year, week, _ = stamp.isocalendar()
        return f"{year}-W{week:02}"
    if form in UNITS:
        seconds = int((stamp - datetime(1970, 1, 1)).total_seconds())  # type: ignore[operator]
        return str(seconds * UNITS[form])
    return stamp.strftime(form)


def written_number(value: float, style: Style) -> str:
    plain = f"{value:,.2f}"
    text = plain.replace(",", "\0").replace(".", style.decimal).replace("\0", style.thousands)
    return f'"{text}"' if style.separator in text else text


def written(series: dict[str, list[float]], style: Style) -> bytes:
    one = style.separator
    lines = [f"Umsätze der Filialen{one}{one}", ""] if style.title else []
    lines.append(one.join(["Filiale", "Datum", "Umsatz"]))
    for name, values in series.items():
        for stamp, value in zip(stamps_of(style.form, len(values)), values, strict=True):
            cell = written_stamp(stamp, style.form)
            lines.append(one.join([name, f'"{cell}"' if one in cell else cell, written_number(value, style)]))
    if style.footer:
        lines += ["", "Quelle: Zürich"]
    return packed("\r\n".join(lines).encode(style.encoding), style.packing)


def packed(data: bytes, packing: str) -> bytes:
    if packing == "gzip":
        return gzip.compress(data, mtime=0)
    if packing == "zip":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("table.csv", data)
        return out.getvalue()
    return data


@settings(max_examples=60, deadline=None)
@given(style=styles(), names=st.sampled_from([["Zürich"], ["Zürich", "Genf"]]), seed=st.integers(0, 10**6))
def test_a_table_in_any_style_is_read_back(style: Style, names: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    series = {name: (random.integers(-2_000_000, 2_000_000, 50) / 100).tolist() for name in names}
    read = nd.TimeSeriesDataFrame.from_csv(io.BytesIO(written(series, style)), id_col="Filiale", dtype="float64")
    found = read.to_polars()
    assert (read.schema.time_col, read.schema.target_col) == ("Datum", "Umsatz")
    for name, values in series.items():
        rows = found.filter(pl.col("Filiale") == name)
        assert rows["Umsatz"].to_list() == values
        assert rows["Datum"].to_list() == stamps_of(style.form, 50)


def test_a_zstandard_file_is_read(tmp_path) -> None:
    table = pl.DataFrame({"ds": range(30), "note": ['say "x"'] * 30, "y": [float(n) for n in range(30)]})
    table.write_csv(tmp_path / "t.csv.zst", compression="zstd")
    assert nd.TimeSeriesDataFrame.from_csv(tmp_path / "t.csv.zst").to_polars()["y"].to_list() == table["y"].to_list()


def test_another_compression_is_no_table() -> None:
    with pytest.raises(nd.DataError):
        nd.TimeSeriesDataFrame.from_csv(io.BytesIO(bz2.compress(b"ds,y\n1,2\n2,3\n")))
