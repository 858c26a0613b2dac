"""Check arguments that must be whole numbers of at least 1."""

from __future__ import annotations

from operator import index
from typing import Any

from neuro_divergent.core.errors import ConfigError


def at_least_one(name: str, value: Any) -> int:
    """Return the value as an int. Raises ConfigError unless it is a whole number of at least 1.

    >>> at_least_one("n_windows", 3)
    3
    """
    try:
        count = 0 if isinstance(value, bool) else index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, but got {name}={value!r}")
    return count
