"""What commands print: aligned tables and plain lines, to standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def say(text: str = "") -> None:
    """One line of the result."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, ragged: bool = False) -> str:
    """Aligned columns: the first `left` to the left, the others, numbers, to the right; the last as it is if ragged.

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
