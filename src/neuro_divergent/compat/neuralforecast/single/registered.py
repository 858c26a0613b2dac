"""What a file may name of the user's, and where it may lie."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.runs.names import is_remote

CLASSES: dict[str, type] = {}
"""The user's losses by the name that files contain."""
REGISTERED: dict[str, Callable[..., Any]] = {}
"""The user's losses and functions by name: files contain only the name."""


def local_path(path: str | os.PathLike[str], *, trust_remote: bool) -> str:
    """A path without its "file://"; a remote address only if it is trusted."""
    text = str(path).removeprefix("file://")
    if is_remote(text) and not trust_remote:
        raise ConfigError(
            f"Refusing to load from the remote path {text}: whoever owns it decides what is read. Copy it, or say "
            "trust_remote=True"
        )
    return text
