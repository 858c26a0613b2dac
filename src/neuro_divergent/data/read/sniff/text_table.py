"""The rows of a text file or workbook as a table: columns are typed if that is safe, else they stay text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import polars as pl

from neuro_divergent.core.errors import Advice, DataFileError
from neuro_divergent.core.extras import require
from neuro_divergent.data.read.guard import guarded
from neuro_divergent.data.read.sniff.encoding import as_utf8
from neuro_divergent.data.read.sniff.layout import TextLayout, find_header, find_layout, rows_of, without_rules
from neuro_divergent.data.read.sniff.unpack import Source, contents, is_workbook, source_name
from neuro_divergent.data.schema.file_format import FileFormat
from neuro_divergent.data.schema.load_report import Assumption, listing

_ISO = re.compile(r"\s*\d{4}[-/]\d")
_NAMES = {"\t": "a tab", ";": "';'", "|": "'|'", ",": "','"}
_HEADER_SAMPLE = 200
_PADDED = r"^\s+\S|\S\s+$"


class RawTable(NamedTuple):
    """The rows of a file, its format, and the assumptions about it."""

    frame: pl.DataFrame
    file: FileFormat
    assumptions: list[Assumption]
    typed: bool
    """Whether the reader already typed the columns, as a plain comma-separated file allows."""
    usual_point: bool
    """Whether a point is the decimal mark unless cells contradict: if commas separate cells, and in workbooks."""
    as_text: Callable[[], pl.DataFrame]
    """The same table with every column as text."""


def read_text_table(source: Source, given: dict[str, Any]) -> RawTable:
    """The table of a CSV file, compressed or not, or of an .xlsx workbook.

    Args:
        source: a path, or a stream opened in binary mode.
        given: known settings: separator, encoding, header_line, decimal_comma, thousands, sheet.
    """
    name, data = source_name(source), contents(source)
    if is_workbook(data):
        return _from_workbook(data, name, given)
    text, encoding = as_utf8(data, given.get("encoding"), name)
    del data
    _check_not_json(text, name)
    text = without_rules(text)
    layout = find_layout(text, name, separator=given.get("separator"), header_line=given.get("header_line"))
    body = text if layout.begin == 0 and layout.end is None else text[layout.begin : layout.end]
    plain = layout.separator == "," and not given.get("decimal_comma") and not given.get("thousands")
    frame, typed = _read(body, layout, name, typed=plain)
    file = FileFormat(separator=layout.separator, encoding=encoding, header_line=layout.header_line)

    def as_text() -> pl.DataFrame:
        return _tidied(_read(body, layout, name, typed=False)[0])

    return RawTable(_tidied(frame), file, _assumed(file, layout, given), typed, layout.separator == ",", as_text)


def _check_not_json(text: bytes, name: str) -> None:
    if re.match(rb'\s*(?:\[\s*)?\{\s*"', text) is None:
        return
    reader = "read_ndjson" if re.match(rb"\s*\{.*\}\s*(?:\n|$)", text) else "read_json"
    raise DataFileError(
        f"{name} must be a CSV, Parquet or .xlsx file, but got JSON. Convert it with polars: "
        f'pl.{reader}(...).write_parquet("table.parquet").'
    )


def _read(body: bytes, layout: TextLayout, name: str, *, typed: bool) -> tuple[pl.DataFrame, bool]:
    if not body.strip():
        raise DataFileError(f"{name} must have rows, but got only a header.")
    options: dict[str, Any] = {"separator": layout.separator, "has_header": False}
    frame = _typed(body, options) if typed else None
    if frame is None:
        typed = False
        try:
            frame = pl.read_csv(io.BytesIO(body), infer_schema=False, **options)
        except pl.exceptions.PolarsError:
            _check_ragged(body, layout, name)
            with guarded(name, DataFileError):
                raise
    if frame.width != len(layout.names) or frame.to_series(frame.width - 1).null_count():
        _check_ragged(body, layout, name)
    if frame.width < len(layout.names):  # the first lines are empty
        frame = frame.with_columns(
            pl.lit(None, pl.String).alias(f"\0{n}") for n in range(len(layout.names) - frame.width)
        )
    frame.columns = _different(layout.names)
    return frame, typed


def _different(names: Sequence[str]) -> list[str]:
    """The names, with a number for each further column without one."""
    empty = [number for number, name in enumerate(names) if not name]
    return [f"_duplicated_{number}" if number in empty[1:] else name for number, name in enumerate(names)]


def _typed(body: bytes, options: dict[str, Any]) -> pl.DataFrame | None:
    """The table with numbers and ISO dates typed by the reader; None if a later row contradicts the first rows."""
    try:
        first = pl.read_csv(io.BytesIO(body), n_rows=100, try_parse_dates=True, **options)
        texts = _undecided(body, first, options)
        return pl.read_csv(
            io.BytesIO(body), infer_schema_length=10_000, schema_overrides=texts, try_parse_dates=True, **options
        )
    except pl.exceptions.PolarsError:
        return None


def _undecided(body: bytes, first: pl.DataFrame, options: dict[str, Any]) -> dict[str, type[pl.String]]:
    """Columns of dates such as 02/01/2026, and of stamps with an offset, which must be read as text.

    The reader would silently take the day first, and convert the stamps to UTC.
    """
    dates = [name for name, kind in first.schema.items() if kind == pl.Date or isinstance(kind, pl.Datetime)]
    if not dates:
        return {}
    texts = pl.read_csv(io.BytesIO(body), columns=dates, infer_schema=False, n_rows=100, **options)
    return {
        name: pl.String
        for name in dates
        if getattr(first.schema[name], "time_zone", None) is not None
        or not all(_ISO.match(text) for text in texts[name].drop_nulls())
    }


def _check_ragged(body: bytes, layout: TextLayout, name: str) -> None:
    for number, row in enumerate(rows_of(body, layout.separator, name)):
        if row and len(row) != len(layout.names):
            raise DataFileError(
                f"{name} must have {len(layout.names)} cells in every row, but row {number} "
                f"(line {number + layout.first_line}) has {len(row)}. Correct the line."
            )


def _tidied(frame: pl.DataFrame) -> pl.DataFrame:
    """The table without unnamed empty columns, without empty rows, and without spaces around names and cells."""
    names = frame.columns
    spare = [
        name
        for name in names
        if (not name.strip() or name.startswith("_duplicated_")) and frame[name].null_count() == len(frame)
    ]
    frame = frame.drop(spare) if len(spare) < len(names) else frame
    if frame.width and frame.to_series(0).null_count():
        empty = pl.all_horizontal(
            pl.col(name).is_null() | ((pl.col(name).str.strip_chars() == "") if kind == pl.String else False)
            for name, kind in frame.schema.items()
        )
        frame = frame.filter(~empty)
    padded = [
        c.name for c in frame.get_columns() if c.dtype == pl.String and bool(c.head(100).str.contains(_PADDED).any())
    ]
    frame = frame.with_columns(pl.col(padded).str.strip_chars()) if padded else frame
    stripped = [name.strip() for name in frame.columns]
    return frame.rename(dict(zip(frame.columns, stripped, strict=True))) if len({*stripped}) == len(stripped) else frame


def _assumed(file: FileFormat, layout: TextLayout, given: dict[str, Any]) -> list[Assumption]:
    """What differs from a plain comma-separated UTF-8 file and was not given."""
    found = []
    if "separator" not in given and file.separator != ",":
        found.append(Assumption(f"{_NAMES[file.separator]} separates the cells", Advice("data.separator")))
    if "encoding" not in given and file.encoding != "utf-8":
        found.append(Assumption(f"the text is {file.encoding}", Advice("data.encoding")))
    if "header_line" not in given and not file.header_line:
        what = f"the file has no line of column names: they are {listing(layout.names, 3)}"
        found.append(Assumption(what, Advice("data.header_line", layout.first_line)))
    if layout.second_names:
        what = (
            f"line {layout.first_line - 1} has further names or units: {listing(filter(None, layout.second_names), 3)}"
        )
        found.append(Assumption(what, Advice("data.header_line")))
    if "header_line" not in given and file.header_line > 1:
        what = f"line {file.header_line} names the columns, and the lines above it are notes"
        found.append(Assumption(what, Advice("data.header_line")))
    if layout.below:
        found.append(Assumption(f"the lines below the table are notes: {listing(layout.below, 3)}"))
    return found


def _from_workbook(data: bytes, name: str, given: dict[str, Any]) -> RawTable:
    """The sheet that was named of an .xlsx file, or the first with a table; every cell as text, dates in ISO form."""
    fastexcel = require("fastexcel", extra="excel", purpose="Reading an .xlsx file")
    with guarded(name, DataFileError):
        sheets = fastexcel.read_excel(data).sheet_names
    if given.get("sheet"):
        if given["sheet"] not in sheets:
            raise DataFileError(f"{name} must have the sheet {given['sheet']!r}, but has {listing(sheets, 10)}.")
        return _from_sheet(data, name, given["sheet"], given)
    reasons = []
    for sheet in sheets:
        try:
            found = _from_sheet(data, name, sheet, given)
        except DataFileError as error:
            reasons.append(error)
            continue
        if len(sheets) > 1:
            what = f"the table is in the sheet {sheet!r} of {listing(sheets)}"
            found.assumptions.insert(0, Assumption(what, Advice("data.sheet")))
        return found
    raise reasons[0]


def _from_sheet(data: bytes, name: str, sheet: str, given: dict[str, Any]) -> RawTable:
    with guarded(name, DataFileError):
        cells = pl.read_excel(
            io.BytesIO(data),
            sheet_name=sheet,
            has_header=False,
            infer_schema_length=0,
            raise_if_empty=False,
            drop_empty_rows=False,
            drop_empty_cols=False,
        )
    cells = cells.select(pl.all().cast(pl.String))
    if not len(cells):
        raise DataFileError(
            f"{name} must have rows, but its sheet {sheet!r} is empty. Name another with sheet=...",
            advice=[Advice("data.sheet")],
        )
    rows = [[cell or "" for cell in row] for row in cells.head(_HEADER_SAMPLE).rows()]
    said = given.get("header_line")
    if said is not None and not 0 <= said <= len(rows):
        raise DataFileError(f"header_line must be a line of {name}, or 0, but got header_line={said}")
    place = find_header(rows, name, ",", None if said is None else said - 1)
    line, header = 0 if place.header is None else place.header + 1, place.names
    cells = cells[place.first :]
    named = [number for number, cell in enumerate(header) if cell.strip() or cells.to_series(number).drop_nulls().len()]
    frame = cells.select(cells.columns[number] for number in named)
    frame.columns = [header[number] or f"column_{number + 1}" for number in named]
    if not len(frame) or frame.width < 2:
        got = "a single column" if len(frame) else "a header only"
        raise DataFileError(
            f"{name} must have a table of at least two columns, but got {got} in its sheet {sheet!r}. "
            "Name another with sheet=...",
            advice=[Advice("data.sheet")],
        )
    file = FileFormat(header_line=line)
    assumptions = _assumed(file, TextLayout(",", line, place.first + 1, 0, header, place.second), given)
    frame = _tidied(frame.with_columns(_midnights_off(column) for column in frame.get_columns()))
    return RawTable(frame, file, assumptions, False, True, lambda: frame)


def _midnights_off(column: pl.Series) -> pl.Series:
    """Dates without the midnight hour that a workbook adds."""
    midnight = column.str.contains(r"^\d{4}-\d\d-\d\d 00:00:00$")
    dated = column.str.contains(r"^\d{4}-\d\d-\d\d ")
    return column.str.strip_suffix(" 00:00:00") if bool((midnight == dated).all()) else column
