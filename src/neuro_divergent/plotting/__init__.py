"""matplotlib figures of histories, forecasts and cross-validations."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMATS = ("png", "svg", "pdf", "jpg", "jpeg", "webp")


def save(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    """Write a figure atomically, in the format of the file name, and return it. Without a path nothing is written."""
    if path is not None:
        suffix = Path(path).suffix.lstrip(".").lower()
        if suffix not in _FORMATS:
            raise ConfigError(f"the name of a figure must end in {', '.join(_FORMATS)}, but got {os.fspath(path)!r}")
        files.write_bytes(path, render(figure, suffix))
    return figure


def render(figure: Figure, format: str = "png") -> bytes:  # noqa: A002
    """Return the bytes of the figure as an image file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format, dpi=120)
    return buffer.getvalue()


def close(figure: Figure) -> None:
    """Free a figure's memory."""
    figure.clear()
