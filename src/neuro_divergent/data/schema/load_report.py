"""What a table was found to be, and every repair counted."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from neuro_divergent.core.errors import Advice

SHOWN = 5
"""How many names a line of the report shows before it says how many more there are."""


Spell = Callable[[Advice], str]
"""How a setting is written: as a Python argument, or as a flag of the command line."""


class Assumption(NamedTuple):
    """Something that was read out of a file instead of being told, and the setting that says otherwise."""

    what: str
    otherwise: Advice | None = None

    def sentence(self, spell: Spell) -> str:
        """The assumption with the way to say otherwise."""
        return self.what if self.otherwise is None else f"{self.what} (otherwise say {spell(self.otherwise)})"


def in_python(advice: Advice) -> str:
    """A setting as a Python argument.

    >>> in_python(Advice("data.separator", ";")), in_python(Advice("data.wide", True)), in_python(Advice("data.freq"))
    ("separator=';'", 'wide=True', 'freq=...')
    """
    return f"{advice.field.rpartition('.')[2]}={'...' if advice.value == '...' else repr(advice.value)}"


@dataclass(kw_only=True)
class DataReport:
    """Counts of everything that was found and changed; nothing is changed that is not in here."""

    rows_read: int = 0
    rows_stored: int = 0
    n_series: int = 0
    freq: str = ""
    freq_inferred: bool = False
    time_zone: str | None = None
    first_time: Any = None
    last_time: Any = None
    unsorted_rows: int = 0
    """Rows that stood before an earlier row of the sorted table."""
    duplicate_rows: int = 0
    """Rows merged into another of the same series and time."""
    gap_rows: int = 0
    """Rows added because they were absent between two others."""
    gaps_by_series: dict[Any, int] = field(default_factory=dict)
    missing: int = 0
    """Rows whose target was empty."""
    missing_by_series: dict[Any, int] = field(default_factory=dict)
    infinite: int = 0
    """Infinite targets that were masked."""
    unavailable: int = 0
    """Rows that the available_mask column took out."""
    filled: int = 0
    """Targets that a fill method made up: a model sees them as its past, and nothing is learned or scored there."""
    masked: int = 0
    """Rows whose target is neither observed nor filled."""
    exogenous_filled: dict[str, int] = field(default_factory=dict)
    """For each other column, the cells that a fill method made up (rows added for gaps included)."""
    text_numbers: dict[str, int] = field(default_factory=dict)
    """For each column, the numbers that came as text and were converted."""
    vanished: dict[str, int] = field(default_factory=dict)
    """For each column, numbers so small that they became 0 in the chosen precision."""
    merged_targets: dict[Any, int] = field(default_factory=dict)
    """For each series, different targets that became equal to another one in float32: they are large and close."""
    constant_series: tuple[Any, ...] = ()
    all_missing_series: tuple[Any, ...] = ()
    short_series: tuple[Any, ...] = ()
    """Series shorter than min_length."""
    dropped_series: tuple[Any, ...] = ()
    padded_rows: int = 0
    """Masked rows added in front of short series."""
    unknown_categories: dict[str, int] = field(default_factory=dict)
    """For each categorical column, the cells (empty ones included) that went to the unknown bucket."""
    ignored_columns: tuple[str, ...] = ()
    """Columns that no argument gave a role."""
    notes: list[str] = field(default_factory=list)
    """Decisions worth a sentence, such as the role that a categorical column was found to have."""
    assumptions: list[Assumption] = field(default_factory=list)
    """What was read out of the file instead of being told: separator, marks, date form, roles of columns."""

    def lines(self, spell: Spell = in_python) -> list[str]:
        """The report as sentences, only those that have something to say."""
        how = "inferred" if self.freq_inferred else "as given"
        zone = f", time zone {self.time_zone}" if self.time_zone else ""
        text = [
            f"{self.n_series:,} series, {self.rows_stored:,} rows from {self.rows_read:,} read",
            f"frequency {self.freq} ({how}){zone}, {self.first_time} to {self.last_time}",
        ]
        counted = (
            (self.unsorted_rows, "rows were out of order and were sorted"),
            (self.duplicate_rows, "duplicate rows were merged"),
            (self.gap_rows, f"rows were absent and added{_where(self.gaps_by_series)}"),
            (self.missing, f"targets were missing{_where(self.missing_by_series)}"),
            (self.infinite, "infinite targets were masked"),
            (self.unavailable, "targets were taken out by the availability column"),
            (self.filled, "targets were filled: an input, never learned or scored"),
            (self.masked, "rows are masked in the end"),
            (
                sum(self.merged_targets.values()),
                f"targets became equal to another by rounding{_where(self.merged_targets)}",
            ),
            (self.padded_rows, "masked rows were added in front of short series"),
        )
        text += [f"{count:,} {_one(what, count)}" for count, what in counted if count]
        columns = (
            (self.text_numbers, "numbers came as text"),
            (self.exogenous_filled, "cells were filled"),
            (self.vanished, "numbers were too small for the precision and became 0"),
            (self.unknown_categories, "values are not known categories"),
        )
        text += [f"column {name!r}: {count:,} {what}" for group, what in columns for name, count in group.items()]
        named = (
            (self.constant_series, "constant series"),
            (self.all_missing_series, "series without any target"),
            (self.short_series, "series too short"),
            (self.dropped_series, "series dropped"),
            (self.ignored_columns, "columns without a role, ignored"),
        )
        text += [f"{len(names):,} {_one(what, len(names))}: {listing(names)}" for names, what in named if names]
        return text + self.notes + [f"assumed: {found.sentence(spell)}" for found in self.assumptions]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(line)}</li>" for line in self.lines())
        return f"<ul>{items}</ul>"


def sparse(freq: str, added: int, rows: int, own: str | None = None) -> str:
    """What is wrong with a frequency that leaves most rows of a table empty, and what to do about it."""
    say = f"The rows look like a frequency of {own}: say so." if own else "Say the true distance of two rows."
    return (
        f"a frequency of {freq} leaves {100 * added / rows:.0f} % of the rows without a value: {added:,} of {rows:,} "
        f"are absent and masked, so there is little to train on. {say} With gaps as an error it is refused."
    )


def listing(names: Any, shown: int = SHOWN) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    rest = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(repr(name) for name in names[:shown]) + rest


def _one(what: str, count: int) -> str:
    """The words for one thing, if it is one."""
    if count != 1:
        return what
    for several, one in (("rows", "row"), ("targets", "target"), ("columns", "column"), ("were", "was"), ("are", "is")):
        what = re.sub(rf"\b{several}\b", one, what)
    return what


def _where(by_series: dict[Any, int]) -> str:
    if not by_series:
        return ""
    worst = sorted(by_series.items(), key=lambda item: -item[1])[:3]
    more = f", {len(by_series) - 3:,} more series" if len(by_series) > 3 else ""
    return f" ({', '.join(f'{name!r}: {count:,}' for name, count in worst)}{more})"
