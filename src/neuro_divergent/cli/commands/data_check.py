"""`neuro-divergent data check`: report what is in a table, and what to do about each finding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from neuro_divergent.cli.io.terminal import say, say_json, sparkline
from neuro_divergent.cli.request.findings import Finding
from neuro_divergent.cli.request.read_table import examine
from neuro_divergent.cli.request.run_file import Columns, Settings, sections
from neuro_divergent.cli.request.shell_wording import spelled

if TYPE_CHECKING:
    from neuro_divergent.data.schema.load_report import DataReport
    from neuro_divergent.data.table import TimeSeriesDataFrame

NAME_WIDTH = 26
"""Letters of a series' name beside its values, so that a line of both fits 80 columns."""


def check(
    data: Path,
    /,
    *,
    columns: Columns = Columns(),  # noqa: B008  # frozen
    set: Settings = (),  # noqa: A002
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Report what is in a table, and what to do about each finding. The exit code is 1 if `train` would refuse it.

    Parameters
    ----------
    data
        A CSV, Parquet or .xlsx file, or - for standard input.
    set
        Set one field of the data, such as data.duplicates=mean. May be repeated.
    json
        Print JSON.
    """
    fields = sections(None, {"data": columns.fields()}, set)["data"]
    table, found, _ = examine(data, fields)
    report = table.report()
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
                "assumptions": [assumed.sentence(spelled) for assumed in report.assumptions],
                "proposals": [proposed.sentence(spelled) for proposed in report.proposals],
                "findings": [{"what": item.what, "todo": item.todo, "refused": item.refused} for item in found],
            }
        )
    else:
        _print(table, report, found, seasons)
    return int(any(item.refused for item in found))


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
    names = [str(name)[:NAME_WIDTH] for name in table.ids[:3]]
    width = max(map(len, names), default=0)
    for number, name in enumerate(names):
        _, values = recent(table, number, int(table.store.lengths[number]))
        say(f"  {name:{width}}  {sparkline(values.tolist())}")
    for assumed in report.assumptions:
        say(f"assumed: {assumed.sentence(spelled)}")
    for proposed in report.proposals:
        say(f"proposed: {proposed.sentence(spelled)}")
    if not found:
        say("nothing to do: the table is ready to train on")
        return
    for item in found:
        say(f"{'✗' if item.refused else '·'} {item.what}\n    {item.todo}")
