"""`neuro-divergent data check`: what is in a table, and what to do about each finding."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.terminal import say, say_json, sparkline
from neuro_divergent.cli.request.guess_roles import guess, peek
from neuro_divergent.cli.request.read_table import naming, read_table
from neuro_divergent.cli.request.run_file import Columns, Settings, sections

if TYPE_CHECKING:
    from neuro_divergent.data.schema.load_report import DataReport
    from neuro_divergent.data.table import TimeSeriesDataFrame

# What `train` refuses is let through here, counted and named.
LEFT_OUT = "nothing: the model neither learns from them nor is scored there; or fill them where they are its input"
LENIENT = {"duplicates": "last", "infinities": "mask", "missing_exogenous": "forward"}


@dataclass(frozen=True)
class Finding:
    """Something about a table, and what to do."""

    what: str
    todo: str
    refused: bool = False
    """Whether `train` would refuse the table because of it."""


def check(
    data: Path,
    /,
    *,
    columns: Columns = Columns(),  # noqa: B008  # frozen
    set: Settings = (),  # noqa: A002
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Report what is in a table, and what to do about each finding; exit code 1 if `train` would refuse it.

    Parameters
    ----------
    data
        A CSV or Parquet file.
    set
        One field of the data, such as data.duplicates=mean; may be repeated.
    json
        Print JSON for machines.
    """
    fields = sections(None, {"data": columns.fields()}, set)["data"]
    lenient = {name: value for name, value in LENIENT.items() if name not in fields}
    table = read_table(data, lenient | fields)
    report = table.report()
    found = findings(report, fields, _naming(data, fields) if report.duplicate_rows else "")
    seasons = _seasons(table)
    if json:
        say_json(
            {
                "series": report.n_series,
                "rows": report.rows_stored,
                "freq": report.freq,
                "first": str(report.first_time),
                "last": str(report.last_time),
                "lengths": [int(table.store.lengths.min()), int(table.store.lengths.max())],
                "seasons": seasons,
                "findings": [{"what": item.what, "todo": item.todo, "refused": item.refused} for item in found],
            }
        )
    else:
        _print(table, report, found, seasons)
    return int(any(item.refused for item in found))


def _naming(data: Path, fields: dict[str, Any]) -> str:
    """Which columns would tell rows of the same time apart, if there are some."""
    guessed = guess(peek(data, fields))
    known = guessed.id is not None and guessed.id != fields.get("id_col") and guessed.time == fields.get("time_col")
    return f"{naming(str(guessed.id))} Otherwise " if known else ""


def findings(report: DataReport, fields: dict[str, Any], apart: str = "") -> list[Finding]:
    """Everything that a person may want to do something about, what is refused first."""
    found = [*_refused(report, fields, apart), *_rows(report), *_series(report)]
    for name, count in report.text_numbers.items():
        found.append(Finding(f"{count:,} numbers of column {name!r} came as text", "nothing: they were converted"))
    if report.ignored_columns:
        names = ", ".join(report.ignored_columns)
        todo = "give them a role if they matter: --future (known ahead), --historical, --static or --categorical"
        found.append(Finding(f"columns without a role: {names}", todo))
    return sorted(found, key=lambda item: not item.refused)


def _refused(report: DataReport, fields: dict[str, Any], apart: str) -> list[Finding]:
    found = []
    if report.duplicate_rows:
        todo = f"{apart}take the last one (--set data.duplicates=last) or their mean (--set data.duplicates=mean)"
        found.append(
            Finding(f"{report.duplicate_rows:,} rows repeat a series and time", todo, "duplicates" not in fields)
        )
    if report.infinite:
        todo = "correct them, or leave them out of the training: --set data.infinities=mask"
        found.append(Finding(f"{report.infinite:,} targets are infinite", todo, "infinities" not in fields))
    for name, count in report.exogenous_filled.items():
        # Rows that were added for gaps are filled in any case; only empty cells of the file are refused.
        empty = count - report.gap_rows
        if empty > 0:
            todo = "fill them in, or repeat the row before: --set data.missing_exogenous=forward"
            found.append(
                Finding(f"{empty:,} cells of column {name!r} are empty", todo, "missing_exogenous" not in fields)
            )
    return found


def _rows(report: DataReport) -> list[Finding]:
    found = []
    if report.unsorted_rows:
        found.append(Finding(f"{report.unsorted_rows:,} rows are out of order", "nothing: they are sorted"))
    if report.gap_rows:
        todo = f"{LEFT_OUT}: --set data.gaps=linear (or forward, zero)"
        found.append(Finding(f"{report.gap_rows:,} rows are absent between two others", todo))
        if report.gap_rows > report.rows_read:
            todo = f"say the true distance of two rows, such as --freq 1d; {report.freq} was found"
            found.append(Finding("more rows are absent than there are", todo))
    if report.missing:
        todo = f"{LEFT_OUT}: --set data.missing=linear (or forward, zero)"
        found.append(Finding(f"{report.missing:,} targets are empty", todo))
    return found


def _series(report: DataReport) -> list[Finding]:
    found = []
    if report.constant_series:
        todo = "keep them, or leave them out: --set data.constant=drop"
        found.append(Finding(f"{len(report.constant_series):,} series never change", todo))
    if report.merged_targets:
        todo = "keep their digits: --set data.dtype=float64 --set training.precision=float64"
        found.append(Finding(f"{len(report.merged_targets):,} series differ too little for float32", todo))
    if report.all_missing_series:
        todo = "leave them out: --set data.all_missing=drop"
        found.append(Finding(f"{len(report.all_missing_series):,} series have no target at all", todo))
    return found


def _seasons(table: TimeSeriesDataFrame) -> list[int]:
    from neuro_divergent.data.time import seasonality

    store = table.store
    return list(seasonality.detect(store.y, store.offsets, store.mask, store.freq))


def _print(table: TimeSeriesDataFrame, report: DataReport, found: list[Finding], seasons: list[int]) -> None:
    from neuro_divergent.forecasting.plots import recent

    say("\n".join(report.lines()[:2]))
    shortest, longest = int(table.store.lengths.min()), int(table.store.lengths.max())
    say(
        f"series have {shortest:,} to {longest:,} rows" if shortest != longest else f"every series has {longest:,} rows"
    )
    say(f"seasons found: {', '.join(map(str, seasons))} steps" if seasons else "no season found")
    for number in range(min(3, table.n_series)):
        _, values = recent(table, number, int(table.store.lengths[number]))
        say(f"  {table.ids[number]!s:12.12}  {sparkline(values.tolist())}")
    if not found:
        say("nothing to do: the table is ready to train on")
        return
    for item in found:
        say(f"{'✗' if item.refused else '·'} {item.what}\n    {item.todo}")
