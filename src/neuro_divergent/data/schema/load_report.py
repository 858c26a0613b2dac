"""The report of loading a table: its properties, and a count of every repair."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from neuro_divergent.core.errors import Advice

SHOWN = 5
"""Names that a line of the report lists before it shortens the rest to a count."""


Spell = Callable[[Advice], str]
"""How a setting is written: as a Python argument, or as a flag of the command line."""


class Assumption(NamedTuple):
    """A setting that was detected in a file instead of being given, and the argument that overrides it."""

    what: str
    otherwise: Advice | None = None

    def sentence(self, spell: Spell) -> str:
        """Return the assumption in words, with the setting that overrides it."""
        return self.what if self.otherwise is None else f"{self.what} (otherwise say {spell(self.otherwise)})"


class Proposal(NamedTuple):
    """A setting that seems to fit the table but is not used unless it is given."""

    what: str
    say: tuple[Advice, ...]
    purpose: str

    def sentence(self, spell: Spell) -> str:
        """Return the finding in words, with the settings to give and what they are for."""
        return f"{self.what}: say {' and '.join(spell(advice) for advice in self.say)} {self.purpose}"


def in_python(advice: Advice) -> str:
    """A setting as a Python argument.

    >>> in_python(Advice("data.separator", ";")), in_python(Advice("data.wide", True)), in_python(Advice("data.freq"))
    ("separator=';'", 'wide=True', 'freq=...')
    """
    return f"{advice.field.rpartition('.')[2]}={'...' if advice.value == '...' else repr(advice.value)}"


_SINGULAR = {
    "rows": "row", "targets": "target", "columns": "column", "cells": "cell", "numbers": "number", "were": "was",
    "are": "is", "repeat": "repeats", "series never change": "series never changes", "series differ": "series differs",
    "series have": "series has",
}  # fmt: skip


@dataclass(kw_only=True)
class DataReport:
    """The properties of a loaded table, and the count of every change that loading made. `str` gives it as text."""

    rows_read: int = 0
    rows_stored: int = 0
    n_series: int = 0
    freq: str = ""
    freq_inferred: bool = False
    time_zone: str | None = None
    first_time: Any = None
    last_time: Any = None
    unsorted_rows: int = 0
    """Rows that were out of order."""
    duplicate_rows: int = 0
    """Rows merged into another row of the same series and time."""
    gap_rows: int = 0
    """Rows added for time stamps that were missing inside a series."""
    gaps_by_series: dict[Any, int] = field(default_factory=dict)
    missing: int = 0
    """Rows whose target was empty."""
    missing_by_series: dict[Any, int] = field(default_factory=dict)
    infinite: int = 0
    """Infinite targets that were masked."""
    unavailable: int = 0
    """Rows whose target was excluded by the available_mask column."""
    filled: int = 0
    """Imputed targets. A model reads them in its lookback; they are never training targets and are never scored."""
    masked: int = 0
    """Rows whose target is neither observed nor imputed."""
    exogenous_filled: dict[str, int] = field(default_factory=dict)
    """For each other column, the imputed cells (including rows added for gaps)."""
    text_numbers: dict[str, int] = field(default_factory=dict)
    """For each column, the numbers that were given as text and were converted."""
    vanished: dict[str, int] = field(default_factory=dict)
    """For each column, numbers so small that they became 0 in the chosen precision."""
    merged_targets: dict[Any, int] = field(default_factory=dict)
    """For each series, the number of large, close targets that became equal to another target in float32."""
    constant_series: tuple[Any, ...] = ()
    all_missing_series: tuple[Any, ...] = ()
    short_series: tuple[Any, ...] = ()
    """Series shorter than min_length."""
    dropped_series: tuple[Any, ...] = ()
    padded_rows: int = 0
    """Masked rows added in front of short series."""
    unknown_categories: dict[str, int] = field(default_factory=dict)
    """For each categorical column, the cells (including empty ones) that were counted as unknown."""
    ignored_columns: tuple[str, ...] = ()
    """Columns without a role."""
    notes: list[str] = field(default_factory=list)
    """Decisions worth a sentence, such as the role that a categorical column was found to have."""
    assumptions: list[Assumption] = field(default_factory=list)
    """Settings that were detected in the file instead of being given: separator, marks, date format, column roles."""

    proposals: list[Proposal] = field(default_factory=list)
    """Settings that seem to fit the table, such as lower=0. They are not used unless they are given."""

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
        text += self.notes + [f"assumed: {found.sentence(spell)}" for found in self.assumptions]
        return text + [f"proposed: {found.sentence(spell)}" for found in self.proposals]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(line)}</li>" for line in self.lines())
        return f"<ul>{items}</ul>"


def sparse(freq: str, added: int, rows: int, own: str | None = None) -> str:
    """The message about a frequency that leaves most rows of a table empty, with advice."""
    say = f"The rows look like a frequency of {own}: set freq to it." if own else "Set freq to the true step."
    return (
        f"a frequency of {freq} leaves {100 * added / rows:.0f} % of the rows without a value: {added:,} of {rows:,} "
        f'are missing and masked, so there is little to train on. {say} Set gaps to "error" to refuse such tables.'
    )


def listing(names: Any, shown: int = SHOWN) -> str:
    """The first few names, and the number of the others."""
    names = list(names)
    rest = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(repr(name) for name in names[:shown]) + rest


def in_number(what: str, count: int) -> str:
    """A count and its words, in the singular if it is 1.

    >>> in_number("rows are out of order", 1), in_number("rows are out of order", 1200)
    ('1 row is out of order', '1,200 rows are out of order')
    """
    return f"{count:,} {_one(what, count)}"


def _one(what: str, count: int) -> str:
    """The words in the singular if `count` is 1. A name in quotes, and the words after "other", stay."""
    if count != 1:
        return what
    for several, one in _SINGULAR.items():
        what = re.sub(rf"(?<!other )(?<!')\b{several}\b", one, what)
    return what


def _where(by_series: dict[Any, int]) -> str:
    if not by_series:
        return ""
    worst = sorted(by_series.items(), key=lambda item: -item[1])[:3]
    more = f", {len(by_series) - 3:,} more series" if len(by_series) > 3 else ""
    return f" ({', '.join(f'{name!r}: {count:,}' for name, count in worst)}{more})"
