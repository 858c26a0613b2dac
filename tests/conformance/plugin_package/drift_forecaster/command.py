"""`neuro-divergent drift`: the line through some numbers, continued."""

from __future__ import annotations

import sys


def drift(numbers: str, /, *, h: int = 1) -> int:
    """Continue a line through the first and the last of some numbers.

    Parameters
    ----------
    numbers
        Such as 1,2,4.
    h
        How many steps ahead.
    """
    values = [float(part) for part in numbers.split(",")]
    slope = (values[-1] - values[0]) / max(1, len(values) - 1)
    sys.stdout.write(",".join(f"{values[-1] + step * slope:g}" for step in range(1, h + 1)) + "\n")
    return 0
