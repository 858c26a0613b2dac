"""Output of commands: the result goes to standard output, everything else to standard error."""

from __future__ import annotations

import json
import logging
import math
import shutil
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any


def say(text: str = "") -> None:
    """Print one line of the result to standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print one line about the work to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def aside(json: bool) -> Callable[[str], None]:
    """A function that prints lines beside the result: to standard output for a person, else to standard error."""
    return note if json or not sys.stdout.isatty() else say


def harmless(text: str) -> str:
    """Foreign text as a line that cannot control the terminal: colours, titles and new lines are escaped.

    >>> harmless("loss\\x1b[31m")
    'loss\\\\x1b[31m'
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def say_json(value: Any) -> None:
    """Print the result as JSON. Numbers that are not finite become null."""
    say(json.dumps(_plain(value), indent=2, allow_nan=False, default=str))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, ragged: bool = False) -> str:
    """Aligned columns: the first `left` to the left, the others to the right. If `ragged`, the last one is not padded.

    >>> print(table(["name", "mae"], [["NHITS", "1.20"], ["naive", "12.34"]]))
    name     mae
    NHITS   1.20
    naive  12.34
    """
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [
            cell.ljust(width) if column < left or (ragged and column == len(row) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def fitting(text: str) -> str:
    """The lines cut to the width of the terminal, if there is one: a wrapped table is hard to read."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in text.splitlines())


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 48) -> str:
    """A row of bars from low to high. Each bar is the mean of its part of the values; a dot means that all are missing.

    >>> sparkline([0.0, 1.0, 2.0, 7.0])
    '▁▂▃█'
    """
    means = [_mean(part) for part in _parts(values, width)]
    seen = [value for value in means if math.isfinite(value)]
    if not seen:
        return "·" * len(means)
    low, spread = min(seen), (max(seen) - min(seen)) or 1.0
    top = len(_BARS) - 1
    return "".join(
        _BARS[math.floor((value - low) / spread * top + 0.5)] if math.isfinite(value) else "·" for value in means
    )


def _parts(values: Sequence[float], width: int) -> list[Sequence[float]]:
    count = min(width, len(values))
    edges = [len(values) * number // count for number in range(count + 1)] if count else []
    return [values[first:last] for first, last in pairwise(edges)]


def _mean(values: Sequence[float]) -> float:
    finite = [float(value) for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


class OncePerCause(logging.Handler):
    """Prints warnings of the library on standard error, each sentence once."""

    def __init__(self, worded: Callable[[str, Any], str]) -> None:
        super().__init__(logging.WARNING)
        self._worded = worded
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print the sentence if it was not printed before."""
        sentence = self._worded(record.getMessage(), getattr(record, "advice", ()))
        if sentence not in self._said:
            self._said.add(sentence)
            note(f"neuro-divergent: {record.levelname.lower()}: {sentence}")
