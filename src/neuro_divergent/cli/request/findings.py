"""Findings about a table, and what to do about each: `data check` prints them, `train` refuses some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuro_divergent.data.schema.load_report import in_number

if TYPE_CHECKING:
    from neuro_divergent.data.schema.load_report import DataReport

LEFT_OUT = "nothing: these steps do not count in training or scores. Or fill them, for the input of the model"
LENIENT = {"duplicates": "last", "infinities": "mask", "missing_exogenous": "forward"}
"""Settings with which a refused table is read again, so that all its problems are reported at once."""


@dataclass(frozen=True)
class Finding:
    """A finding about a table, and what to do."""

    what: str
    todo: str
    refused: bool = False
    """Whether `train` refuses the table because of this finding."""


def findings(report: DataReport, fields: dict[str, Any], apart: str = "") -> list[Finding]:
    """All findings that a person may want to act on; those for which the table is refused come first."""
    found = [*_refused(report, fields, apart), *_rows(report), *_series(report)]
    for name, count in report.text_numbers.items():
        found.append(Finding(in_number(f"numbers of column {name!r} were text", count), "nothing: they were converted"))
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
            Finding(in_number("rows repeat a series and time", report.duplicate_rows), todo, "duplicates" not in fields)
        )
    if report.infinite:
        todo = "correct them, or leave them out of the training: --set data.infinities=mask"
        found.append(Finding(in_number("targets are infinite", report.infinite), todo, "infinities" not in fields))
    for name, count in report.exogenous_filled.items():
        # Rows that were added for gaps are always filled. Only empty cells of the file are refused.
        empty = count - report.gap_rows
        if empty > 0:
            todo = "fill them, or repeat the row before: --set data.missing_exogenous=forward"
            found.append(
                Finding(
                    in_number(f"cells of column {name!r} are empty", empty), todo, "missing_exogenous" not in fields
                )
            )
    return found


def _rows(report: DataReport) -> list[Finding]:
    found = []
    if report.unsorted_rows:
        found.append(Finding(in_number("rows are out of order", report.unsorted_rows), "nothing: they are sorted"))
    if report.gap_rows:
        todo = f"{LEFT_OUT}: --set data.gaps=linear (or forward, zero)"
        found.append(Finding(in_number("rows are missing between other rows", report.gap_rows), todo))
        if report.gap_rows > report.rows_read:
            todo = f"give the true frequency, such as --freq 1d; {report.freq} was found"
            found.append(Finding("more rows are missing than present", todo))
    if report.missing:
        todo = f"{LEFT_OUT}: --set data.missing=linear (or forward, zero)"
        found.append(Finding(in_number("targets are empty", report.missing), todo))
    return found


def _series(report: DataReport) -> list[Finding]:
    found = []
    if report.constant_series:
        todo = "keep them, or leave them out: --set data.constant=drop"
        found.append(Finding(in_number("series never change", len(report.constant_series)), todo))
    if report.merged_targets:
        todo = "keep their digits: --set data.dtype=float64 --set training.precision=float64"
        found.append(Finding(in_number("series differ too little for float32", len(report.merged_targets)), todo))
    if report.all_missing_series:
        todo = "leave them out: --set data.all_missing=drop"
        found.append(Finding(in_number("series have no target at all", len(report.all_missing_series)), todo))
    return found
