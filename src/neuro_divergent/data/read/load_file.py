"""Reads an unknown file as a table. What is not given is inferred from the file and listed as an assumption."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
import polars.selectors as cs

from neuro_divergent.core.errors import Advice, ConfigError, DataError
from neuro_divergent.data.read.columns import numbers_from_text
from neuro_divergent.data.read.sniff import marks as number_marks
from neuro_divergent.data.read.sniff import times as time_forms
from neuro_divergent.data.read.sniff.across import left_out, series_in_rows
from neuro_divergent.data.read.sniff.marks import Marks
from neuro_divergent.data.read.sniff.parts import named_kinds
from neuro_divergent.data.read.sniff.roles import Roles, find_roles, with_time_parts
from neuro_divergent.data.read.sniff.text_table import RawTable, read_text_table
from neuro_divergent.data.read.sniff.unpack import Source
from neuro_divergent.data.read.sniff.words import MONTHS, MOST_WORDS, plain
from neuro_divergent.data.schema.file_format import FileFormat
from neuro_divergent.data.schema.load_report import Assumption, DataReport, listing

FILE_FIELDS = ("separator", "encoding", "decimal_comma", "thousands", "header_line", "sheet")
"""Arguments about the file format; all others are about the columns."""
_ROLE_ROWS = 200_000
"""Number of rows of a Parquet file from which the roles of its columns are inferred."""
_POINT_DATE = r"^\d{1,2}\.\d{1,2}\.\d{2,4}$"
_OFFSET = r":[\d.]+\s?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$"


class LoadedFile(NamedTuple):
    """A table whose numbers and times are parsed."""

    frame: pl.DataFrame
    file: FileFormat
    roles: dict[str, Any]
    """The inferred roles of columns, under the field names of `DataSchema`."""
    assumptions: list[Assumption]


def load_file(
    source: Source, given: Mapping[str, Any], asked: Mapping[str, Any], known: FileFormat | None = None
) -> LoadedFile:
    """Read a text file or workbook. One error lists every question that stays open.

    Args:
        source: a path, or a stream opened in binary mode.
        given: the file format, as far as it was given; the names are `FILE_FIELDS`.
        asked: the roles of columns that were given, under the field names of `DataSchema`.
        known: the format of an earlier file. It decides if this file leaves a choice.
    """
    said = {name: value for name, value in given.items() if value is not None}
    if said.get("decimal_comma") and said.get("thousands") == ",":
        raise ConfigError("a comma has one meaning, but got decimal_comma=True and thousands=','. Give one of them.")
    asked = with_time_parts(asked)
    raw = read_text_table(source, said)
    if asked.get("time_parts") and asked["time_col"] in raw.frame.columns:
        raise ConfigError(
            f"columns that form the time are joined to the column {asked['time_col']!r}, but the file has one already. "
            "Name that one, or rename it."
        )
    raw, sums = _without_last_sums(raw)
    problems: list[DataError] = []
    wrong: dict[str, DataError] = {}
    marks_open = False
    try:
        frame, marks = _numbers(raw, said, asked, known, wrong)
    except DataError as error:
        problems.append(error)
        frame, marks, marks_open = raw.frame, Marks(".", ""), True
    assumptions = [*raw.assumptions, *sums]
    if marks != Marks(".", "") and not {"decimal_comma", "thousands"} & said.keys():
        otherwise = Advice("data.decimal_comma", marks.decimal != ",")
        assumptions.append(Assumption(f"numbers are written so that {marks.described()}", otherwise))
    assumptions += _signs(raw.frame, frame)
    frame = series_in_rows(_with_open_numbers(frame, asked) if marks_open else frame, asked, assumptions)
    roles = find_roles(frame, asked, known)
    problems += roles.problems
    assumptions += roles.assumptions
    asked = {**asked, **roles.fields}
    time = str(asked.get("time_col", "ds"))
    form, hour = None, 0
    if roles.joined is not None:
        frame = frame.with_columns(roles.joined.values.alias(time))
        form, hour = roles.joined.form, roles.joined.first_hour
        if asked.get("wide"):
            frame = frame.drop(asked["time_parts"])
    elif time in frame.columns:
        try:
            frame, form = _times(frame, time, asked, known, assumptions)
        except DataError as error:
            problems.append(error)
    numbers = _number_columns(frame, asked)
    problems += [wrong[name] for name in numbers if name in wrong]
    others = [] if marks_open else _bad_numbers(frame, [name for name in numbers if name not in wrong])
    if problems or len(others) > 1:  # for a single wrong number, a later check also names the series
        raise_all([*problems, *others])
    file = raw.file.replace(decimal=marks.decimal, thousands=marks.thousands, time_format=form, first_hour=hour)
    return LoadedFile(frame, file, roles.fields, assumptions)


def assumed_roles(lazy: pl.LazyFrame, asked: Mapping[str, Any]) -> Roles:
    """The roles of the columns of a Parquet file that were not given, inferred from its first rows."""
    columns = lazy.collect_schema().names()
    asked = with_time_parts(asked)
    usual = {"time_col": "ds", "target_col": "y"}
    if all(role in asked or name in columns for role, name in usual.items()):
        return Roles()
    first = lazy.head(_ROLE_ROWS).with_columns((cs.categorical() | cs.enum()).cast(pl.String))
    return find_roles(first.collect(), asked)


def _without_last_sums(raw: RawTable) -> tuple[RawTable, list[Assumption]]:
    """The table without last rows that have a word or nothing where all other rows have a year, a month or a day."""
    for column in raw.frame.get_columns():
        if not {*named_kinds(column.name)} - {"clock", "hour"}:
            continue
        tail = column.tail(time_forms.MOST_BELOW)
        values = [bool(re.search(r"\d", str(cell))) or plain(str(cell)) in MONTHS for cell in tail]
        notes = next((number for number, value in enumerate(reversed(values)) if value), len(values))
        if not notes or notes > len(column) // 2 or notes == len(values):
            continue
        before = column.head(len(column) - notes)
        if before.null_count() or (column.dtype == pl.String and _has_words(before)):
            continue
        return _first_rows(raw, len(before)), [left_out(raw.frame, notes)]
    return raw, []


def _first_rows(raw: RawTable, count: int) -> RawTable:
    return raw._replace(frame=raw.frame.head(count), as_text=lambda: raw.as_text().head(count))


def _has_words(column: pl.Series) -> bool:
    """Whether a cell has neither a digit nor the name of a month."""
    words = column.filter(~column.str.contains(r"\d")).unique()
    return len(words) > MOST_WORDS or any(plain(word) not in MONTHS for word in words.to_list())


def _numbers(
    raw: RawTable, said: dict[str, Any], asked: Mapping[str, Any], known: FileFormat | None, wrong: dict[str, DataError]
) -> tuple[pl.DataFrame, Marks]:
    """The table with its number columns parsed, and the marks in them.

    `wrong` gets an error for each column with a cell that is not such a number; that column stays text.
    """
    apart = _apart(asked)
    votes = _number_texts(raw.frame, apart)
    odd = [column for column in votes if not number_marks.is_plain(column)]
    if raw.typed and not odd:
        return raw.frame, Marks(".", "")
    frame = raw.as_text() if raw.typed else raw.frame  # a column that is already typed may be evidence, too
    votes = _number_texts(frame, apart) if raw.typed else votes
    decimal, thousands = _marks_said(said)
    marks = Marks(decimal or ".", thousands or "")
    if odd or decimal or thousands:
        earlier = None if known is None else Marks(known.decimal, known.thousands)
        marks = number_marks.decide(
            votes, decimal=decimal, thousands=thousands, known=earlier, usual_point=raw.usual_point
        )
    changed = []
    for column in frame.get_columns():
        if any(column.name == vote.name for vote in votes):
            plain, row = number_marks.converted(column, marks)
            if row is None:
                changed.append(number_marks.typed(plain))
            elif marks != Marks(".", ""):  # the usual check finds the others
                wrong[column.name] = _not_a_number(column, row, marks)
        elif column.dtype == pl.String and column.name != asked.get("time_col", "ds"):
            changed.append(number_marks.typed(column))
    return frame.with_columns(changed), marks


def _number_texts(frame: pl.DataFrame, apart: set[str]) -> list[pl.Series]:
    """The text columns whose cells are numbers with any marks."""
    texts = [column for column in frame.get_columns() if column.dtype == pl.String and column.name not in apart]
    return [column for column in texts if number_marks.looks_numeric(column) and not _dates_with_points(column)]


def _with_open_numbers(frame: pl.DataFrame, asked: Mapping[str, Any]) -> pl.DataFrame:
    """The table with zeros where the marks are not decided: enough to find the roles."""
    numbers = _number_texts(frame, _apart(asked))
    plain = [number_marks.typed(column) for column in numbers if number_marks.is_plain(column)]
    open_ones = [column.name for column in numbers if not number_marks.is_plain(column)]
    return frame.with_columns(*plain, *(pl.lit(0.0).alias(name) for name in open_ones))


def _apart(asked: Mapping[str, Any]) -> set[str]:
    """The columns that hold no numbers, as far as that was said."""
    ids = asked.get("id_col", ("unique_id",))
    return {str(asked.get("time_col", "ds")), *([ids] if isinstance(ids, str) else ids)}


def _not_a_number(column: pl.Series, row: int, marks: Marks) -> DataError:
    return DataError(
        f"column {column.name!r} must hold numbers written so that {marks.described()}, but got "
        f"{str(column[row])[:60]!r} at row {row}. "
        "Correct the cell; if the column holds names, say categorical=... instead.",
        advice=[Advice("data.categorical", column.name)],
    )


def _signs(texts: pl.DataFrame, frame: pl.DataFrame) -> list[Assumption]:
    """Assumptions about the signs that were removed around numbers."""
    found = []
    for column in texts.get_columns():
        if column.dtype == pl.String and frame.schema[column.name].is_numeric():
            signs = column.str.extract(r"([%$€£¥]|EUR|USD|CHF|GBP)", 1).drop_nulls().unique().sort().to_list()
            if signs:
                what = f"the signs {listing(signs)} in column {column.name!r} are ignored"
                found.append(Assumption(f"{what}: {column.drop_nulls()[0]!r} is {frame[column.name].drop_nulls()[0]}"))
            if bool(column.str.contains(r"^\s*\(.*\)\s*%?$|\d-\s*$").any()):
                found.append(Assumption(f"numbers like (5) or 5- in column {column.name!r} are negative"))
    return found


def _marks_said(said: Mapping[str, Any]) -> tuple[str | None, str | None]:
    thousands = said.get("thousands")
    if "decimal_comma" in said:
        return "," if said["decimal_comma"] else ".", thousands
    return {",": ".", ".": ","}.get(str(thousands)), thousands


def _dates_with_points(column: pl.Series) -> bool:
    head = column.drop_nulls().head(number_marks.SAMPLE).str.strip_chars()
    return bool(head.str.contains(_POINT_DATE).any())


def _times(
    frame: pl.DataFrame,
    name: str,
    asked: Mapping[str, Any],
    known: FileFormat | None,
    assumptions: list[Assumption],
) -> tuple[pl.DataFrame, str | None]:
    """The table with its time column parsed, and its format; None for ISO formats."""
    column, earlier = frame[name], None if known is None else known.time_format
    form = asked.get("time_format")
    if column.dtype.is_numeric() and not column.null_count() and not str(asked.get("freq")).endswith("i"):
        if form == time_forms.EXCEL:
            return _serial(frame, column, [])
        if form is None and time_forms.serial_days(column, named=earlier == time_forms.EXCEL):
            return _serial(frame, column, assumptions)
    if column.dtype.is_float() and not column.null_count() and bool((column == column.floor()).all()):
        column = column.cast(pl.Int64)
    if column.dtype.is_integer() and column.null_count() == 0:
        if form is not None:
            return frame.with_columns(column.cast(pl.String)), None  # read_stamps parses it
        if asked.get("freq") is not None and str(asked["freq"]).endswith("i"):
            return frame, None
        found = time_forms.decide_whole(column, known=earlier)
        if found is None and time_forms.years(column):
            what = f"column {name!r} counts years as whole numbers"
            assumptions.append(Assumption(what, Advice("data.time_format", "%Y")))
    elif column.dtype == pl.String:
        frame, column = _without_notes(frame, column.str.strip_chars(), assumptions)
        if form is not None:
            return frame, None  # read_stamps parses it
        sure = time_forms.week_form(column) or time_forms.fits(column, earlier)
        if not sure and (
            not len(column)
            or column.null_count()
            or bool(column.head(1).str.contains(_OFFSET).any())
            or _is_iso(column)
        ):
            return frame, None
        whole = column.cast(pl.Int64, strict=False)
        found = time_forms.decide_whole(whole, known=earlier) if not whole.null_count() else None
        found = found or time_forms.decide(column, known=earlier)
        if found is not None and found.values.null_count():
            return frame, None  # a cell does not fit: read_stamps names it
    else:
        return frame, None
    if found is None:
        return frame, None
    assumptions += [] if found.assumption is None else [found.assumption]
    values = found.values.alias(name)
    if asked.get("time_zone") is not None and str(found.form).startswith("epoch"):
        values = values.dt.replace_time_zone("UTC")
    return frame.with_columns(values), found.form


def _serial(frame: pl.DataFrame, column: pl.Series, assumptions: list[Assumption]) -> tuple[pl.DataFrame, str | None]:
    """The table with days as workbooks count them turned into dates."""
    values = time_forms.from_serial(column.cast(pl.Float64)).alias(column.name)
    what = f"column {column.name!r} counts days as workbooks do, so that {column[0]} is {values[0]}"
    assumptions.append(Assumption(what, Advice("data.freq", "1i")))
    return frame.with_columns(values), time_forms.EXCEL


def _is_iso(text: pl.Series) -> bool:
    first = text.head(1)
    return any(not time_forms.parse(first, form).null_count() for form in time_forms.ISO_FORMS)


def _without_notes(
    frame: pl.DataFrame, column: pl.Series, assumptions: list[Assumption]
) -> tuple[pl.DataFrame, pl.Series]:
    """The table without last rows that have a word or nothing instead of a time, such as sums and sources."""
    notes = time_forms.notes_at_end(column)
    if not notes:
        return frame, column
    assumptions.append(left_out(frame, notes))
    return frame.head(len(column) - notes), column.head(len(column) - notes)


def _number_columns(frame: pl.DataFrame, asked: Mapping[str, Any]) -> list[str]:
    """The columns that must hold numbers."""
    roles = [asked.get(role) for role in ("future", "historical", "static", "weight", "available_mask")]
    lists = [[value] if isinstance(value, str) else value for value in roles]  # a static table is no list
    names = [name for value in lists if isinstance(value, list | tuple) for name in value]
    if asked.get("wide"):
        names += [name for name in frame.columns if name != asked.get("time_col", "ds")]
    else:
        names.append(asked.get("target_col", "y"))
    categorical = asked.get("categorical") or ()
    return [name for name in dict.fromkeys(names) if name in frame.columns and name not in categorical]


def _bad_numbers(frame: pl.DataFrame, names: list[str]) -> list[DataError]:
    """For each text column that must hold numbers, an error for the first cell that is not one."""
    found = []
    for name in names:
        if frame.schema[name] == pl.String:
            try:
                numbers_from_text(frame[name], lambda row: f"row {row}", DataReport())
            except DataError as error:
                found.append(error)
    return found


def raise_all(problems: Sequence[DataError]) -> None:
    """Raise all problems as one error; return if there are none."""
    everything = list(problems)
    if len(everything) < 2:
        for problem in everything:
            raise problem
        return
    text = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(everything, 1))
    advice = list(dict.fromkeys(one for problem in everything for one in problem.advice))
    raise DataError(f"the table needs {len(everything)} answers before it can be read:\n{text}", advice=advice)
