"""Numbers that must be whole and at least 1, wherever a user can give them."""

from __future__ import annotations

from operator import index
from typing import Any

from neuro_divergent.core.errors import ConfigError


def at_least_one(name: str, value: Any) -> int:
    """The value as an int; refused with a sentence unless it is a whole number of at least 1.

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
