"""Choose parameters by name patterns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from neuro_divergent.core.errors import ConfigError


def patterns_of(pattern: str | Iterable[str]) -> tuple[str, ...]:
    """One pattern or several, as a tuple."""
    return (pattern,) if isinstance(pattern, str) else tuple(pattern)


def matching(names: Sequence[str], pattern: str) -> list[str]:
    """The names that match a shell-style pattern, or that are inside the layer of that name.

    If there are none, the error lists the closest names.

    >>> matching(["encoder.weight", "encoder.bias", "head.weight"], "encoder.*")
    ['encoder.weight', 'encoder.bias']
    >>> matching(["network.encoder.weight", "network.head.weight"], "encoder")
    ['network.encoder.weight']
    """
    found = [name for name in names if fnmatchcase(name, pattern)]
    found = found or [name for name in names if f".{pattern}." in f".{name}"]
    if not found:
        raise ConfigError(_unmatched(names, pattern))
    return found


def _unmatched(names: Sequence[str], pattern: str) -> str:
    literal = pattern.replace("*", "").strip(".")
    near = difflib.get_close_matches(literal, names, n=3, cutoff=0.3) or list(names[:3])
    return (
        f"a pattern must match at least one parameter name, but got pattern={pattern!r}. "
        f"The closest of the {len(names)} parameters are: {', '.join(near) or 'none, the module has no parameters'}."
    )
