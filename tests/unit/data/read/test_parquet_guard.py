"""Damaged page headers are refused before the reader trusts them (it would end the process)."""

from __future__ import annotations

import struct
from pathlib import Path

import polars as pl
import pytest

from neuro_divergent.core.errors import DataFileError
from neuro_divergent.data.read.parquet_guard import check_pages
from neuro_divergent.data.table import TimeSeriesDataFrame

TABLE = pl.DataFrame({"unique_id": ["a"] * 40, "ds": range(40), "y": [float(step) for step in range(40)]})


def varint(number: int) -> bytes:
    """The zigzag variable-length form of the compact protocol, written from its specification."""
    value = (number << 1) ^ (number >> 63)
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def page_header(values: int, size: int) -> bytes:
    """Fields 1 (type 0), 2 and 3 (sizes), 5 {1: values, 2, 3, 4: encodings}, as the Parquet specification says."""
    inner = b"\x15" + varint(values) + b"\x15" + varint(0) + b"\x15" + varint(3) + b"\x15" + varint(3) + b"\0"
    return b"\x15" + varint(0) + b"\x15" + varint(size) + b"\x15" + varint(size) + b"\x2c" + inner + b"\0"


def footer(start: int, size: int, values: int) -> bytes:
    """Field 4: one row group, whose field 1 is one column, whose field 3 has values (5), size (7) and offset (9)."""
    facts = b"\x56" + varint(values) + b"\x26" + varint(size) + b"\x26" + varint(start) + b"\0"
    column = b"\x3c" + facts + b"\0"
    group = b"\x19\x1c" + column + b"\0"
    return b"\x49\x1c" + group + b"\0"


def file_with(path: Path, values: int, size: int = 4) -> Path:
    page = page_header(values, size) + b"abcd"
    foot = footer(4, len(page), 40)
    path.write_bytes(b"PAR1" + page + foot + struct.pack("<I", len(foot)) + b"PAR1")
    return path


def test_a_sound_header_passes(tmp_path: Path) -> None:
    check_pages(file_with(tmp_path / "f.parquet", 40))


@pytest.mark.parametrize(
    ("values", "size", "named"), [(-3, 4, "-3 values"), (40, -7, "-7 bytes"), (40, 999, "999 bytes")]
)
def test_impossible_numbers_are_named(tmp_path: Path, values: int, size: int, named: str) -> None:
    with pytest.raises(DataFileError, match=named):
        TimeSeriesDataFrame.from_parquet(file_with(tmp_path / "f.parquet", values, size))


@pytest.mark.parametrize("compression", ["zstd", "snappy", "uncompressed", "lz4", "gzip"])
@pytest.mark.parametrize("size", [None, 7])
def test_what_polars_and_pyarrow_write_passes(tmp_path: Path, compression: str, size: int | None) -> None:
    import pyarrow.parquet

    TABLE.write_parquet(tmp_path / "polars.parquet", compression=compression, row_group_size=size)
    pyarrow.parquet.write_table(
        TABLE.to_arrow(), tmp_path / "arrow.parquet", data_page_size=64, row_group_size=size or 40
    )
    for name in ("polars", "arrow"):
        assert TimeSeriesDataFrame.from_parquet(tmp_path / f"{name}.parquet").store.y.sum() == sum(range(40))


def test_what_is_no_parquet_is_left_to_the_reader(tmp_path: Path) -> None:
    for content in (b"", b"PAR1", b"PAR1" + b"\xff" * 40 + b"PAR1", b"text" * 10):
        (tmp_path / "f.parquet").write_bytes(content)
        check_pages(tmp_path / "f.parquet")
