"""Durations and sizes as people write them: "6h", "90s", "2GB"."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from neuro_divergent.core.errors import ConfigError

_SECONDS = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z]+)\s*")


def seconds_of(value: Any, name: str = "timeout") -> float:
    """A duration in seconds, from a number of seconds or a text.

    >>> seconds_of("1h30m"), seconds_of("90s"), seconds_of(5)
    (5400.0, 90.0, 5.0)
    """
    number = _amount(value, _SECONDS)
    if number is None or not 0 < number < float("inf"):
        raise ConfigError(
            f"{name} must be a time above 0: a number of seconds, or a text such as '6h', '1h30m' or '90s', but got "
            f"{name}={value!r}"
        )
    return float(number)


def bytes_of(value: Any, name: str = "max_disk") -> int:
    """A size in bytes, from a number of bytes or a text.

    >>> bytes_of("2GB"), bytes_of("1.5 MiB")
    (2000000000, 1572864)
    """
    number = _amount(value, _BYTES)
    if number is None or not 1 <= number < float("inf"):
        raise ConfigError(
            f"{name} must be a size above 0: a number of bytes, or a text such as '2GB' or '500MB', but got "
            f"{name}={value!r}"
        )
    return int(number)


def _amount(value: Any, units: dict[str, Any]) -> float | None:
    """The sum of the parts of a text, each a number with its unit; None if it is something else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return None
    text = value.strip().lower()
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text) or any(unit not in units for _, unit in parts):
        return None
    return float(sum(float(number) * units[unit] for number, unit in parts))


def _seconds(value: Any, info: ValidationInfo) -> Any:
    return None if value is None else seconds_of(value, str(info.field_name))


def _bytes(value: Any, info: ValidationInfo) -> Any:
    return None if value is None else bytes_of(value, str(info.field_name))


Duration = Annotated[float, BeforeValidator(_seconds)]
"""Seconds; a text such as "6h" becomes seconds."""
Size = Annotated[int, BeforeValidator(_bytes)]
"""Bytes; a text such as "2GB" becomes bytes."""


def in_words(seconds: float) -> str:
    """A duration for a progress line.

    >>> in_words(42), in_words(200), in_words(7300)
    ('42 s', '3 min', '2 h 01 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"
